"""Tests of `adapters.models.faults`."""

import asyncio
import json
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest
from helpers.models.faulty_models import CALL, GOOD, AnsweringModel, faulty_model, reply_or_error
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import BaseModel, SecretStr

from certigraph.adapters.faults import ANSWER_FAULTS, MODEL_FAULTS
from certigraph.adapters.models.calls import ask, ask_text, model_for
from certigraph.adapters.models.chat_models import model_label
from certigraph.adapters.models.faults import FaultyEndpoint, FaultyModel, faulty_endpoint
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.reply_cache import CACHE_FILE
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.state.endings import Fault

# Injected faults of models: each kind does what it says, the same every time; the model behind shows through.


class Answer(BaseModel):
    value: int


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("timeout", openai.APITimeoutError),
        ("rate_limit", openai.RateLimitError),
        ("server_error", openai.InternalServerError),
        ("dropped", openai.APIConnectionError),
    ],
)
def test_a_request_that_fails_raises_what_the_client_would_and_is_not_queried(
    kind: str, raised: type[Exception]
) -> None:
    model = faulty_model(f"{kind}=1,retry_after=7")
    with pytest.raises(raised, match=f"injected {kind}") as error:
        model.invoke("?")
    with pytest.raises(raised):
        asyncio.run(model.ainvoke("?"))
    assert (model.chat.requests, model.injected) == (0, {kind: 2})
    if kind == "rate_limit":
        assert error.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("kind", ANSWER_FAULTS)
def test_an_answer_that_is_spoiled_was_requested_and_is_counted(kind: str) -> None:
    model = faulty_model(f"{kind}=1")
    for answer in (model.invoke("?"), asyncio.run(model.ainvoke("?"))):
        with pytest.raises(ValueError, match=r"value|JSON"):
            Answer.model_validate_json(answer.text)
        assert answer.usage_metadata["total_tokens"] == 10
        assert answer.response_metadata["injected"] == kind
        assert (answer.response_metadata.get("finish_reason") == "length") == (kind == "truncated")
    assert (model.chat.requests, model.injected) == (2, {kind: 2})
    assert json.loads(faulty_model("wrong_schema=1").invoke("?").text) != json.loads(GOOD)


def test_a_slow_answer_is_late_and_right() -> None:
    model = faulty_model("slow=1,delay=0.05")
    began = asyncio.run(_timed(model))
    assert began >= 0.05
    assert model.injected == {"slow": 1}


async def _timed(model: FaultyModel) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await model.ainvoke("?")).text == GOOD
    return loop.time() - began


@pytest.mark.slow
def test_what_strikes_depends_on_the_question_and_how_often_it_was_queried_and_on_nothing_else() -> None:
    rates = ",".join(f"{kind}=0.08" for kind in MODEL_FAULTS) + ",delay=0,seed=5"
    questions = [f"question {n % 40}" for n in range(120)]
    one = faulty_model(rates)
    inturn = [reply_or_error(one, question) for question in questions]
    other = faulty_model(rates)
    batched = asyncio.run(_together(other, questions))
    assert Counter(batched) == Counter(inturn)
    assert one.injected == other.injected
    assert set(one.injected) == set(MODEL_FAULTS)
    assert [reply_or_error(faulty_model(rates + "1"), question) for question in questions] != inturn


async def _together(model: FaultyModel, questions: list[str]) -> list[str]:
    async def one(question: str) -> str:
        try:
            return (await model.ainvoke(question)).text
        except openai.OpenAIError as error:
            return type(error).__name__

    return await asyncio.gather(*map(one, questions))


def test_the_model_behind_is_seen_through() -> None:
    endpoint = ChatOpenAI(model="gpt-4o", base_url="http://there/v1", api_key=SecretStr("k"), metadata={"weights": "x"})
    model = FaultyModel(chat=endpoint, faults="slow=0.1")
    assert (model_label(model), model.openai_api_base) == ("gpt-4o", "http://there/v1")
    assert model.metadata == endpoint.metadata
    assert model._identifying_params == {**endpoint._identifying_params, "faults": "slow=0.1"}
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = model.nothing_such


@pytest.mark.parametrize("kind", ["", "truncated", "malformed", "empty", "refusal", "wrong_schema"])
def test_calls_of_tools_suffer_as_texts_do(kind: str) -> None:
    answer = faulty_model(f"{kind}=1" if kind else "").bind_tools(["look"]).invoke("?")
    assert [call["args"] for call in answer.tool_calls] == {
        "": [CALL["args"]],
        "wrong_schema": [{"unexpected": [CALL["args"]]}],
    }.get(kind, [])
    assert len(answer.invalid_tool_calls) == (kind in ("truncated", "malformed"))


@pytest.mark.parametrize("include_raw", [False, True])
def test_structured_output_meets_the_faults_too(include_raw: bool) -> None:
    endpoint = ChatOpenAI(model="m", base_url="http://127.0.0.1:9/v1", api_key=SecretStr("k"))
    model = FaultyModel(chat=endpoint, faults="rate_limit=1")
    with pytest.raises(openai.RateLimitError, match="injected"):
        model.with_structured_output(Answer, include_raw=include_raw).invoke("?")
    with pytest.raises(openai.RateLimitError, match="injected"):
        model.bind_tools([Answer]).invoke("?")


# Injected faults where a model is used: in operators, in a graph of one's own, in the roles of a run.


def asking(call: Any, faults: str, **given: Any) -> Any:
    runtime = Runtime(context=Context(chat=AnsweringModel(), faults=faults, **given))
    return asyncio.run(call(runtime))


@pytest.mark.parametrize("kind", ["truncated", "empty", "refusal", "wrong_schema"])
def test_operators_that_ask_get_an_answer_in_three_tries_or_a_fault_of_the_model(kind: str) -> None:
    def call(runtime: Any) -> Any:
        return ask(Prompt("s", "u"), Answer, role="planner", runtime=runtime)

    answers: list[Any] = []
    for seed in range(8):  # which calls fail depends on the prompt, which says what was wrong
        with suppress(Fault):
            answers.append(asking(call, f"{kind}=0.5,seed={seed}"))
    assert answers and all(answer == Answer(value=1) for answer in answers)
    with pytest.raises(Fault, match="gave no Answer in 3 tries") as fault:
        asking(call, f"{kind}=1")
    assert fault.value.ending == "error:model"


def test_an_injected_fault_is_not_a_reply_to_keep(tmp_path: Path) -> None:
    def call(runtime: Any) -> Any:
        return ask_text(Prompt("s", "u"), role="planner", runtime=runtime)

    assert asking(call, "refusal=1", cache=str(tmp_path)) == "I cannot help with that."
    assert not (tmp_path / CACHE_FILE).exists()
    assert asking(call, "", cache=str(tmp_path)) == GOOD
    assert (tmp_path / CACHE_FILE).exists()


def test_the_context_puts_faults_on_every_role_and_none_where_it_names_none() -> None:
    by_name = Context(model="scripted:first", faults="empty=1,seed=2", trial=3)
    wrapped = asyncio.run(model_for("judge", by_name))
    assert isinstance(wrapped, FaultyModel)
    assert (wrapped.chat.model_name, wrapped.faults.empty, wrapped.trial) == ("scripted:first", 1.0, 3)
    chat = ScriptedChat()
    assert asyncio.run(model_for("judge", Context(chat=chat))) is chat


# The faulty endpoint: what OpenAI's client makes of each fault, with and without its own retries.

GOOD_WIRE = '{"value": 1}'


def good(schema: dict[str, Any]) -> str:
    assert schema["messages"]
    return GOOD_WIRE


def get_reply(server: FaultyEndpoint, *, retries: int = 0) -> str:
    chat = ChatOpenAI(
        base_url=server.url, api_key=SecretStr("none"), model="m", max_retries=retries, timeout=2, temperature=0
    )
    try:
        return chat.invoke("?").text
    except (openai.OpenAIError, ValueError) as error:
        return type(error).__mro__[1].__name__


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "heard"),
    [
        ("timeout", "APITimeoutError"),
        ("rate_limit", "RateLimitError"),
        ("server_error", "InternalServerError"),
        ("dropped", "APIConnectionError"),
        ("truncated", "APIConnectionError"),
        ("malformed", "ValueError"),
        ("empty", ""),
        ("refusal", "I cannot help with that."),
        ("wrong_schema", json.dumps({"unexpected": [GOOD_WIRE]})),
        ("slow", GOOD_WIRE),
    ],
)
def test_each_kind_on_the_wire(kind: str, heard: str) -> None:
    with faulty_endpoint(f"{kind}=1,retry_after=3", good) as server:
        assert get_reply(server) == heard
    assert (server.requests, server.injected) == (1, {kind: 1})


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [("rate_limit", 1), ("truncated", 2)])
def test_the_clients_own_retries_outlast_a_fault_that_passes(kind: str, seed: int) -> None:
    with faulty_endpoint(f"{kind}=0.5,retry_after=0.01,seed={seed}", good) as server:
        assert [get_reply(server, retries=6) for _ in range(2)] == [GOOD_WIRE] * 2
    assert server.injected[kind] >= 1
    assert server.requests == server.injected[kind] + 2


@pytest.mark.slow
def test_in_front_of_another_endpoint_answers_and_refusals_are_passed_on() -> None:
    with faulty_endpoint("", good) as behind, faulty_endpoint("server_error=0.4,seed=2", behind.url) as before:
        heard = [get_reply(before, retries=6) for _ in range(3)]
    assert heard == [GOOD_WIRE] * 3
    assert before.injected["server_error"] == before.requests - behind.requests > 0
    with faulty_endpoint("", before.url) as lost:
        assert get_reply(lost) == "InternalServerError"


@pytest.mark.slow
def test_a_slow_body_comes_in_pieces() -> None:
    with faulty_endpoint("slow=1,delay=0.2", good) as server:
        request = urllib.request.Request(f"{server.url}/chat/completions", b'{"messages": [1]}')
        with urllib.request.urlopen(request) as response:
            first, began = response.read1(10_000), time.monotonic()
            rest = response.read()
    assert time.monotonic() - began >= 0.1
    assert rest
    assert json.loads(first + rest)["choices"][0]["message"]["content"] == GOOD_WIRE
