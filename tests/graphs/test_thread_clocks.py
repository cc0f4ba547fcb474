"""Threads of agents that a clock saved which was ahead: a run waits for it, or says that it cannot go on."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from certigraph import agent, serializer
from certigraph.graphs.agent import AgentGraph, AgentOutput
from certigraph.state.endings import Fault

THREAD: Any = {"configurable": {"thread_id": "7"}}
RANDOM_ID = "ffffffff-ffff-4fff-bfff-ffffffffffff"
YEARS = 5 * 365 * 86_400.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the clock of this process forth or back, and forgets the ids that LangGraph made, as a new process would."""
    real = time.time_ns

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real() + int(seconds * 1e9))
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)

    yield set_clock


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        return InMemorySaver(serde=serializer())
    return SqliteSaver(sqlite3.connect(tmp_path / "c.sqlite", check_same_thread=False), serde=serializer())


def build(database: SupportDatabase, saver: Any, **options: Any) -> AgentGraph:
    return agent("react", model=scripted_model(), tools=database.tools, checkpointer=saver, **options)


@pytest.mark.parametrize("given", ["message", "resume", "nothing"])
def test_a_thread_from_the_future_is_refused_before_a_model_is_asked(
    given: str, clock: Any, saver: Any, database: SupportDatabase
):
    graph = build(database, saver, interrupt_on={"refund": True})
    clock(YEARS)
    graph.invoke({"goal": GOAL}, THREAD)
    clock(0)
    before = graph.get_state(THREAD).config
    resume: Any = Command(resume={"decisions": [{"type": "approve"}]})
    with pytest.raises(Fault, match="clock") as refused:
        graph.invoke({"message": {"goal": GOAL}, "resume": resume, "nothing": None}[given], THREAD)
    assert "thread '7'" in str(refused.value)
    assert graph.get_state(THREAD).config == before
    assert database.rows("refunds") == []
    graph.invoke({"goal": GOAL}, {"configurable": {"thread_id": "8"}})  # another thread is as ever


def test_it_is_refused_asynchronously_too(clock: Any, database: SupportDatabase):
    graph = build(database, InMemorySaver(serde=serializer()))
    clock(YEARS)
    asyncio.run(graph.ainvoke({"goal": GOAL}, THREAD))
    clock(0)
    with pytest.raises(Fault, match="clock"):
        asyncio.run(graph.ainvoke({"goal": GOAL}, THREAD))
    clock(YEARS + 60)
    assert len(asyncio.run(graph.ainvoke({"goal": GOAL}, THREAD))["messages"]) == 16


def test_a_clock_that_is_a_little_behind_is_waited_for(clock: Any, saver: Any, database: SupportDatabase):
    graph = build(database, saver)
    clock(1.0)
    graph.invoke({"goal": GOAL}, THREAD)
    clock(0)
    graph.invoke({"goal": GOAL}, THREAD)
    assert len(graph.get_state(THREAD).values["messages"]) == 16


def test_the_process_whose_clock_is_set_back_goes_on(
    clock: Any, saver: Any, database: SupportDatabase, monkeypatch: pytest.MonkeyPatch
):
    graph = build(database, saver)
    clock(YEARS)
    graph.invoke({"goal": GOAL}, THREAD)
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))  # its own ids go on from the latest
    graph.invoke({"goal": GOAL}, THREAD)
    assert len(graph.get_state(THREAD).values["messages"]) == 16


def test_an_agent_in_another_graph_leaves_the_thread_to_it(clock: Any, database: SupportDatabase):
    inner = build(database, InMemorySaver(serde=serializer()))
    outer = StateGraph(AgentOutput)
    outer.add_node("inner", inner)
    outer.add_edge(START, "inner")
    graph = outer.compile(checkpointer=InMemorySaver(serde=serializer()))
    assert graph.invoke({"messages": [("user", GOAL)]}, THREAD)["ending"] == "finished"


def test_ids_of_another_form_are_no_times(database: SupportDatabase):
    class RandomIds(InMemorySaver):
        def get_tuple(self, config: Any) -> Any:
            found = super().get_tuple(config)
            return found and found._replace(
                checkpoint={**found.checkpoint, "id": "ffffffff-ffff-4fff-bfff-ffffffffffff"}
            )

    graph = build(database, RandomIds(serde=serializer()))
    graph.invoke({"goal": GOAL}, THREAD)
    assert graph.invoke({"goal": GOAL}, THREAD)["ending"] == "finished"
