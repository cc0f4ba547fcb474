"""Sweeps that are killed or interrupted, whose worlds fail, or whose runs are other processes'."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")

from sweeps import RUNS, TEXT, ended, file, runs_left, table, worked

from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.evaluation import sweep
from certigraph.evaluation import workers as cluster
from certigraph.evaluation.comparison import Workers
from certigraph.evaluation.sweep import carried_out, prepared
from certigraph.evaluation.workers import Job, Worker
from certigraph.runtime.result import Row
from certigraph.state.records import Fault, Interrupted

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

SLOW = """
import asyncio
from certigraph.nodes.sdp import always_pass

async def slow(state, runtime):
    await asyncio.sleep(0.1)
    return await always_pass(state, runtime)
"""

CHILD = """
import sys
from certigraph.evaluation.sweep_report import sweep
sweep(sys.argv[1], sys.argv[2])
"""


@pytest.fixture(autouse=True)
def _generated_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def test_a_killed_sweep_comes_to_what_an_undisturbed_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sweep_operators.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    given, out = file(tmp_path, TEXT.replace("always_pass", "sweep_operators:slow")), tmp_path / "killed"
    for finished in (2, 7):
        killed(given, out, finished)
    before = ended(out)
    begun = {path.parent.name for path in out.rglob("trajectory.jsonl")}
    assert 7 <= len(before) < RUNS

    assert worked(given, out) == worked(given, tmp_path / "whole") == []

    assert len(table(given, out)) == len(ended(out)) == RUNS
    assert {name: ended(out)[name] for name in before} == before  # what had ended is not even touched
    assert begun <= set(ended(out))  # and what was begun is gone on with
    assert table(given, out) == table(given, tmp_path / "whole")


def killed(given: Path, out: Path, finished: int) -> None:
    """Begin a sweep in another process and kill it once so many runs have ended."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(given.parent), str(ROOT / "src")])}
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(given), str(out)], env=env, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(ended(out)) < finished and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    _, said = child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL, said


def test_ctrl_c_names_the_command_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    given, out = file(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(sweep.Purse, "note", interrupt)
        with pytest.raises(Interrupted, match=f"go on with: certigraph sweep {given} --out {out}$"):
            worked(given, out)
    kept = ended(out)
    assert len(kept) == 1
    assert worked(given, out) == []
    assert runs_left(given, out) == [0, 0]
    assert kept.items() <= ended(out).items()


def test_a_benchmark_that_fails_keeps_no_other_from_being_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise Fault("environment", "no Java here")

    given, out = file(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(BlocksWorld, "open", broken)
        [stopped] = worked(given, out)
    assert stopped.startswith("blocksworld: the first 3 runs failed alike (no Java here): mend that and go on with: ")
    assert stopped.endswith(f"certigraph sweep {given} --out {out}")
    assert runs_left(given, out) == [9, 0]
    assert worked(given, out) == []


def test_workers_carry_out_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Pool:  # a worker's own code without Ray, which tests/evaluation/test_scaling*.py have
        workers, at_once = 1, 2

        async def done(self, job: Job) -> Row:
            return await Worker([]).done(job.anywhere())

    asked: list[tuple[Any, ...]] = []

    @contextmanager
    def pooled(address: str, model: str, **counts: int | None) -> Iterator[Pool]:
        asked.append((address, model, counts))
        yield Pool()

    monkeypatch.setattr(cluster, "pooled", pooled)
    given, out = file(tmp_path), tmp_path / "out"
    assert carried_out(prepared(given, out, Workers("local", 1)), silent=True) == []
    assert asked == 2 * [("local", "simulated:act=0.2,seed=3", {"workers": 1, "at_once": None})]
    worked(given, tmp_path / "here")
    assert table(given, out) == table(given, tmp_path / "here")
    assert len(ended(out)) == RUNS


def test_two_processes_do_not_share_a_folder(tmp_path: Path):
    given, out = file(tmp_path), tmp_path / "out"
    out.mkdir()
    with sweep.alone(out), pytest.raises(Fault, match="another process"):
        worked(given, out)
