"""Budgets and limits of agents: how a turn ends there, who may raise them, and what a turn spent."""

import asyncio
import json
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from certigraph import Budget, Context, LimitReached, Limits, ScriptedChat, agent
from certigraph.graphs.agent import METHODS

THREAD: Any = {"configurable": {"thread_id": "1"}}


class Counting:
    """A scripted model's responder that counts its calls."""

    answers_checks = True

    def __init__(self) -> None:
        self.calls, self._answers = 0, scripted_model().responder

    def __call__(self, prompt: str, schema: Any) -> Any:
        self.calls += 1
        return self._answers(prompt, schema)


class Office(MessagesState, total=False):
    """State of a graph around an agent."""

    ending: str
    after: bool


def build(method: Any, database: SupportDatabase, **options: Any) -> tuple[Any, Counting]:
    counting = Counting()
    settings: Any = {"checkpointer": InMemorySaver(), **options}
    return agent(method, model=ScriptedChat(responder=counting), tools=database.tools, **settings), counting


def invoke(graph: Any, asynchronous: bool) -> Any:
    given = {"goal": GOAL}
    return asyncio.run(graph.ainvoke(given, THREAD)) if asynchronous else graph.invoke(given, THREAD)


def around(inner: Any, context_schema: Any = None) -> Any:
    outer = StateGraph(Office, context_schema=context_schema)
    outer.add_node("office", inner)
    outer.add_node("after", lambda state: {"after": True})
    outer.add_edge(START, "office")
    outer.add_edge("office", "after")
    outer.add_edge("after", END)
    return outer.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("method", first_fast(METHODS, 3))
def test_a_spent_budget_ends_the_turn_with_a_message(method: Any, asynchronous: bool, database: SupportDatabase):
    for calls in (0, 1, 3):
        graph, counting = build(method, database, budget=Budget(calls=calls))
        state = invoke(graph, asynchronous)
        assert (state["ending"], counting.calls, state["turn_usage"]["calls"]) == ("limit:calls", calls, calls)
        assert isinstance(state["messages"][-1], AIMessage)
        assert f"{calls} of {calls} calls" in state["messages"][-1].text
        assert state["messages"][-1].response_metadata["ending"] == "limit:calls"
        assert graph.get_state(THREAD).next == ()
        invoke(graph, asynchronous)  # the next turn has all of the budget again
        assert counting.calls == 2 * calls


TOOLS = ("look_up", "refund", "send_mail")


@pytest.mark.parametrize("solver", first_fast(["subtask", "sdp", "react", "tdp"]))
def test_what_a_sub_task_did_before_the_budget_was_spent_is_not_lost(solver: str, database: SupportDatabase):
    for calls in range(4, 13):
        before = (database.looked_up, len(database.rows("refunds")), len(database.rows("mails")))
        graph, counting = build("tdp", database, budget=Budget(calls=calls), solve=solver)
        state = graph.invoke({"goal": GOAL}, THREAD)
        after = (database.looked_up, len(database.rows("refunds")), len(database.rows("mails")))
        made = [tool for tool, one, other in zip(TOOLS, before, after, strict=True) for _ in range(one, other)]
        assert [one["tool"] for one in state["effects"]] == made
        assert [one.name for one in state["messages"] if one.type == "tool"] == made
        assert state["turn_usage"]["calls"] == counting.calls
        if state["ending"] != "limit:calls":
            break
    assert made == [*TOOLS]


@pytest.mark.parametrize(("limits", "ending"), [(Limits(steps=1), "limit:steps"), (Limits(steps=2), "limit:steps")])
@pytest.mark.parametrize("method", ["react", "sdp"])
def test_a_limit_of_the_method_ends_the_turn_too(method: Any, limits: Limits, ending: str, database: SupportDatabase):
    graph, _ = build(method, database, limits=limits)
    state = graph.invoke({"goal": GOAL}, THREAD)
    assert state["ending"] == ending
    assert ending in state["messages"][-1].text


def test_a_spent_budget_of_a_node_lets_the_graph_around_it_go_on(database: SupportDatabase):
    inner, _ = build("sdp", database, budget=Budget(calls=3), checkpointer=None)
    state = around(inner).invoke({"messages": [("user", GOAL)]}, THREAD)
    assert (state["ending"], state["after"]) == ("limit:calls", True)


class Shop(Context):
    """Context of a graph around an agent."""


@pytest.mark.parametrize("context", [Context(budget=Budget(calls=50)), Shop(budget=Budget(calls=50))])
def test_the_context_of_the_graph_around_it_raises_a_nodes_budget(context: Context, database: SupportDatabase):
    inner, counting = build("react", database, budget=Budget(calls=2), checkpointer=None, on_limit="raise")
    outer = around(inner, type(context))
    with pytest.raises(LimitReached):
        outer.invoke({"messages": [("user", GOAL)]}, THREAD)
    assert counting.calls == 2
    state = outer.invoke(None, THREAD, context=context)
    assert (state["ending"], state["after"], len(database.rows("refunds"))) == ("finished", True, 1)


@pytest.mark.parametrize(
    ("given", "raise_limits", "calls"),
    [({"calls": 1}, False, 1), ({"calls": 1_000_000}, False, 3), ({"usd": 0.5}, False, 3), ({"calls": 4}, True, 4)],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_client_lowers_the_budget_and_raises_it_only_where_it_may(
    given: Any, raise_limits: bool, calls: int, nested: bool, database: SupportDatabase
):
    options: Any = {"budget": Budget(calls=3), "raise_limits": raise_limits}
    graph, counting = build("sdp", database, **options, **({"checkpointer": None} if nested else {}))
    graph = around(graph) if nested else graph
    state = graph.invoke({"messages": [("user", GOAL)]}, THREAD, context={"budget": given})
    assert (state["ending"], counting.calls) == ("limit:calls", calls)


@pytest.mark.parametrize(
    ("given", "steps", "repeats"),
    [({"steps": 2}, 2, 5), ({"steps": 100}, 4, 5), ({"repeats": 0}, 4, 5), ({"repeats": 2, "plan": None}, 4, 2)],
)
def test_a_client_lowers_limits_only(given: Any, steps: int, repeats: int, database: SupportDatabase):
    graph, _ = build("react", database, limits=Limits(steps=4))
    limits = graph.complete_context({"limits": given}).limits
    assert (limits.steps, limits.repeats, limits.attempts) == (steps, repeats, Limits().attempts)
    assert graph.complete_context(Context(limits=Limits(steps=100))).limits.steps == 100


def test_a_recursion_limit_of_the_graph_around_it_cuts_no_plan(database: SupportDatabase):
    inner, _ = build("sdp", database, checkpointer=None)
    outer = around(inner)
    config = {**THREAD, "recursion_limit": 4}
    state = outer.invoke({"messages": [("user", GOAL)]}, config)
    assert (state["ending"], len(database.rows("mails"))) == ("goal", 1)

    def node(state: Any) -> Any:
        return inner.invoke({"messages": state["messages"]})

    in_function = around(node).invoke({"messages": [("user", GOAL)]}, config)
    assert (in_function["ending"], len(database.rows("mails"))) == ("goal", 2)


@pytest.mark.parametrize("method", first_fast(METHODS, 3))
def test_what_a_turn_spent_is_returned_as_plain_json(method: Any, database: SupportDatabase):
    graph, counting = build(method, database)
    first = graph.invoke({"messages": [("user", GOAL)]}, THREAD)["turn_usage"]
    assert json.loads(json.dumps(first)) == first
    assert first["calls"] == counting.calls == sum(node["calls"] for node in first["nodes"].values())
    before = counting.calls
    assert graph.invoke({"messages": [("user", GOAL)]}, THREAD)["turn_usage"]["calls"] == counting.calls - before
