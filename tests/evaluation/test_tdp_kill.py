"""Runs of TDP whose process dies: in the middle of a batch, between batches, while the world is brought up to date."""

import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from task_graphs import Jobs, Pondering, SerialJobs

from certigraph.adapters import benchmarks
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import tdp
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.serialization import serializer
from certigraph.state.trajectory import Event, Trajectory, read_lines

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent.parent
VARYING = ("episode", "usage", "spent")
"""What differs from run to run."""

PAUSES = {"a": 0.0, "b": 0.02, "c": 0.04}
"""Seconds of a model call: of the first batch one node ends when the others are at work."""

WORLDS = {"jobs": Jobs, "serial_jobs": SerialJobs}

CHILD = """
import os, signal, sys
from doubles import after_events
from test_tdp_kill import begin
from certigraph.adapters import benchmarks
from certigraph.runtime.run import resume
from certigraph.runtime.checkpoints import Saver
from task_graphs import Pondering
benchmarks.BENCHMARKS.update(jobs="task_graphs:Jobs", serial_jobs="task_graphs:SerialJobs")
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
"""

AFTER_EVENTS = CHILD + "begin(sys.argv[1], sys.argv[2], listener=after_events(int(sys.argv[3]), die))"

AFTER_CHECKPOINTS = """
left, aput = [int(sys.argv[3])], Saver.aput
async def counting(self, *args):
    kept = await aput(self, *args)
    left[0] -= 1
    return kept if left[0] else die()
Saver.aput = counting
begin(sys.argv[1], sys.argv[2])
"""


def begin(benchmark: str, out: Path | str, **more: Any) -> Result:
    context = Context(chat=Pondering(pause), **more.pop("context", {}))
    return run("tdp", WORLDS[benchmark](), "deep", context=context, out=out, **more)


def pause(subtask: str) -> float:
    return PAUSES.get(subtask, 0.002)


@pytest.fixture(autouse=True)
def known_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmarks.BENCHMARKS, "jobs", "task_graphs:Jobs")
    monkeypatch.setitem(benchmarks.BENCHMARKS, "serial_jobs", "task_graphs:SerialJobs")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Uninterrupted runs, by benchmark."""
    return {name: begin(name, tmp_path_factory.mktemp(name)) for name in WORLDS}


def killed(code: str, *arguments: object) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [TESTS.parent / "src", TESTS, TESTS / "evaluation"]))}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr


def only_run(out: Path) -> Path:
    (folder,) = out.iterdir()
    return folder


def told(state: Any) -> dict[str, Any]:
    """A state without what varies; a tuple that was in a checkpoint is a list."""
    kept = {key: value for key, value in state.items() if key not in VARYING}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in kept.items()}


def executions(trajectory: Trajectory) -> dict[str, list[tuple[int, str]]]:
    """The nodes that ran, by sub-task: those of sub-tasks at the same time come in any order."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for event in trajectory.events:
        found[event.subtask].append((event.superstep, event.node))
    return found


def checkpointed(folder: Path) -> dict[str, Any]:
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        saver.serde = serializer()
        return tdp.build(saver).get_state({"configurable": {"thread_id": folder.name}}).values


def costs(state: Any) -> list[tuple[str, int, int, float]]:
    return sorted((u.node, u.calls, u.input_tokens, u.seconds) for u in state["usage"])


def assert_as_if_nothing_happened(result: Result, whole: Result) -> None:
    assert (result.ending, result.scores) == (whole.ending, whole.scores)
    assert told(result.state) == told(whole.state)
    assert executions(result.trajectory) == executions(whole.trajectory)
    kept = checkpointed(result.folder)
    assert told(kept) == told(result.state)
    assert costs(kept) == costs(result.state)
    assert kept["spent"].calls == result.state["spent"].calls == whole.usage.calls
    paid = [line.usage for line in read_lines(result.folder / "trajectory.jsonl") if isinstance(line, Event)]
    assert result.usage.calls == sum(usage.calls for usage in paid)
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert result.usage.calls == whole.usage.calls + redone


@pytest.mark.parametrize("events", [2, 6, 17, 26, 30, 31, 50])
@pytest.mark.parametrize("benchmark", WORLDS)
def test_killed_after_the_nth_event(benchmark: str, events: int, whole: dict[str, Result], tmp_path: Path):
    killed(AFTER_EVENTS, benchmark, tmp_path, events)
    folder, chat = only_run(tmp_path), Pondering()
    before = [line for line in read_lines(folder / "trajectory.jsonl") if isinstance(line, Event)]
    assert len(before) == events
    assert_as_if_nothing_happened(resume(folder, chat=chat), whole[benchmark])
    finished = {line.subtask for line in before if line.subtask} - {name for _, name in chat.asked}
    ended = [outcome["node"] for line in before if line.node == "solve" for outcome in line.update["outcomes"]]  # type: ignore
    assert {*ended} <= finished, "what had ended was not asked for again"
    # of a sub-task at work, the calls of the superstep that was cut off, and of the one whose checkpoint was on its way
    repeated = len(chat.asked) + sum(line.usage.calls for line in before) - whole[benchmark].usage.calls
    assert 0 <= repeated <= 2 * len(PAUSES)


@pytest.mark.parametrize("checkpoints", [5, 20, 40, 60, 72])
def test_killed_when_the_nth_checkpoint_is_written(checkpoints: int, whole: dict[str, Result], tmp_path: Path):
    killed(CHILD + AFTER_CHECKPOINTS, "jobs", tmp_path, checkpoints)
    assert_as_if_nothing_happened(resume(only_run(tmp_path), chat=Pondering()), whole["jobs"])


@pytest.mark.parametrize("benchmark", WORLDS)
def test_killed_again_and_again_while_resuming(benchmark: str, whole: dict[str, Result], tmp_path: Path):
    killed(AFTER_EVENTS, benchmark, tmp_path, 7)
    folder = only_run(tmp_path)
    again = CHILD + "resume(sys.argv[1], chat=Pondering(), listener=after_events(int(sys.argv[2]), die))"
    for _ in range(3):
        killed(again, folder, len(Result(folder).trajectory.events) + 7)
    result = resume(folder, chat=Pondering())
    assert_as_if_nothing_happened(result, whole[benchmark])


@pytest.mark.parametrize("calls", [3, 9, 14, 25])
def test_a_budget_spent_by_the_only_node_at_work_is_an_ending_to_go_on_from(
    calls: int, whole: dict[str, Result], tmp_path: Path
):
    stopped = begin("serial_jobs", tmp_path, context={"budget": Budget(calls=calls)})
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", calls)
    result = resume(stopped.folder, budget=Budget(), chat=Pondering())
    assert_as_if_nothing_happened(result, whole["serial_jobs"])
