"""certigraph's operators as nodes of a graph of anybody's own."""

import asyncio
from typing import Any

import pytest
from helpers.models.scripted_agents import LOOK_UPS, ScriptedAgent, Validator, calls, shop_tools
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from certigraph.nodes.for_messages import (
    after_certify,
    after_check,
    after_gate,
    audit,
    certified_end,
    certify,
    check,
    gate,
    validate,
)

ASK = {"messages": [("user", "Refund order 17 and close its ticket.")]}
REFUND = ("refund", {"order": 17, "amount": 64.0})


class State(MessagesState):
    certigraph: dict[str, Any]


def graph_of(replies: list[Any], validator: Validator, done: list[str], **given: Any) -> Any:
    """Agent, check, tools, gate and a certified end."""
    tools, model = shop_tools(done), ScriptedAgent(replies=replies)
    graph = StateGraph(State)
    graph.add_node("agent", lambda state: {"messages": model.invoke(state["messages"])})
    graph.add_node("check", check(tools, model=validator.chat, effects=LOOK_UPS))
    graph.add_node("tools", ToolNode(tools))
    graph.add_node("gate", gate())
    graph.add_node("end", certified_end(tools, model=validator.chat, effects=LOOK_UPS, **given))
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "check")
    graph.add_conditional_edges("check", after_check, {"calls": "tools", "refused": "agent", "answer": "end"})
    graph.add_edge("tools", "gate")
    graph.add_conditional_edges("gate", after_gate, {"continue": "agent", "stop": END})
    graph.add_conditional_edges("end", after_certify, {"over": END, "not_done": "agent"})
    return graph.compile(checkpointer=InMemorySaver())


CONFIG = {"configurable": {"thread_id": "1"}}


def run(graph: Any, is_async: bool) -> Any:
    return asyncio.run(graph.ainvoke(ASK, CONFIG)) if is_async else graph.invoke(ASK, CONFIG)


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_are_checked_and_the_end_is_certified(is_async: bool):
    done, validator = list[str](), Validator(missing=["Close the ticket."])
    close = calls(("close", {"order": 17}), first="d")
    state = run(graph_of([calls(REFUND), "Refunded.", close, "All is done."], validator, done), is_async)
    assert done == ["refund 17 64.0", "close 17"]
    found = state["certigraph"]
    assert [one["tool"] for one in found["checked"]] == ["refund", "close"]
    assert (found["ending"], len(found["certificates"])) == ("goal", 1)


def test_a_refused_call_goes_back_to_the_agent():
    done, validator = list[str](), Validator({"refund": {"outcome": "forbidden", "next": "Leave it."}})
    state = run(graph_of([calls(REFUND), "I left it."], validator, done), False)
    assert done == []
    assert state["certigraph"]["ending"] == "finished"  # the script names a call that was not made


def test_code_certifies_conditions_between_rounds():
    done = list[str]()
    tools, condition = shop_tools(done), "Order 17 is refunded."
    checks = {"Order {order} is refunded.": lambda order: f"refund {order} 64.0" in done}
    model = ScriptedAgent(replies=[calls(REFUND)])
    graph = StateGraph(State)
    graph.add_node("agent", lambda state: {"messages": model.invoke(state["messages"])})
    graph.add_node("tools", ToolNode(tools))
    graph.add_node("validate", validate(tools, conditions=[condition], checks=checks))
    graph.add_node("certify", certify())
    graph.add_edge(START, "agent").add_edge("agent", "tools").add_edge("tools", "validate").add_edge(
        "validate", "certify"
    )
    state = graph.compile().invoke(ASK)
    [certificate] = state["certigraph"]["certificates"]
    assert (certificate["targets"][0]["text"], certificate["decided_by"]) == (condition, "code")


def test_a_new_turn_begins_with_new_records():
    done, validator = list[str](), Validator()
    graph = graph_of([calls(REFUND), "Refunded.", "You are welcome."], validator, done)
    run(graph, False)
    state = graph.invoke({"messages": [("user", "Thanks.")]}, CONFIG)
    assert state["certigraph"].get("checked", []) == []


def test_the_drawing_names_nodes_and_edges():
    drawn = graph_of([], Validator(), []).get_graph(xray=True)
    assert {"check", "gate", "end:audit", "end:certify"} <= set(drawn.nodes)
    assert {edge.data for edge in drawn.edges} >= {"calls", "refused", "answer", "continue", "stop", "over", "not_done"}


class Plain(MessagesState):
    """A state without the key of these nodes: the graph gets it with the first of them."""


def test_a_state_needs_no_key_of_ours():
    model, validator = ScriptedAgent(replies=["There is nothing to do."]), Validator()
    graph = StateGraph(Plain)
    graph.add_node("agent", lambda state: {"messages": model.invoke(state["messages"])})
    graph.add_node("audit", audit(shop_tools([]), model=validator.chat, effects=LOOK_UPS))
    graph.add_node("certify", certify())
    graph.add_edge(START, "agent").add_edge("agent", "audit").add_edge("audit", "certify")
    updates = [*graph.compile().stream(ASK, stream_mode="updates")]
    assert updates[-1]["certify"]["certigraph"]["ending"] == "finished"


def test_of_a_response_only_what_is_allowed_is_made():
    done, validator = list[str](), Validator({"refund": {"outcome": "forbidden", "next": "Leave it."}})
    run(graph_of([calls(REFUND, ("mail", {"order": 17})), "I wrote."], validator, done), False)
    assert done == ["mail 17"]
