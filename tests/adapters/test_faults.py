"""Injected faults of models: each kind does what it says, the same way every time; a question can be asked again."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any, TypedDict

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy
from pydantic import BaseModel, SecretStr

from certigraph.adapters.context import Context
from certigraph.adapters.faults import Faults, FaultyModel
from certigraph.adapters.faults.again import begun_again
from certigraph.adapters.faults.rates import ANSWERING, FAILING, MODEL, WORLD
from certigraph.adapters.models.ask import Prompt, ask, ask_text
from certigraph.adapters.models.chat import model_label
from certigraph.adapters.models.minds import model_for
from certigraph.adapters.models.reply_cache import FILE
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.state.endings import Fault, UnknownName

GOOD = '{"value": 1}'
CALL = {"name": "look", "args": {"at": "the sky"}, "id": "1", "type": "tool_call"}


class Answer(BaseModel):
    value: int


class Patient(BaseChatModel):
    """Always answers GOOD, or with a call of a tool where it has tools."""

    model_name: str = "patient"
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "patient"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[*tools], **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.asked += 1
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        calls = [CALL] if "tools" in kwargs else []
        message = AIMessage("" if calls else GOOD, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def faulty(faults: str) -> FaultyModel:
    return FaultyModel(chat=Patient(), faults=faults)


def heard(model: FaultyModel, question: str) -> str:
    try:
        return model.invoke(question).text
    except openai.OpenAIError as error:
        return type(error).__name__


@given(st.builds(Faults, timeout=st.floats(0, 1), crash=st.floats(0, 1), seed=st.integers(0, 99), start=st.just(2)))
def test_the_text_of_faults_is_read_back(faults: Faults):
    assert Faults.read(str(faults)) == faults


def test_no_faults_are_the_empty_text_and_what_is_usual_is_left_out():
    assert Faults.read("") == Faults.read("  ") == Faults()
    assert str(Faults()) == ""
    assert str(Faults.read(" crash = 0.01, timeout=0.10,seed=0")) == "timeout=0.1,crash=0.01"


@pytest.mark.parametrize("text", ["melt=0.1", "crash=2", "crash=-0.1", "crash=often", "crash", "crash=0.1,crash=0.2"])
def test_a_text_that_names_no_faults_is_answered_with_all_that_are_known(text: str):
    with pytest.raises(UnknownName) as unknown:
        Faults.read(text)
    assert all(name in str(unknown.value) for name in (repr(text), *MODEL, *WORLD, "seed", "retry_after"))


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("timeout", openai.APITimeoutError),
        ("rate_limit", openai.RateLimitError),
        ("server_error", openai.InternalServerError),
        ("dropped", openai.APIConnectionError),
    ],
)
def test_a_request_that_fails_raises_what_the_client_would_and_is_not_asked(kind: str, raised: type[Exception]):
    model = faulty(f"{kind}=1,retry_after=7")
    with pytest.raises(raised, match=f"injected {kind}") as error:
        model.invoke("?")
    with pytest.raises(raised):
        asyncio.run(model.ainvoke("?"))
    assert (model.chat.asked, model.injected) == (0, {kind: 2})
    if kind == "rate_limit":
        assert error.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("kind", ANSWERING)
def test_an_answer_that_is_spoiled_was_asked_for_and_is_billed(kind: str):
    model = faulty(f"{kind}=1")
    for answer in (model.invoke("?"), asyncio.run(model.ainvoke("?"))):
        with pytest.raises(ValueError, match=r"value|JSON"):
            Answer.model_validate_json(answer.text)
        assert answer.usage_metadata["total_tokens"] == 10
        assert answer.response_metadata["injected"] == kind
        assert (answer.response_metadata.get("finish_reason") == "length") == (kind == "truncated")
    assert (model.chat.asked, model.injected) == (2, {kind: 2})
    assert json.loads(faulty("wrong_schema=1").invoke("?").text) != json.loads(GOOD)


def test_a_slow_answer_is_late_and_right():
    model = faulty("slow=1,delay=0.05")
    began = asyncio.run(_timed(model))
    assert began >= 0.05
    assert model.injected == {"slow": 1}


async def _timed(model: FaultyModel) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await model.ainvoke("?")).text == GOOD
    return loop.time() - began


def test_what_strikes_depends_on_the_question_and_how_often_it_was_asked_and_on_nothing_else():
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


def test_rates_are_kept_and_one_kinds_rate_changes_nothing_for_another():
    faults, more = Faults(timeout=0.3), Faults(timeout=0.3, empty=0.5)
    struck = [faults.strikes(MODEL, n) for n in range(500)]
    assert struck.count("timeout") == pytest.approx(150, abs=40)
    assert [kind == "timeout" for kind in struck] == [more.strikes(MODEL, n) == "timeout" for n in range(500)]


def test_a_question_that_failed_may_be_answered_when_asked_again_and_a_run_begun_again_draws_anew():
    model = faulty("server_error=0.5,seed=1")
    assert len({heard(model, "the same") for _ in range(20)}) == 2
    context = Context(faults="server_error=0.5,seed=1")
    again = [begun_again(context, times).faults for times in range(20)]
    assert again[:3] == ["server_error=0.5,seed=1", *(f"server_error=0.5,seed=1,start={n}" for n in (1, 2))]
    assert len({heard(faulty(faults), "the same") for faults in again}) == 2
    assert begun_again(Context(), 3) == Context()


def test_the_model_behind_is_seen_through():
    endpoint = ChatOpenAI(model="gpt-4o", base_url="http://there/v1", api_key=SecretStr("k"), metadata={"weights": "x"})
    model = FaultyModel(chat=endpoint, faults="slow=0.1")
    assert (model_label(model), model.openai_api_base) == ("gpt-4o", "http://there/v1")
    assert model.metadata == endpoint.metadata
    assert model._identifying_params == {**endpoint._identifying_params, "faults": "slow=0.1"}
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = model.nothing_such


@pytest.mark.parametrize("kind", ["", "truncated", "malformed", "empty", "refusal", "wrong_schema"])
def test_calls_of_tools_suffer_as_texts_do(kind: str):
    answer = faulty(f"{kind}=1" if kind else "").bind_tools(["look"]).invoke("?")
    assert [call["args"] for call in answer.tool_calls] == {
        "": [CALL["args"]],
        "wrong_schema": [{"unexpected": [CALL["args"]]}],
    }.get(kind, [])
    assert len(answer.invalid_tool_calls) == (kind in ("truncated", "malformed"))


@pytest.mark.parametrize("include_raw", [False, True])
def test_structured_output_meets_the_faults_too(include_raw: bool):
    endpoint = ChatOpenAI(model="m", base_url="http://127.0.0.1:9/v1", api_key=SecretStr("k"))
    model = FaultyModel(chat=endpoint, faults="rate_limit=1")
    with pytest.raises(openai.RateLimitError, match="injected"):
        model.with_structured_output(Answer, include_raw=include_raw).invoke("?")
    with pytest.raises(openai.RateLimitError, match="injected"):
        model.bind_tools([Answer]).invoke("?")


class Talk(TypedDict):
    said: str


@pytest.mark.parametrize("kind", FAILING)
def test_in_a_graph_of_ones_own_a_node_that_is_retried_gets_its_answer(kind: str):
    model = faulty(f"{kind}=0.5,seed=4")

    async def node(state: Talk) -> Talk:
        return {"said": (await model.ainvoke([HumanMessage("?")])).text}

    graph = StateGraph(Talk)
    policy = RetryPolicy(
        max_attempts=20, initial_interval=0.001, max_interval=0.001, jitter=False, retry_on=openai.OpenAIError
    )
    graph.add_node("node", node, retry_policy=policy)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    done = [asyncio.run(graph.compile().ainvoke({"said": ""})) for _ in range(5)]
    assert done == [{"said": GOOD}] * 5
    assert model.injected[kind] >= 1


def asking(call: Any, faults: str, **given: Any) -> Any:
    runtime = Runtime(context=Context(chat=Patient(), faults=faults, **given))
    return asyncio.run(call(runtime))


@pytest.mark.parametrize("kind", ["truncated", "empty", "refusal", "wrong_schema"])
def test_operators_that_ask_get_an_answer_in_three_tries_or_a_fault_of_the_model(kind: str):
    def call(runtime: Any) -> Any:
        return ask(Prompt("s", "u"), Answer, role="planner", runtime=runtime)

    assert asking(call, f"{kind}=0.5,seed=2") == Answer(value=1)
    with pytest.raises(Fault, match="gave no Answer in 3 tries") as fault:
        asking(call, f"{kind}=1")
    assert fault.value.ending == "error:model"


def test_an_injected_fault_is_no_reply_to_keep(tmp_path: Path):
    def call(runtime: Any) -> Any:
        return ask_text(Prompt("s", "u"), role="planner", runtime=runtime)

    assert asking(call, "refusal=1", cache=str(tmp_path)) == "I cannot help with that."
    assert not (tmp_path / FILE).exists()
    assert asking(call, "", cache=str(tmp_path)) == GOOD
    assert (tmp_path / FILE).exists()


def test_the_context_puts_faults_on_every_role_and_none_where_it_names_none():
    by_name = Context(model="scripted:first", faults="empty=1,seed=2", trial=3)
    wrapped = asyncio.run(model_for("judge", by_name))
    assert isinstance(wrapped, FaultyModel)
    assert (wrapped.chat.model_name, wrapped.faults.empty, wrapped.trial) == ("scripted:first", 1.0, 3)
    chat = ScriptedChat()
    assert asyncio.run(model_for("judge", Context(chat=chat))) is chat
