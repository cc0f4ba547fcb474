"""Tests of `graphs.assembly`."""

import asyncio
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.java_processes import java_processes, wait_until
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld, BlocksWorldEnvironment
from certigraph.benchmarks.scienceworld.pool import DEFAULT_POOL
from certigraph.graphs import clin, mcts, react, sdp, step, tdp
from certigraph.nodes.react import decide
from certigraph.nodes.sdp import realize
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.state.run import RunInput, RunState
from certigraph.state.trajectory import serializer

# However a graph is run and however it ends, no world that it opened stays open; and it can be continued.


class Counting(BlocksWorld):
    """BlocksWorld that counts its open worlds; each takes some seconds to open."""

    instant = False

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds, self.open_now, self.opened = seconds, 0, 0

    def open(self, task: Task) -> BlocksWorldEnvironment:
        self.opened += 1
        self.open_now += 1
        time.sleep(self.seconds)
        world = super().open(task)
        world.close = self._close  # type: ignore[method-assign]
        return world

    def _close(self) -> None:
        self.open_now -= 1


@pytest.fixture
def benchmark() -> Iterator[Counting]:
    before = set(EPISODES)
    counting = Counting()
    yield counting
    assert set(EPISODES) == before


def given(benchmark: Counting, number: int = 0) -> Any:
    return {"task": benchmark.task(f"3-{number}")}


def invoke(graph: Any, benchmark: Counting) -> None:
    graph.invoke(given(benchmark), context=Context(benchmark=benchmark))


def ainvoke(graph: Any, benchmark: Counting) -> None:
    asyncio.run(graph.ainvoke(given(benchmark), context=Context(benchmark=benchmark)))


def batch(graph: Any, benchmark: Counting) -> None:
    graph.batch([given(benchmark, n) for n in range(3)], context=Context(benchmark=benchmark))


def stream(graph: Any, benchmark: Counting) -> None:
    for _ in graph.stream(given(benchmark), context=Context(benchmark=benchmark)):
        pass


def abandoned(graph: Any, benchmark: Counting) -> None:
    for _ in graph.stream(given(benchmark), context=Context(benchmark=benchmark)):
        assert benchmark.open_now
        break
    gc.collect()


def abandoned_async(graph: Any, benchmark: Counting) -> None:
    async def first() -> None:
        async for _ in graph.astream(given(benchmark), context=Context(benchmark=benchmark)):
            assert benchmark.open_now
            break

    asyncio.run(first())


def cancelled_while_closing(graph: Any, benchmark: Counting) -> None:
    """The stream is abandoned, and whoever waits for its end is cancelled."""

    class Slow(InMemorySaver):
        async def aput(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0.2)
            return await super().aput(*args, **kwargs)

    async def begin() -> None:
        slow = graph.copy({"checkpointer": Slow(serde=serializer())})
        thread: Any = {"configurable": {"thread_id": "slow"}}
        states = slow.astream(given(benchmark), thread, context=Context(benchmark=benchmark))
        await anext(states)
        closing = asyncio.create_task(states.aclose())
        await asyncio.sleep(0.05)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    asyncio.run(begin())


def events(graph: Any, benchmark: Counting) -> None:
    async def all_events() -> None:
        async for _ in graph.astream_events(given(benchmark), context=Context(benchmark=benchmark), version="v2"):
            pass

    asyncio.run(all_events())


def copied(graph: Any, benchmark: Counting) -> None:
    """As LangGraph's server does, with a saver and a configuration of its own."""
    own = graph.copy({"checkpointer": InMemorySaver(serde=serializer())})
    own.with_config({"tags": ["own"], "configurable": {"thread_id": "own"}}).invoke(
        given(benchmark), context=Context(benchmark=benchmark)
    )


def as_subgraph(graph: Any, benchmark: Counting) -> None:
    outer = StateGraph(RunState, context_schema=Context, input_schema=RunInput)
    outer.add_node("inner", graph)
    outer.add_edge(START, "inner")
    outer.add_edge("inner", END)
    outer.compile().invoke(given(benchmark), context=Context(benchmark=benchmark))


def limited(graph: Any, benchmark: Counting) -> None:
    with pytest.raises(GraphRecursionError):
        graph.invoke(given(benchmark), {"recursion_limit": 3}, context=Context(benchmark=benchmark))


WAYS = (
    invoke,
    ainvoke,
    batch,
    stream,
    abandoned,
    abandoned_async,
    cancelled_while_closing,
    events,
    copied,
    as_subgraph,
    limited,
)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_leaves_no_world_open(way: Callable[[Any, Counting], None], benchmark: Counting):
    way(react.graph, benchmark)
    assert benchmark.opened
    assert benchmark.open_now == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "method"), [(ainvoke, sdp), *((invoke, method) for method in (sdp, tdp, step, clin, mcts))]
)
def test_every_kind_of_graph_closes_what_it_opened(way: Any, method: Any, benchmark: Counting):
    way(method.build(), benchmark)
    assert benchmark.opened
    assert benchmark.open_now == 0


@pytest.mark.parametrize("way", [invoke, ainvoke])
def test_a_run_that_fails_leaves_no_world_open(way: Any, benchmark: Counting):
    async def failing(state: Any, runtime: Any) -> dict[str, Any]:
        raise Fault("model", "no answer")

    with pytest.raises(Fault, match="no answer"):
        way(react.build(decide=failing), benchmark)
    assert (benchmark.opened, benchmark.open_now) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_run_that_is_cancelled_leaves_no_world_open_also_while_one_opens(seed: int):
    benchmark = Counting(seconds=0.05)
    delays = random.Random(seed)

    async def cancelled() -> None:
        running = asyncio.create_task(
            mcts.graph.ainvoke(given(benchmark), context=Context(benchmark=benchmark))  # with copies of the world
        )
        await asyncio.sleep(delays.uniform(0, 0.3))
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(cancelled())
    deadline = time.monotonic() + 5
    while benchmark.open_now and time.monotonic() < deadline:
        time.sleep(0.01)  # a world that was being opened is closed when it is ready
    assert benchmark.open_now == 0


def test_an_interrupted_graph_leaves_no_world_open_and_continues_where_it_was(benchmark: Counting):
    calls = []

    async def approved(state: Any, runtime: Any) -> dict[str, Any]:
        update = await realize()(state, runtime)
        calls.append(interrupt("may it?"))
        return update

    graph = sdp.build(InMemorySaver(serde=serializer()), realize=approved)
    thread: Any = {"configurable": {"thread_id": "asked"}}
    context = Context(benchmark=benchmark)
    state = graph.invoke(given(benchmark), thread, context=context)
    while "__interrupt__" in state:
        assert benchmark.open_now == 0
        state = graph.invoke(Command(resume=True), thread, context=context)
    assert sdp.ending(state) == "goal"
    assert calls
    assert benchmark.open_now == 0


def test_static_interrupts_forks_and_updates_go_on_after_the_world_was_closed(benchmark: Counting):
    graph = react.build(InMemorySaver(serde=serializer()))
    thread: Any = {"configurable": {"thread_id": "forked"}}
    context = Context(benchmark=benchmark)
    graph.invoke(given(benchmark), thread, context=context, interrupt_before=["act"])
    paused = graph.get_state(thread)
    assert paused.next == ("act",)
    whole = graph.invoke(None, thread, context=context)
    fork = graph.update_state(paused.config, {"thought": "another one"}, as_node="decide")
    again = graph.invoke(None, fork, context=context)
    assert [step.digest for step in again["history"]] == [step.digest for step in whole["history"]]
    assert react.ending(again) == "goal"
    assert benchmark.open_now == 0


def test_a_callers_own_world_stays_open_and_is_not_begun_again():
    world = Counting().open(BlocksWorld().task("3-0"))
    closed, resets, reset = [], [], world.reset
    world.close = lambda: closed.append(1)  # type: ignore[method-assign,assignment]
    world.reset = lambda: resets.append(1) or reset()  # type: ignore[method-assign,func-returns-value]
    graph = react.build(InMemorySaver(serde=serializer()))
    thread: Any = {"configurable": {"thread_id": "theirs"}}
    context = Context(benchmark=BlocksWorld(), environment=world)
    graph.invoke({"task": BlocksWorld().task("3-0")}, thread, context=context, interrupt_before=["act"])
    state = graph.invoke(None, thread, context=context)
    assert react.ending(state) == "goal"
    assert (len(resets), closed) == (1, [])
    EPISODES.pop(state["episode"])


def test_a_graph_run_inside_an_operator_closes_its_own_world_and_not_the_outer_one(benchmark: Counting):
    open_after = []

    async def decide_after_a_run(state: Any, runtime: Any) -> dict[str, Any]:
        await react.graph.ainvoke(given(benchmark, 1), context=Context(benchmark=benchmark))
        open_after.append(benchmark.open_now)
        return await decide()(state, runtime)

    ainvoke(react.build(decide=decide_after_a_run), benchmark)
    assert set(open_after) == {1}
    assert benchmark.open_now == 0


# Graphs over the real ScienceWorld leave no JVM, however they end.

TASK: Any = {"task": {"benchmark": "scienceworld", "id": "find-non-living-thing:0"}}
SOON = 5.0
"""Seconds after which no JVM is left."""


def over_java(test: Callable[..., None]) -> Callable[..., None]:
    test = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")(test)
    test = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")(test)
    return pytest.mark.slow(pytest.mark.usefixtures("known_task")(test))


@pytest.fixture(scope="module")
def known_task() -> None:
    """The goal and the gold path are on disk before anything is counted."""
    sdp.graph.invoke(TASK)


@pytest.mark.long
@over_java
def test_runs_cancelled_at_random_times_leave_no_jvm():
    delays = random.Random(19)

    async def cancelled() -> None:
        running = [asyncio.create_task(react.graph.ainvoke(TASK)) for _ in range(2)]
        for run in running:
            await asyncio.sleep(delays.uniform(0, 1.5))
            run.cancel()
        await asyncio.wait(running)

    for _ in range(12):
        asyncio.run(cancelled())
    # an episode that was being loaded cannot be broken off: its JVM comes back seconds later, and is kept for 3 s more
    assert wait_until(lambda: not java_processes(), 20.0)


@over_java
def test_a_jvm_whose_start_is_cancelled_is_ended_at_once():
    DEFAULT_POOL.close()  # else the run might take a simulator that another test has returned
    before = {*java_processes()}  # of worlds that other tests in this process left open

    async def cancelled() -> None:
        running = asyncio.create_task(react.graph.ainvoke(TASK))
        while not {*java_processes()} - before:  # noqa: ASYNC110 - a process cannot be awaited before it is there
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(cancelled())
    assert wait_until(lambda: not {*java_processes()} - before, 1.0)


STARTING = """
import sys
from certigraph.graphs import react
react.graph.get_graph()
print("ready", flush=True)
react.graph.invoke({"task": {"benchmark": "scienceworld", "id": "find-non-living-thing:0"}})
"""


@over_java
@pytest.mark.parametrize("seed", range(3))
def test_a_process_killed_during_the_start_leaves_no_jvm(seed: int, tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # where its JVM works, by which it is known
    with subprocess.Popen([sys.executable, "-c", STARTING], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        if not wait_until(lambda: bool(working_in(tmp_path)), 120):
            raise AssertionError("no JVM was started")
        time.sleep(random.Random(seed).uniform(0, 0.8))
        parent.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not working_in(tmp_path), SOON)


def working_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder.resolve() and b"java" in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:  # gone meanwhile, or not ours
            continue
    return found
