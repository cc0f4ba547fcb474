"""Injected faults of models: each kind does what it says, the same every time; the model behind shows through."""

import asyncio
import json
from collections import Counter

import openai
import pytest
from langchain_openai import ChatOpenAI
from patient import CALL, GOOD, faulty, heard
from pydantic import BaseModel, SecretStr

from certigraph.adapters.faults import ANSWERING, MODEL
from certigraph.adapters.models.chat_models import model_label
from certigraph.adapters.models.faults import FaultyModel


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
def test_a_request_that_fails_raises_what_the_client_would_and_is_not_asked(kind: str, raised: type[Exception]) -> None:
    model = faulty(f"{kind}=1,retry_after=7")
    with pytest.raises(raised, match=f"injected {kind}") as error:
        model.invoke("?")
    with pytest.raises(raised):
        asyncio.run(model.ainvoke("?"))
    assert (model.chat.asked, model.injected) == (0, {kind: 2})
    if kind == "rate_limit":
        assert error.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("kind", ANSWERING)
def test_an_answer_that_is_spoiled_was_asked_for_and_is_billed(kind: str) -> None:
    model = faulty(f"{kind}=1")
    for answer in (model.invoke("?"), asyncio.run(model.ainvoke("?"))):
        with pytest.raises(ValueError, match=r"value|JSON"):
            Answer.model_validate_json(answer.text)
        assert answer.usage_metadata["total_tokens"] == 10
        assert answer.response_metadata["injected"] == kind
        assert (answer.response_metadata.get("finish_reason") == "length") == (kind == "truncated")
    assert (model.chat.asked, model.injected) == (2, {kind: 2})
    assert json.loads(faulty("wrong_schema=1").invoke("?").text) != json.loads(GOOD)


def test_a_slow_answer_is_late_and_right() -> None:
    model = faulty("slow=1,delay=0.05")
    began = asyncio.run(_timed(model))
    assert began >= 0.05
    assert model.injected == {"slow": 1}


async def _timed(model: FaultyModel) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await model.ainvoke("?")).text == GOOD
    return loop.time() - began


def test_what_strikes_depends_on_the_question_and_how_often_it_was_asked_and_on_nothing_else() -> None:
    rates = ",".join(f"{kind}=0.08" for kind in MODEL) + ",delay=0,seed=5"
    questions = [f"question {n % 40}" for n in range(120)]
    one = faulty(rates)
    inturn = [heard(one, question) for question in questions]
    other = faulty(rates)
    batched = asyncio.run(_together(other, questions))
    assert Counter(batched) == Counter(inturn)
    assert one.injected == other.injected
    assert set(one.injected) == set(MODEL)
    assert [heard(faulty(rates + "1"), question) for question in questions] != inturn


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
    answer = faulty(f"{kind}=1" if kind else "").bind_tools(["look"]).invoke("?")
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
