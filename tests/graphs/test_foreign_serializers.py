"""Agents under savers with LangGraph's own serializer, strict or not, alone and inside other graphs."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from certigraph import agent
from certigraph.graphs.agent import METHODS
from certigraph.state.records import Certificate

THREAD: Any = {"configurable": {"thread_id": "1"}}
APPROVED: Any = Command(resume={"decisions": [{"type": "approve"}]})
SERIALIZERS: dict[str, Callable[[], JsonPlusSerializer]] = {
    "strict": lambda: JsonPlusSerializer(allowed_msgpack_modules=None),
    "default": JsonPlusSerializer,
}


TURN = ["human", *["ai", "tool"] * 3, "ai"]


class Office(MessagesState, total=False):
    """State of a graph around an agent, with what it takes over from the agent."""

    certificates: list[Any]
    ending: str
    after: str


def build(method: Any, database: SupportDatabase, saver: Any, *, nested: bool) -> Any:
    settings: Any = {"model": scripted_model(), "tools": database.tools, "interrupt_on": {"refund": True}}
    if not nested:
        return agent(method, checkpointer=saver, **settings)
    outer = StateGraph(Office)
    outer.add_node("office", agent(method, **settings))
    outer.add_node("after", lambda state: {"after": state["ending"]})
    outer.add_edge(START, "office")
    outer.add_edge("office", "after")
    outer.add_edge("after", END)
    return outer.compile(checkpointer=saver)


@contextmanager
def listening() -> Iterator[list[Any]]:
    """Return what LangGraph's serializers report of certigraph's types: that they are unknown, or blocked."""
    events: list[Any] = []
    stop = register_serde_event_listener(events.append)
    try:
        yield events
    finally:
        stop()
        events[:] = [event for event in events if event["module"].startswith("certigraph")]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_a_thread_goes_on_from_checkpoints_of_any_serializer(
    method: Any, serializer: str, nested: bool, database: SupportDatabase, tmp_path: Path
):
    def turn(given: Any) -> Any:  # each in a graph of its own, as in another process
        with closing(sqlite3.connect(tmp_path / "threads.sqlite", check_same_thread=False)) as connection:
            saver = SqliteSaver(connection, serde=SERIALIZERS[serializer]())
            graph = build(method, database, saver, nested=nested)
            return graph.invoke(given, THREAD), graph.get_state(THREAD, subgraphs=True)

    with listening() as events:
        for number in (1, 2):
            waiting, _ = turn({"messages": [("user", GOAL)]})
            assert waiting["__interrupt__"]
            state, snapshot = turn(APPROVED)
            assert state["ending"] in ("goal", "finished")
            assert len(database.rows("refunds")) == number
            assert [one.type for one in state["messages"]] == TURN * number
    assert events == []
    certificates = snapshot.values.get("certificates", [])
    assert all(isinstance(certificate, Certificate) for certificate in certificates)
    assert bool(certificates) is (method == "sdp")
