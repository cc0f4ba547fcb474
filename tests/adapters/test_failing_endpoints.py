"""Endpoints that fail: what may pass is asked again, each time as a call of the budget; no body does harm."""

import asyncio
import email.utils
import json
import time
from typing import Any

import openai
import pytest
from endpoint_stub import completion, stub
from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.faults import Faults
from certigraph.adapters.models import calls as trying
from certigraph.adapters.models.calls import Prompt, ask
from certigraph.adapters.models.endpoint import LONGEST_WAIT, PassingFault, fault_of
from certigraph.adapters.models.faults import client_error, faulty_endpoint
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.state.records import Fault, LimitReached

GOOD = '{"value": 1}'


class Answer(BaseModel):
    value: int


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits long where an endpoint asks for nothing."""
    monkeypatch.setattr(trying, "PAUSES", (99.0, 99.0))


def asked(url: str, **budget: Any) -> tuple[Any, Meter]:
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


@pytest.mark.parametrize(("kind", "seed"), [("rate_limit", 1), ("server_error", 0), ("dropped", 0), ("truncated", 1)])
def test_a_request_that_failed_in_passing_is_repeated_and_each_time_is_a_call(kind: str, seed: int) -> None:
    with faulty_endpoint(f"{kind}=0.5,retry_after=0,seed={seed}", lambda _: GOOD) as server:
        answer, meter = asked(server.url)
    assert answer == Answer(value=1)
    assert [bool(call.failure) for call in meter.records] == [True] * server.injected[kind] + [False]
    assert server.requests == meter.calls > 1


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_no_request_is_repeated_beyond_the_budget_or_the_third_time(calls: int) -> None:
    with faulty_endpoint("server_error=1", lambda _: GOOD) as server:
        stopped, meter = asked(server.url, calls=calls)
    assert stopped.ending == ("error:model" if calls == 3 else "limit:calls")
    assert (server.requests, meter.calls) == (calls, calls)


@pytest.mark.usefixtures("patient")
def test_as_long_as_the_endpoint_asks_is_waited() -> None:
    with faulty_endpoint("rate_limit=0.5,retry_after=0.1,seed=1", lambda _: GOOD) as server:
        began = time.monotonic()
        answer, _ = asked(server.url)
    assert answer == Answer(value=1)
    assert 0.1 * server.injected["rate_limit"] <= time.monotonic() - began < 9


@pytest.mark.usefixtures("patient")
def test_the_seconds_of_the_budget_go_on_while_it_is_waited() -> None:
    with faulty_endpoint("server_error=1", lambda _: GOOD) as server:
        stopped, meter = asked(server.url, seconds=0.15)
    assert (stopped.ending, meter.calls, server.requests) == ("limit:seconds", 1, 1)
    assert meter.spent().seconds < 9


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("7", 7), ("0.5", 0.5), ("", 0), ("soon", 0), ("-3", 0), ("nan", 0), ("inf", LONGEST_WAIT), ("999", LONGEST_WAIT)],
)
def test_what_an_endpoint_asks_to_wait_is_read_and_bounded(told: str, seconds: float) -> None:
    assert waits(told) == seconds


def test_a_date_until_which_to_wait_is_read_too() -> None:
    assert waits(email.utils.formatdate(time.time() + 20, usegmt=True)) == pytest.approx(20, abs=3)
    assert waits("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert waits("Wed, 21 Oct 9999 99:28:00 GMT") == 0


def waits(told: str) -> float:
    error = client_error("rate_limit", Faults(retry_after=1))
    assert isinstance(error, openai.RateLimitError)
    error.response.headers["retry-after"] = told
    fault = fault_of(error, ScriptedChat())
    assert isinstance(fault, PassingFault)
    return fault.wait


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
def test_a_body_that_is_no_completion_is_the_endpoints_fault_and_was_paid_for(body: bytes) -> None:
    with stub(GOOD) as server:
        server.body = body
        fault, meter = asked(server.url)
    assert isinstance(fault, PassingFault) and "CERTIGRAPH_BASE_URL" in str(fault) and "\n" not in str(fault)
    assert len(server.requests) == meter.calls == 3
