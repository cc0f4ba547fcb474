"""Injected faults where a model is used: in operators, in a graph of one's own, in the roles of a run."""

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import openai
import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy
from patient import GOOD, Patient, faulty
from pydantic import BaseModel

from certigraph.adapters.faults import FAILING
from certigraph.adapters.models.calls import FILE, Prompt, ask, ask_text, model_for
from certigraph.adapters.models.faults import FaultyModel
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.state.records import Fault


class Answer(BaseModel):
    value: int


class Talk(TypedDict):
    said: str


@pytest.mark.parametrize("kind", FAILING)
def test_in_a_graph_of_ones_own_a_node_that_is_retried_gets_its_answer(kind: str) -> None:
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
def test_operators_that_ask_get_an_answer_in_three_tries_or_a_fault_of_the_model(kind: str) -> None:
    def call(runtime: Any) -> Any:
        return ask(Prompt("s", "u"), Answer, role="planner", runtime=runtime)

    assert asking(call, f"{kind}=0.5,seed=2") == Answer(value=1)
    with pytest.raises(Fault, match="gave no Answer in 3 tries") as fault:
        asking(call, f"{kind}=1")
    assert fault.value.ending == "error:model"


def test_an_endpoint_that_did_nothing_is_not_blamed() -> None:
    with pytest.raises(Fault, match="injected timeout; --faults, or a FaultyModel, made it so"):
        asking(lambda runtime: ask(Prompt("s", "u"), Answer, role="planner", runtime=runtime), "timeout=1")


def test_an_injected_fault_is_no_reply_to_keep(tmp_path: Path) -> None:
    def call(runtime: Any) -> Any:
        return ask_text(Prompt("s", "u"), role="planner", runtime=runtime)

    assert asking(call, "refusal=1", cache=str(tmp_path)) == "I cannot help with that."
    assert not (tmp_path / FILE).exists()
    assert asking(call, "", cache=str(tmp_path)) == GOOD
    assert (tmp_path / FILE).exists()


def test_the_context_puts_faults_on_every_role_and_none_where_it_names_none() -> None:
    by_name = Context(model="scripted:first", faults="empty=1,seed=2", trial=3)
    wrapped = asyncio.run(model_for("judge", by_name))
    assert isinstance(wrapped, FaultyModel)
    assert (wrapped.chat.model_name, wrapped.faults.empty, wrapped.trial) == ("scripted:first", 1.0, 3)
    chat = ScriptedChat()
    assert asyncio.run(model_for("judge", Context(chat=chat))) is chat
