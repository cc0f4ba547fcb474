"""Workers that die, and the server of their checkpoints: runs go on, and nothing certified is lost."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")
pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

from doubles import Slow, after_events
from postgres_server import VARIABLE, Server

from certigraph.adapters import benchmarks
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.evaluation_results import Evaluation
from certigraph.runtime import postgres as leases
from certigraph.runtime.checkpoints import AWAY
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Fault

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent.parent
VARYING = {"episode": "", "usage": [], "spent": None}
"""What differs from run to run."""

TASKS = [f"{blocks}-{seed}" for blocks in (4, 5) for seed in range(6)]

WORKER = """
import os, signal, sys
from doubles import after_events
from certigraph.adapters import benchmarks
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
benchmarks.BENCHMARKS.update(script="doubles:Slow")
signal.signal(signal.SIGINT, signal.default_int_handler)
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
run("sdp", "script", out=sys.argv[1], listener=after_events(int(sys.argv[2]), die))
"""


@pytest.fixture(autouse=True)
def known_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmarks.BENCHMARKS, "script", "doubles:Slow")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """An uninterrupted run, with a file."""
    return run("sdp", Slow(), out=tmp_path_factory.mktemp("whole"))  # type: ignore[arg-type]


def worker(out: Path, events: int) -> subprocess.Popen[str]:
    """A worker that dies after so many events."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])}
    command = [sys.executable, "-c", WORKER, str(out), str(events)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def await_lines(out: Path, count: int) -> Path:
    """The folder of the run under `out`, as soon as its trajectory has that many lines."""
    for _ in range(3_000):
        found = list(out.glob("*/trajectory.jsonl"))
        if found and found[0].read_bytes().count(b"\n") >= count:
            return found[0].parent
        time.sleep(0.01)
    raise AssertionError(f"no {count} lines under {out}")


def assert_as_if_nothing_happened(result: Result, whole: Result) -> None:
    assert (result.ending, result.certificates, result.scores) == (whole.ending, whole.certificates, whole.scores)
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    assert {**result.state, **VARYING} == {**whole.state, **VARYING}
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert result.usage.calls == whole.usage.calls + redone


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("events", [1, 23])
def test_a_run_whose_worker_was_killed_goes_on_elsewhere(events: int, whole: Result, tmp_path: Path):
    process = worker(tmp_path / "out", events)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, said
    [folder] = (tmp_path / "out").iterdir()
    result = resume(shutil.move(folder, tmp_path / folder.name))
    assert_as_if_nothing_happened(result, whole)
    assert len(result.trajectory.superseded) <= 2


@pytest.mark.usefixtures("used")
def test_a_run_that_was_interrupted_from_the_keyboard_goes_on(whole: Result, tmp_path: Path):
    process = worker(tmp_path, 9_999)
    folder = await_lines(tmp_path, 12)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said.rstrip().endswith("KeyboardInterrupt") and "never retrieved" not in said
    assert Result(folder).ending == "interrupted"
    assert_as_if_nothing_happened(resume(folder), whole)


@pytest.mark.usefixtures("used")
def test_a_second_worker_is_turned_away_until_the_first_is_dead(whole: Result, tmp_path: Path):
    first = worker(tmp_path / "out", 9_999)
    folder = await_lines(tmp_path / "out", 12)
    first.send_signal(signal.SIGSTOP)
    elsewhere = shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    try:
        with pytest.raises(Fault, match=f"run {folder.name} is being run by another worker") as refused:
            resume(elsewhere)
        assert refused.value.ending == "error:data"
    finally:
        first.kill()
        first.communicate(timeout=60)
    assert_as_if_nothing_happened(resume(elsewhere), whole)


def test_a_server_that_is_killed_costs_a_run_nothing(used: Server, whole: Result, tmp_path: Path):
    outage = threading.Timer(0.4, used.start)

    def killed() -> None:
        used.kill()
        outage.start()

    result = run("sdp", Slow(), out=tmp_path, listener=after_events(30, killed))  # type: ignore[arg-type]
    outage.join()
    assert_as_if_nothing_happened(result, whole)
    assert not result.trajectory.superseded


def test_where_the_server_stays_away_the_run_ends_and_goes_on_when_it_is_back(
    used: Server, whole: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leases, "PATIENCE", 0.5)
    stopped = run("sdp", Slow(), out=tmp_path, listener=after_events(30, used.kill))  # type: ignore[arg-type]
    assert stopped.ending == "error:data"
    assert stopped.message.startswith(AWAY) and f"certigraph resume FOLDER/{stopped.folder.name}" in stopped.message
    assert len(stopped.trajectory.events) <= 31  # no step was made that could not be kept
    with pytest.raises(Fault, match=AWAY):
        resume(stopped.folder)
    used.start()
    assert_as_if_nothing_happened(resume(stopped.folder), whole)


def test_an_evaluation_comes_to_the_same_table_though_its_server_was_killed(
    used: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "postgres_operators.py").write_text(SLOW)
    monkeypatch.delenv(VARIABLE)
    undisturbed = measured(tmp_path / "undisturbed")
    monkeypatch.setenv(VARIABLE, used.url)
    over = list[int]()
    accident = threading.Thread(target=struck, args=(used, tmp_path / "struck", over))
    accident.start()
    disturbed = measured(tmp_path / "struck")
    accident.join()
    assert over[0] < len(TASKS)
    assert table(disturbed) == table(undisturbed)
    assert (disturbed.figures, disturbed.intervals) == (undisturbed.figures, undisturbed.intervals)
    names = [row.run for row in disturbed.rows]
    assert used.sql("SELECT count(*) FROM checkpoints WHERE thread_id = ANY(%s)", names) == [(0,)]  # all are over


SLOW = """
import asyncio
from certigraph.nodes.sdp import validate

async def slow(state, runtime):
    await asyncio.sleep(0.03)
    return await validate(state, runtime)
"""


def measured(out: Path) -> Evaluation:
    mind, swaps = "simulated:act=0.1,accept=0,reject=0,seed=2", ["validate=postgres_operators:slow"]
    return evaluate("sdp", "blocksworld", model=mind, ids=TASKS, swaps=swaps, out=out, max_samples=4, quiet=True)


def struck(server: Server, out: Path, over: list[int]) -> None:
    """Kill the server once a few runs are over and others are at work, and start it again a moment later."""
    deadline = time.monotonic() + 60
    while ended(out) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    server.kill()
    over.append(ended(out))
    time.sleep(0.4)
    server.start()


def ended(out: Path) -> int:
    return sum(b'"type":"footer"' in log.read_bytes() for log in out.glob("*/trajectory.jsonl"))


def table(evaluation: Evaluation) -> dict[str, Any]:
    return {row.id: (row.ending, row.footer.scores, row.certified, row.footer.usage.calls) for row in evaluation.rows}
