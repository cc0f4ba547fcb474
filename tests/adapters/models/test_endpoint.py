"""Tests of `adapters.models.endpoint`."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from helpers.servers.endpoint_stub import LocalServer, QuietHandler, completion, serving, stub
from helpers.servers.misbehaving_endpoint import KINDS, MIXED, MisbehavingEndpoint, misbehaving_endpoint
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import BaseModel, SecretStr

from certigraph.adapters.faults import Faults
from certigraph.adapters.models import calls as trying
from certigraph.adapters.models.calls import ask, ask_text
from certigraph.adapters.models.chat_models import find_refused_parameter
from certigraph.adapters.models.endpoint import MAX_WAIT_SECONDS, TransientFault, fault_of
from certigraph.adapters.models.faults import FaultyModel, create_client_error, faulty_endpoint
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.web.sources import ModelSearch
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, LimitReached

# What endpoints do wrong: each request is one call on record, and no answer costs more memory than it is worth.

LONG = ("huge", "bomb")
GRANTED = 12
GOOD = '{"value": 1}'


class Answer(BaseModel):
    value: int


def answered(model: Any, **settings: Any) -> tuple[Any, Meter]:
    """What an operator is answered by a model, or the fault that it meets, and what was charged."""
    given = {"model": model} if isinstance(model, str) else {"chat": model}

    async def inside() -> Any:
        try:
            context = Context(**given)
            return await ask(Prompt("s", "u"), Answer, role="planner", runtime=Runtime(context=context), **settings)
        except Fault as fault:
            return fault

    with metering(Meter("propose", Budget())) as meter:
        return asyncio.run(inside()), meter


def run_at(server: MisbehavingEndpoint, out: Path, monkeypatch: pytest.MonkeyPatch, **budget: Any) -> Result:
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    context = Context(model="openai:m", budget=Budget(**{"calls": GRANTED, **budget}))
    return run("sdp", "blocksworld", "4-0", context=context, out=out, on_error="ignore")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in (*KINDS, MIXED) if kind not in LONG])
@pytest.mark.filterwarnings("ignore:Pydantic serializer")
def test_every_request_is_one_call_on_record_and_none_is_more_than_granted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving_endpoint(kind) as server:
        result = run_at(server, tmp_path, monkeypatch, **({"seconds": 0.3} if kind == "never" else {}))
        assert result.usage.calls == server.count <= GRANTED
        assert result.ending in ("goal", "error:model", "limit:calls", "limit:seconds"), result.message


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no_usage", "odd_usage", "surrogate"])
@pytest.mark.filterwarnings("ignore:Pydantic serializer")
def test_odd_answers_are_used_and_their_tokens_counted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving_endpoint(kind) as server:
        result = run_at(server, tmp_path, monkeypatch)
    assert (result.ending, result.usage.calls) == ("goal", server.count)
    calls = [call for event in result.trajectory.events for call in event.calls]
    assert all(call["input_tokens"] and call["output_tokens"] for call in calls)


@pytest.mark.slow
@pytest.mark.parametrize("refusal", ["refuses_schema", "refuses_schema_unnamed", "refuses_temperature"])
def test_a_refusal_costs_one_call_for_each_model_and_parameter(
    refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving_endpoint() as server:
        usual = run_at(server, tmp_path / "usual", monkeypatch).usage.calls
    with misbehaving_endpoint(refusal) as server:
        for number, more in enumerate((1, 0)):
            result = run_at(server, tmp_path / str(number), monkeypatch)
            assert (result.ending, result.usage.calls) == ("goal", usual + more)


@pytest.mark.parametrize(
    ("message", "param", "left_out"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature", "temperature"),
        ("Use 'max_completion_tokens' instead of 'max_tokens'.", "max_tokens", "max_tokens"),
        ("unknown field reasoning_effort", None, "reasoning_effort"),
        ("`seed` is not allowed here", None, "seed"),
        ("json_schema output is not enabled", None, "response_format"),
        ("This model's maximum context length is 4096 tokens", "messages", ""),
        ("no", None, ""),
    ],
)
def test_the_parameter_that_an_endpoint_names_is_found(message: str, param: str | None, left_out: str) -> None:
    error = ValueError(message)
    error.param = param  # type: ignore[attr-defined]
    sent = {"temperature", "max_tokens", "reasoning_effort", "seed", "response_format"}
    assert find_refused_parameter(error, sent) == left_out


@pytest.mark.parametrize("kind", ["refuses_temperature", "fails_first"])
@pytest.mark.parametrize("wrap", [lambda chat: chat, lambda chat: FaultyModel(chat=chat, faults="crash=0,seed=3")])
def test_a_chat_object_of_ones_own_leaves_out_what_is_refused_and_its_repetitions_are_calls(
    kind: str, wrap: Callable[[ChatOpenAI], Any]
) -> None:
    with misbehaving_endpoint(kind, lambda _: GOOD) as server:
        chat = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("none"), temperature=0.7, max_retries=2)
        result, meter = answered(wrap(chat))
    assert (result, meter.calls, server.count) == (Answer(value=1), 2, 2)
    assert chat.temperature == 0.7


@pytest.mark.parametrize("name", ["o1", "o3", "o3-mini-2025-01-31", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-4o"])
def test_a_temperature_is_not_sent_to_models_that_reason(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with stub(GOOD) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        assert answered(f"openai:{name}")[0] == Answer(value=1)
        assert answered(f"openai:{name}", temperature=0.4)[0] == Answer(value=1)
        assert ["temperature" in request for request in server.requests] == [name == "gpt-4o"] * 2


@pytest.mark.parametrize(
    ("message", "lasting"),
    [
        ("'max_tokens' is too large: 512. This model's maximum context length is 4096", False),
        ("Unsupported parameter: 'max_tokens'", True),
    ],
)
def test_a_length_too_large_for_one_request_is_sent_again_with_the_next(message: str, lasting: bool) -> None:
    refused: list[bool] = []

    class Refusing(ScriptedChat):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            refused.append("max_tokens" in kwargs)
            if refused[-1]:
                error = ValueError(message)
                error.status_code = 400  # type: ignore[attr-defined]
                raise error
            return super()._generate(*args, **kwargs)

    runtime = Runtime(context=Context(chat=Refusing()))
    with metering(Meter("propose", Budget())):
        for _ in range(2):
            asyncio.run(ask_text(Prompt("s", "u"), role="planner", runtime=runtime, tokens=512))
    assert refused == ([True, False, False] if lasting else [True, False, True, False])


def test_redirects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name that the base class calls
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(307)
            self.send_header("Location", target.url + "/chat/completions")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with stub(GOOD) as target, serving(LocalServer(Elsewhere, "/v1")) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        fault, meter = answered("openai:m")
    assert isinstance(fault, Fault) and "CERTIGRAPH_BASE_URL" in str(fault)
    assert meter.calls == 1 and target.requests == []


def test_each_request_of_a_searching_model_is_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certigraph.adapters.web.search.sleep", lambda seconds: None)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with misbehaving_endpoint("fails_first", lambda _: "nothing") as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        with metering(Meter("act", Budget())) as meter:
            ModelSearch("gpt-4o-search-preview").search("gyms", 3)
        assert server.count == meter.calls == 2
        with metering(Meter("act", Budget(calls=1))) as meter, pytest.raises(Exception, match="1 of 1 calls"):
            ModelSearch("gpt-4o-search-preview").search("gyms", 3)
        assert meter.calls == 1 and server.count == 3


PEAK = """
import json, os, resource, sys
from certigraph.adapters.protocols import Budget, Context
from certigraph.runtime.run import run
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
def ran():
    context = Context(model="openai:m")
    return run("sdp", "blocksworld", "4-0", context=context, out=sys.argv[1], on_error="ignore")
os.environ["CERTIGRAPH_BASE_URL"] = sys.argv[2]
assert ran().ending == "goal"
before = peak()
os.environ["CERTIGRAPH_BASE_URL"] = sys.argv[3]
result = ran()
print(json.dumps([result.ending, result.usage.calls, result.message, peak() - before]))
"""


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_an_endless_answer_ends_the_run_and_costs_little_memory(kind: str, tmp_path: Path) -> None:
    with misbehaving_endpoint() as healthy, misbehaving_endpoint(kind) as server:
        command = [sys.executable, "-c", PEAK, str(tmp_path), healthy.url, server.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ, timeout=240)
    ending, calls, message, megabytes = json.loads(done.stdout.splitlines()[-1])
    assert (ending, calls, server.count) == ("error:model", 1, 1)
    assert "has more than" in message
    assert megabytes < 100


# Endpoints that fail: what may pass is asked again, each time as a call of the budget; no body does harm.


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits long where an endpoint asks for nothing."""
    monkeypatch.setattr(trying, "RETRY_PAUSES", (99.0, 99.0))


def query_endpoint(url: str, **budget: Any) -> tuple[Any, Meter]:
    """What an operator is answered, or the fault or limit that it meets."""

    async def inside() -> Any:
        runtime = Runtime(context=Context(model="openai:stub"))
        try:
            return await ask(Prompt("s", "u"), Answer, role="planner", runtime=runtime)
        except (Fault, LimitReached) as stopped:
            return stopped

    with pytest.MonkeyPatch.context() as patch, metering(Meter("propose", Budget(**budget))) as meter:
        patch.setenv("CERTIGRAPH_BASE_URL", url)
        patch.delenv("OPENAI_API_KEY", raising=False)
        return asyncio.run(inside()), meter


@pytest.mark.parametrize(("kind", "seed"), [("rate_limit", 0), ("server_error", 0), ("dropped", 1), ("truncated", 1)])
def test_a_request_that_failed_in_passing_is_repeated_and_each_time_is_a_call(kind: str, seed: int) -> None:
    with faulty_endpoint(f"{kind}=0.5,retry_after=0,seed={seed}", lambda _: GOOD) as server:
        answer, meter = query_endpoint(server.url)
    assert answer == Answer(value=1)
    assert [bool(call.failure) for call in meter.records] == [True] * server.injected[kind] + [False]
    assert server.requests == meter.calls > 1


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_no_request_is_repeated_beyond_the_budget_or_the_third_time(calls: int) -> None:
    with faulty_endpoint("server_error=1", lambda _: GOOD) as server:
        stopped, meter = query_endpoint(server.url, calls=calls)
    assert stopped.ending == ("error:model" if calls == 3 else "limit:calls")
    assert (server.requests, meter.calls) == (calls, calls)


@pytest.mark.usefixtures("patient")
def test_as_long_as_the_endpoint_asks_is_waited() -> None:
    with faulty_endpoint("rate_limit=0.5,retry_after=0.1,seed=1", lambda _: GOOD) as server:
        began = time.monotonic()
        answer, _ = query_endpoint(server.url)
    assert answer == Answer(value=1)
    assert 0.1 * server.injected["rate_limit"] <= time.monotonic() - began < 9


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_the_seconds_of_the_budget_go_on_while_it_is_waited() -> None:
    with faulty_endpoint("server_error=1", lambda _: GOOD) as server:
        stopped, meter = query_endpoint(server.url, seconds=2)
    assert (stopped.ending, meter.calls, server.requests) == ("limit:seconds", 1, 1)
    assert meter.spent().seconds < 9


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("0.5", 0.5), ("", 0), ("soon", 0), ("-3", 0), ("nan", 0), ("inf", MAX_WAIT_SECONDS), ("999", MAX_WAIT_SECONDS)],
)
def test_what_an_endpoint_asks_to_wait_is_read_and_bounded(header: str, seconds: float) -> None:
    error = create_client_error("rate_limit", Faults(retry_after=1))
    assert isinstance(error, openai.RateLimitError)
    error.response.headers["retry-after"] = header
    fault = fault_of(error, ScriptedChat())
    assert isinstance(fault, TransientFault) and fault.wait == seconds


def spoilt(**parts: Any) -> bytes:
    return json.dumps({**completion(GOOD, "stop"), **parts}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"[]",
        b'{"error": {"message": "no"}}',
        b'{"a": "\xff\xfe"}',
        b"[" * 100_000,
        spoilt(choices=None),
        spoilt(choices=[]),
        spoilt(choices=["x"]),
        spoilt(choices=[{"index": 0, "message": None, "finish_reason": "stop"}]),
    ],
    ids=range(9),
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer")
def test_a_body_that_is_not_a_completion_is_the_endpoints_fault_and_was_paid_for(body: bytes) -> None:
    with stub(GOOD) as server:
        server.body = body
        fault, meter = query_endpoint(server.url)
    assert isinstance(fault, TransientFault) and "CERTIGRAPH_BASE_URL" in str(fault) and "\n" not in str(fault)
    assert len(server.requests) == meter.calls == 3
