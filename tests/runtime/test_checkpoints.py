"""Tests of `runtime.checkpoints`."""

import asyncio
import json
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from helpers.processes.children import child_environment
from helpers.processes.prepared_processes import PreparedProcess
from helpers.worlds.study_world import Riddles
from helpers.worlds.task_graphs import Jobs, SlowModel
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from certigraph import benchmarks as registered
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import sdp
from certigraph.runtime import checkpoints as savers
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault

# Clocks that jump, and machines whose clocks differ: a run is still resumed from its last checkpoint.


RUNS: dict[str, dict[str, Any]] = {
    "sdp": {"benchmark": "blocksworld", "task": "4-0"},
    "clin": {"benchmark": "blocksworld", "task": "4-0"},
    "mcts": {"benchmark": "blocksworld", "task": "4-0"},
    "hypotheses": {"benchmark": Riddles(), "task": "looped"},
    "tdp": {"benchmark": Jobs(), "task": "deep"},
}


@pytest.fixture
def known_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in (
        ("script", "helpers.worlds.scripted_benchmark:SlowScript"),
        ("jobs", "helpers.worlds.task_graphs:Jobs"),
        ("riddles", "helpers.worlds.study_world:Riddles"),
    ):
        monkeypatch.setitem(registered.BENCHMARKS, name, place)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that makes this process behave like a new one on a machine whose clock is off by some seconds."""
    real = time.time_ns

    def start_process(offset: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real() + int(offset * 1e9))
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)

    return start_process


def chat(graph: str) -> dict[str, Any]:
    return {"chat": SlowModel(lambda _: 0.0)} if graph == "tdp" else {}


def started(graph: str, out: Path, **budget: Any) -> Result:
    return run(graph, **RUNS[graph], context=Context(budget=Budget(**budget), **chat(graph)), out=out)


def assert_as_if_nothing_happened(result: Result, whole: Result) -> None:
    assert (result.ending, result.scores) == (whole.ending, whole.scores)
    assert result.certificates == whole.certificates
    assert sorted(e.node for e in result.trajectory.events) == sorted(e.node for e in whole.trajectory.events)
    assert result.state.get("lessons") == whole.state.get("lessons")


@pytest.mark.slow
@pytest.mark.usefixtures("known_worlds")
@pytest.mark.parametrize("graph", RUNS)
def test_every_resume_takes_up_the_latest_checkpoint_though_each_clock_is_an_hour_behind_the_last(
    graph: str, tmp_path: Path, clock: Any
):
    whole = started(graph, tmp_path / "whole")
    clock(0)
    result = started(graph, tmp_path / "stopped", calls=2)
    world = RUNS[graph]["benchmark"]
    given = {**chat(graph), **({} if isinstance(world, str) else {"benchmark": world})}
    for number, calls in enumerate((4, 6, 8, 500), 1):
        if result.ending == "limit:calls":
            clock(-3600 * number)
            result = resume(result.folder, budget=Budget(calls=calls), **given)
    assert (result.ending, result.scores, result.certificates) == (whole.ending, whole.scores, whole.certificates)
    assert [event for event in result.trajectory.superseded if event.update is not None] == []


@pytest.mark.slow
@pytest.mark.usefixtures("known_worlds")
def test_where_ids_cannot_be_made_to_follow_the_run_stops_and_says_so(
    tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
):
    """A LangGraph that generates its ids in another way."""
    clock(0)
    stopped = started("sdp", tmp_path, calls=4)
    monkeypatch.setattr(savers, "_TIMESTAMP_ATTRIBUTE", "elsewhere")
    clock(-3600)
    result = resume(stopped.folder, budget=Budget())
    assert result.ending == "error:data"
    assert "the clock of this machine is behind the latest checkpoint" in result.message
    clock(60)
    assert resume(stopped.folder, budget=Budget()).ending == "goal"


# --- processes that die


PRELUDE = """
import os, signal, sys
from helpers.processes import clocks
clocks.set_clock(float(sys.argv[1]), step=float(sys.argv[2]), after=1.0)
from helpers.worlds.scripted_benchmark import after_events
from helpers.worlds.task_graphs import SlowModel
from certigraph import benchmarks as registered
from certigraph.adapters.protocols import Context
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
registered.BENCHMARKS.update(
    script="helpers.worlds.scripted_benchmark:SlowScript",
    jobs="helpers.worlds.task_graphs:Jobs",
    riddles="helpers.worlds.study_world:Riddles",
)
die = after_events(int(sys.argv[3]), lambda: os.kill(os.getpid(), signal.SIGKILL))
folder, graph, benchmark, task = sys.argv[4:8]
chat = {"chat": SlowModel(lambda _: 0.0)} if graph == "tdp" else {}
"""
BEGIN = PRELUDE + "run(graph, benchmark, task, context=Context(**chat), out=folder, listener=die)"
GO_ON = PRELUDE + "resume(folder, listener=die, **chat)"

PROCESSES = [
    ("sdp", "script", "only"),
    ("clin", "blocksworld", "4-0"),
    ("hypotheses", "riddles", "looped"),
    ("tdp", "jobs", "deep"),
]


def process(code: str, offset: float, step: float, events: int, *arguments: object) -> int:
    """Exit status of a process that kills itself after a number of events of its run."""
    status, errors = PreparedProcess(code, offset, step, events, *arguments, env=child_environment()).finish(120)
    assert status in (0, -signal.SIGKILL), errors
    return status


def killed_run(out: Path, work: tuple[str, str, str], offsets: list[float], step: float, between: int) -> Result:
    """A run that was killed every few events and resumed each time by a process with another clock."""
    process(BEGIN, 0, step, between, out, *work)
    [folder] = out.iterdir()
    for offset in offsets:
        known = len(Result(folder).trajectory.events)
        if process(GO_ON, offset, step, known + between, folder, *work) == 0:
            break
    else:
        assert process(GO_ON, offsets[-1], step, 99_999, folder, *work) == 0
    return Result(folder)


@pytest.mark.usefixtures("known_worlds")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "step"),
    [*((work, -1800.0) for work in PROCESSES), (PROCESSES[0], 0.0), (PROCESSES[-1], 0.0)],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else str(value),
)
def test_a_run_killed_by_clocks_that_step_ends_as_one_that_was_not(
    work: tuple[str, str, str], step: float, tmp_path: Path
):
    graph, benchmark, task = work
    context = Context(**chat(graph))
    whole = run(graph, benchmark, task, context=context, out=tmp_path / "whole")
    offsets = [-3600.0 * number for number in range(1, 5)]
    result = killed_run(tmp_path / "killed", work, offsets, step, between=7)
    assert_as_if_nothing_happened(result, whole)
    assert result.trajectory.resumes >= 1


@pytest.mark.usefixtures("known_worlds")
@pytest.mark.slow
@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("work", [PROCESSES[0], PROCESSES[-1]], ids=lambda work: "-".join(work[:2]))
def test_workers_whose_clocks_differ_by_a_minute_share_a_run_on_postgres(work: tuple[str, str, str], tmp_path: Path):
    graph, benchmark, task = work
    whole = run(graph, benchmark, task, context=Context(**chat(graph)), out=tmp_path / "whole")
    result = killed_run(tmp_path / "killed", work, [-60.0, 0.0, -60.0, 0.0, -60.0], 0.0, between=7)
    assert_as_if_nothing_happened(result, whole)
    assert result.trajectory.resumes >= 2
    ahead = [event for event in result.trajectory.superseded if event.update is not None and not event.scope]
    assert len(ahead) <= 2 * result.trajectory.resumes  # no more than what was at work when a process died


# What is saved of a superstep: each value once, and enough to restore the state of every checkpoint.


@pytest.mark.slow
def test_every_checkpoint_restores_its_state_though_each_value_is_saved_once(tmp_path: Path) -> None:
    path, live = tmp_path / "checkpoints.sqlite", load_benchmark("blocksworld")
    config: Any = {"configurable": {"thread_id": "1"}}

    async def run_graph() -> list[Any]:
        given, context = {"task": live.task("4-0")}, Context(benchmark=live, model="scripted:expert")
        with savers.SqliteCheckpointSaver.open(path) as saver:
            stream = sdp.build(saver).astream(given, config, context=context, stream_mode="values")
            return [state async for state in stream]

    async def read_checkpoints() -> tuple[list[Any], dict[str, Any]]:
        with savers.SqliteCheckpointSaver.open(path) as saver:
            restored = [one.values async for one in sdp.build(saver).aget_state_history(config)]
            saved = [one async for one in saver.alist(config)]
        values = {one.parent_config["configurable"]["checkpoint_id"]: one.checkpoint for one in saved[:-1]}
        return restored[::-1], {parent: checkpoint["channel_values"] for parent, checkpoint in values.items()}

    states = asyncio.run(run_graph())
    restored, values_after = asyncio.run(read_checkpoints())
    assert restored[-len(states) :] == states and len(states) > 10
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT checkpoint_id, channel FROM writes").fetchall()
    assert {channel for _, channel in rows} >= {"history", "certificates", "usage"}
    assert not [channel for parent, channel in rows if channel in values_after[parent]]


class Sides(TypedDict, total=False):
    left: str
    right: str


def test_where_a_node_asks_all_that_another_one_wrote_is_saved(tmp_path: Path) -> None:
    calls, config = list[str](), {"configurable": {"thread_id": "1"}}

    async def left(state: Sides) -> Sides:
        calls.append("left")
        return {"left": "done"}

    async def right(state: Sides) -> Sides:
        return {"right": interrupt("go on?")}

    async def run_graph(given: Any) -> Any:
        with savers.SqliteCheckpointSaver.open(tmp_path / "checkpoints.sqlite") as saver:
            graph = StateGraph(Sides).add_node("left", left).add_node("right", right)
            graph.add_edge(START, "left").add_edge(START, "right")
            await saver.prepare_resume("1", waited=True)
            return await graph.compile(checkpointer=saver).ainvoke(given, config)

    asyncio.run(run_graph({}))
    assert asyncio.run(run_graph(Command(resume="yes"))) == {"left": "done", "right": "yes"}
    assert calls == ["left"]


# Corrupted or manipulated checkpoints: one line reports them, and the run is left unchanged.

CALLED = json.dumps({"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["touch"]}).encode()


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    return run("sdp:paper", "blocksworld", "4-0", context=Context(budget=Budget(calls=4)), out=tmp_path)


def refused(stopped: Result, change: str, *values: object) -> str:
    """Message about a run whose checkpoints were changed."""
    with closing(sqlite3.connect(stopped.folder / "checkpoints.sqlite")) as file, file:
        file.execute(f"UPDATE checkpoints SET {change}", values)
    before = (stopped.folder / "trajectory.jsonl").read_bytes()
    with pytest.raises(Fault) as fault:
        resume(stopped.folder, budget=Budget())
    assert fault.value.ending == "error:data"
    assert (stopped.folder / "trajectory.jsonl").read_bytes() == before
    return str(fault.value)


@pytest.mark.parametrize(
    ("form", "checkpoint"),
    [
        ("pickle", b"cposix\nsystem\n."),
        ("json", CALLED),
        ("msgpack", b"\xc1 torn"),
        ("msgpack", ormsgpack.packb("no checkpoint")),
        ("msgpack", ormsgpack.packb({"v": 4, "id": "x"})),
        ("unheard of", b""),
    ],
)
def test_a_row_that_holds_no_checkpoint_is_one_line(stopped: Result, form: str, checkpoint: bytes) -> None:
    result = refused(stopped, "type = ?, checkpoint = ?", form, checkpoint)
    assert "cannot be read" in result and stopped.folder.name in result and "certigraph run" in result
    assert "\n" not in result


@pytest.mark.parametrize("metadata", ["[", "[]", '{"step": "x"}', '{"step": 1e999}'])
def test_metadata_that_are_none_are_one_line(stopped: Result, metadata: str) -> None:
    assert "\n" not in refused(stopped, "metadata = ?", metadata.encode())
