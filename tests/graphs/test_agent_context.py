"""An agent's context, its keywords, and answers of a person that cannot be used."""

import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest
from helpers.servers.endpoint_stub import stub
from helpers.worlds.support_database import GOAL, SCRIPT, SupportDatabase, scripted_model
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import get_runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from certigraph import Budget, Context, LimitReached, agent, serializer
from certigraph.graphs import react as benchmark_react
from certigraph.graphs.agent import METHODS, AgentGraph, AgentOperators
from certigraph.graphs.assembly import slot_names
from certigraph.state.endings import Fault

THREAD: Any = {"configurable": {"thread_id": "1"}}


class Own(TypedDict):
    model: str


class Refunded(BaseModel):
    answer: str


def react(database: SupportDatabase, **options: Any) -> AgentGraph:
    return agent("react", model=scripted_model(), tools=database.tools, **options)


def test_the_keywords_are_the_slots_of_all_methods():
    slots = {name for method in METHODS for name in slot_names(import_module(f"certigraph.graphs.{method}").build)}
    assert set(AgentOperators.__annotations__) == slots


@pytest.mark.parametrize("context", [None, {}, {"model": ""}, {"model": "", "budget": {"calls": 50}}, {"mine": 1}])
def test_a_context_that_names_no_model_leaves_the_agents_own(context: Any, database: SupportDatabase):
    assert react(database).invoke({"goal": GOAL}, context=context)["ending"] == "finished"


def test_a_context_that_names_a_model_replaces_the_agents_own(
    database: SupportDatabase, monkeypatch: pytest.MonkeyPatch
):
    reply = {"tools": [], "reasoning": "", "thought": "", "calls": [{"name": "finish", "args": {"answer": "no"}}]}
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with stub(json.dumps(reply)) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        state = react(database).invoke({"goal": GOAL}, context={"model": "openai:another"})
    assert (state["ending"], state["messages"][-1].text) == ("finished", "no")
    assert {request["model"] for request in server.requests} == {"another"}
    assert database.rows("refunds") == []


def test_a_context_that_names_a_script_of_benchmarks_is_refused(database: SupportDatabase):
    with pytest.raises(ValueError, match="ScriptedChat"):
        react(database).invoke({"goal": GOAL}, context={"model": "scripted:first"})


@pytest.mark.parametrize("model", ["local:/etc/passwd", "local:weights.gguf", "local:http://127.0.0.1/x"])
def test_a_context_in_json_names_no_file_of_weights(model: str, database: SupportDatabase):
    with pytest.raises(Fault, match="refused"):
        react(database).invoke({"goal": GOAL}, context={"model": model})  # type: ignore[arg-type]
    for given in ({"model": model}, {"roles": {"planner": model}}):
        with pytest.raises(Fault, match="refused"):
            benchmark_react.build().invoke({"task": {"benchmark": "blocksworld", "id": "4-0"}}, context=given)
    with pytest.raises(Fault, match=r"no weights at|xllamacpp"):  # a program may name one
        react(database).invoke({"goal": GOAL}, context=Context(model="local:/nowhere/x.gguf"))


def test_a_context_of_the_users_own_may_hold_any_model(database: SupportDatabase):
    graph = react(database, context_schema=Own)
    assert graph.invoke({"goal": GOAL}, context={"model": "local:/x"})["ending"] == "finished"  # type: ignore[arg-type]


@pytest.mark.parametrize("context", [{"budget": {"calls": 1}}, Context(budget=Budget(calls=1))])
def test_a_context_sets_single_fields(context: Any, database: SupportDatabase):
    with pytest.raises(LimitReached, match="1 of 1 calls"):
        react(database, on_limit="raise").invoke({"goal": GOAL}, context=context)


def test_the_form_of_the_context_fits_what_it_accepts(database: SupportDatabase):
    form = react(database).get_context_jsonschema()
    defaults = {name: part["default"] for name, part in form["properties"].items() if "default" in part}
    assert react(database).invoke({"goal": GOAL}, context=defaults)["ending"] == "finished"


@pytest.mark.parametrize("types", [(), (Refunded,)])
def test_a_form_of_ones_own_is_restored_whether_the_serializer_knows_it_or_not(
    types: tuple[type, ...], database: SupportDatabase
):
    saver = InMemorySaver(serde=serializer(*types))
    graph = react(database, response_format=Refunded, checkpointer=saver)
    assert graph.invoke({"goal": GOAL}, THREAD)["structured_response"] == Refunded(answer="Order 17 was refunded.")
    assert graph.get_state(THREAD).values["structured_response"] == Refunded(answer="Order 17 was refunded.")


@dataclass
class Shop:
    name: str


def test_tools_read_the_callers_own_context(database: SupportDatabase):
    seen: list[Any] = []

    def look_up(order: int) -> str:
        """Look up an order."""
        seen.append(get_runtime(Shop).context)
        return "eligible"

    async def refund(order: int, amount: float) -> str:
        """Refund an order."""
        seen.append(get_runtime(Shop).context)
        return "refunded 17"

    graph = agent("react", model=scripted_model(SCRIPT[:2]), tools=[look_up, refund], context_schema=Shop)
    graph.invoke({"goal": GOAL}, context=Shop("north"))  # type: ignore[arg-type]
    graph.invoke({"goal": GOAL}, context={"name": "south"})  # type: ignore[arg-type]
    assert seen == [Shop("north"), Shop("north"), Shop("south"), Shop("south")]
