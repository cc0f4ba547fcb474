"""Usage of nodes that are not slots: calls of LangChain models, budgets, events."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from helpers.files.installed_package import BUILD, INSTALLED, WORLD
from helpers.worlds.study_world import Riddles
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from certigraph.adapters.models.calls import choose
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import sdp
from certigraph.runtime.graph_sources import meter_own_nodes, own_nodes_of
from certigraph.runtime.registry import build_graph
from certigraph.runtime.run import run
from certigraph.state.records import Spent, Task


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(INSTALLED)


def replies() -> Iterator[AIMessage]:
    usage: Any = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107}
    while True:
        yield AIMessage("Silt", usage_metadata=usage, response_metadata={"model_name": "gpt-4o-mini"})


def chatting(times: int = 1) -> Any:
    from ownagents.graphs import chatting as build

    return build(GenericFakeChatModel(messages=replies()), times)


def test_a_model_that_a_node_calls_itself_is_counted_and_priced(tmp_path: Path):
    result = run(chatting(2), Riddles(), "found", out=tmp_path)
    usage = result.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 200, 14)
    assert usage.usd == pytest.approx(2 * (100 * 0.15 + 7 * 0.60) / 1e6)
    (event,) = result.trajectory.events
    assert (event.node, event.usage.calls, [call["model"] for call in event.calls]) == ("talk", 2, ["gpt-4o-mini"] * 2)
    assert event.update is not None
    assert [message["content"] for message in event.update["messages"]] == ["Silt", "Silt"]  # type: ignore[union-attr,index,call-overload]


def test_its_last_message_is_scored_as_the_answer_of_a_question(tmp_path: Path):
    result = run(chatting(), Riddles(), "found", out=tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
    wrong = run(chatting(), Riddles(), "hasty", out=tmp_path)
    assert (wrong.ending, wrong.scores and wrong.scores.value) == ("finished", 0.0)


def test_a_budget_stops_a_node_before_the_call_that_it_does_not_allow(tmp_path: Path):
    result = run(chatting(5), Riddles(), "found", out=tmp_path, context=Context(budget=Budget(calls=3)))
    assert (result.ending, result.usage.calls) == ("limit:calls", 3)


class Asking(TypedDict, total=False):
    task: Task
    actions: list[str]


async def ask_and_add(state: Asking, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask through certigraph, twice, and once around it."""
    chosen = [await choose(Prompt("", "How?"), ["add", "stop"], role="executor", runtime=runtime) for _ in range(2)]
    await GenericFakeChatModel(messages=replies()).ainvoke("How?")
    return {"actions": chosen}


def test_a_call_through_certigraph_is_counted_once(tmp_path: Path):
    builder = StateGraph(Asking, context_schema=Context)
    builder.add_node("ask", ask_and_add)
    builder.add_edge(START, "ask")
    chat = ScriptedChat(responder=lambda prompt, schema: {"choice": "add"})
    result = run(builder.compile(), WORLD, "2", out=tmp_path, context=Context(chat=chat))
    assert (result.ending, result.usage.calls) == ("goal", 3)
    assert result.trajectory.superseded == []


def test_graphs_of_slots_alone_stay_as_they_are():
    graph = sdp.build()
    assert own_nodes_of(graph) == set()
    assert meter_own_nodes(graph, Budget(), Spent) is graph
    assert own_nodes_of(build_graph(BUILD)) == {"reset", "choose", "act"}


def test_a_graph_inside_a_node_reports_its_own_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_outer_graph.py").write_text(
        "from langgraph.graph import END, START, StateGraph\n"
        "from certigraph.adapters.protocols import Context\n"
        "from certigraph.graphs import react\n"
        "from certigraph.state.run import ReActState\n"
        "builder = StateGraph(ReActState, context_schema=Context)\n"
        "builder.add_node('solve', react.build())\n"
        "builder.add_node('close', lambda state: {})\n"
        "builder.add_edge(START, 'solve')\n"
        "builder.add_edge('solve', 'close')\n"
        "builder.add_edge('close', END)\n"
    )
    result = run("my_outer_graph:builder", WORLD, "2", out=tmp_path, context=Context(model="scripted:first"))
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
    assert result.usage.calls == 2
    nodes = [(event.node, bool(event.scope)) for event in result.trajectory.events]
    assert nodes == [*[(n, True) for n in ("reset", "decide", "act", "decide", "act")], ("close", False)]
