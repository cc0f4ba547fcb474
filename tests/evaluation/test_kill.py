"""Runs whose process dies: what is on disk resumes to what an uninterrupted run would have certified."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doubles import Slow
from langgraph.checkpoint.sqlite import SqliteSaver
from study_world import Riddles

from certigraph.adapters import benchmarks
from certigraph.adapters.protocols import Context, Limits
from certigraph.graphs import sdp
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.serialization import serializer

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent.parent
VARYING = {"episode": "", "usage": [], "spent": None}
"""What differs from run to run."""

PRELUDE = """
import os, signal, sys
from doubles import after_events
from certigraph.adapters import benchmarks
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
benchmarks.BENCHMARKS.update(script="doubles:Slow", riddles="study_world:Riddles")
signal.signal(signal.SIGINT, signal.default_int_handler)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def known_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmarks.BENCHMARKS, "script", "doubles:Slow")
    monkeypatch.setitem(benchmarks.BENCHMARKS, "riddles", "study_world:Riddles")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Uninterrupted runs, by benchmark."""
    out = tmp_path_factory.mktemp("whole")
    return {
        "blocksworld": run("sdp", "blocksworld", "4-0", out=out),
        "script": run("sdp", Slow(), out=out),  # type: ignore[arg-type]
    }


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])}
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def died(process: subprocess.Popen[str], status: int = -signal.SIGKILL) -> None:
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said


def only_run(out: Path) -> Path:
    (folder,) = out.iterdir()
    return folder


def lines(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a trajectory, torn one left out."""
    texts = (folder / "trajectory.jsonl").read_bytes().split(b"\n")
    return [json.loads(text) for text in texts[:-1]]


def await_lines(out: Path, count: int) -> Path:
    """The folder of the run under `out`, as soon as its trajectory has that many lines."""
    for _ in range(3_000):
        found = list(out.glob("*/trajectory.jsonl"))
        if found and found[0].read_bytes().count(b"\n") >= count:
            return found[0].parent
        time.sleep(0.005)
    raise AssertionError(f"no {count} lines under {out}")


def checkpointed(folder: Path) -> dict[str, Any]:
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        saver.serde = serializer()
        return sdp.build(saver).get_state({"configurable": {"thread_id": folder.name}}).values


def paid(folder: Path) -> Iterator[dict[str, Any]]:
    return (line["usage"] for line in lines(folder) if line["type"] == "event")


def assert_as_if_nothing_happened(result: Result, whole: Result) -> None:
    assert (result.ending, result.certificates) == (whole.ending, whole.certificates)
    assert result.states == whole.states
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    assert {**result.state, **VARYING} == {**whole.state, **VARYING}
    assert result.state == checkpointed(result.folder)
    assert result.scores == whole.scores
    usage = result.usage
    assert usage.calls == sum(line["calls"] for line in paid(result.folder))
    assert usage.input_tokens == sum(line["input_tokens"] for line in paid(result.folder))
    assert usage.seconds == pytest.approx(sum(line["seconds"] for line in paid(result.folder)))
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert usage.calls == whole.usage.calls + redone


@pytest.mark.parametrize("events", [1, 2, 3, 4, 5, 6, 9, 17])
def test_killed_after_the_nth_event(events: int, whole: dict[str, Result], tmp_path: Path):
    code = "run('sdp', 'blocksworld', '4-0', out=sys.argv[1], listener=after_events(int(sys.argv[2]), die))"
    died(child(code, tmp_path, events))
    folder = only_run(tmp_path)
    before = lines(folder)
    assert [line["type"] for line in before] == ["header", *["event"] * events]
    assert Result(folder).ending == "interrupted"
    result = resume(folder)
    assert_as_if_nothing_happened(result, whole["blocksworld"])
    assert lines(folder)[: events + 1] == before


def test_killed_again_and_again_while_resuming(whole: dict[str, Result], tmp_path: Path):
    died(child("run('sdp', 'blocksworld', '4-0', out=sys.argv[1], listener=after_events(2, die))", tmp_path))
    folder = only_run(tmp_path)
    for _ in range(3):
        known = len(Result(folder).trajectory.events)
        code = "resume(sys.argv[1], listener=after_events(int(sys.argv[2]), die))"
        died(child(code, folder, known + 4))
    result = resume(folder)
    assert sum(line["type"] == "resumed" for line in lines(folder)) == 4
    assert_as_if_nothing_happened(result, whole["blocksworld"])


@pytest.mark.parametrize("count", [1, 5, 20, 47, 80])
def test_killed_from_outside_at_any_moment(count: int, whole: dict[str, Result], tmp_path: Path):
    process = child("run('sdp', 'script', out=sys.argv[1])", tmp_path)
    folder = await_lines(tmp_path, count)
    process.kill()
    died(process)
    assert Result(folder).ending == "interrupted"
    assert_as_if_nothing_happened(resume(folder), whole["script"])


@pytest.mark.parametrize("count", [8, 30, 55])
def test_interrupted_from_the_keyboard(count: int, whole: dict[str, Result], tmp_path: Path):
    process = child("run('sdp', 'script', out=sys.argv[1])", tmp_path)
    folder = await_lines(tmp_path, count)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGINT, 1)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "footer" not in {line["type"] for line in lines(folder)}
    assert Result(folder).ending == "interrupted"
    assert_as_if_nothing_happened(resume(folder), whole["script"])


FULL = Limits(steps=40, passages=2, context=900)
"""A context that MemGPT fills."""

SEARCH = """
from certigraph.adapters.protocols import Context
from certigraph.adapters.protocols import Limits
graph, events, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = Context(limits=Limits(steps=40, passages=2, context=900))
run(graph, 'riddles', 'looped', context=context, out=out, listener=after_events(events, die))
"""


def parallel(state: dict[str, Any]) -> dict[str, Any]:
    """The state without what differs from run to run; searches that run at once end in any order."""
    branches = sorted(state.get("branches", ()), key=lambda branch: branch.number)
    return {**state, **VARYING, "branches": branches}


@pytest.mark.parametrize(
    ("graph", "events"),
    [("ircot", 2), ("ircot", 9), ("memgpt", 8), ("memgpt", 22), ("pbai", 13), ("iter_retgen", 7)]
    + [("hypotheses", events) for events in (1, 2, 3, 4, 5, 6)],
)
def test_a_search_that_was_killed_ends_as_one_that_was_not(graph: str, events: int, tmp_path: Path):
    died(child(SEARCH, graph, events, tmp_path / "killed"))
    folder = only_run(tmp_path / "killed")
    before = lines(folder)
    result = resume(folder)
    whole = run(graph, Riddles(), "looped", context=Context(limits=FULL), out=tmp_path / "whole")
    assert (result.ending, result.scores) == (whole.ending, whole.scores)
    assert parallel(result.state) == parallel(whole.state)
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert result.usage.calls == whole.usage.calls + redone
    assert lines(folder)[: len(before)] == before
