"""Tests of `evaluation.sweep`."""

import csv
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.children import child_environment
from helpers.sample_runs.sweeps import (
    RUNS,
    TEXT,
    ended_trajectories,
    execute_sweep,
    runs_left,
    sweep_table,
    write_sweep_file,
)

from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.evaluation import sweep
from certigraph.evaluation import workers as cluster
from certigraph.evaluation.jobs import RunJob, execute_job
from certigraph.evaluation.sweep import prepare_sweep, run_command, run_sweep
from certigraph.evaluation.sweep import sweep as execute_and_report
from certigraph.evaluation.workers import WorkerOptions
from certigraph.runtime.result import BenchmarkRow
from certigraph.state.endings import Fault, Interrupted

# Sweeps that are killed or interrupted, whose worlds fail, or whose runs are other processes'.

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")


pytestmark = pytest.mark.slow


SLOW = """
import asyncio
from certigraph.nodes.sdp import always_pass

async def slow(state, runtime):
    await asyncio.sleep(0.1)
    return await always_pass(state, runtime)
"""

CHILD = """
import sys
from certigraph.evaluation.sweep import sweep
sweep(sys.argv[1], sys.argv[2])
"""


@pytest.fixture
def _generated_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


@pytest.mark.long
@pytest.mark.usefixtures("_generated_worlds")
def test_a_killed_sweep_comes_to_what_an_undisturbed_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sweep_operators.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    given, out = write_sweep_file(tmp_path, TEXT.replace("always_pass", "sweep_operators:slow")), tmp_path / "killed"
    for finished in (2, 7):
        killed(given, out, finished)
    before = ended_trajectories(out)
    begun = {path.parent.name for path in out.rglob("trajectory.jsonl")}
    assert 7 <= len(before) < RUNS

    assert execute_sweep(given, out) == execute_sweep(given, tmp_path / "whole") == []

    assert len(sweep_table(given, out)) == len(ended_trajectories(out)) == RUNS
    assert {name: ended_trajectories(out)[name] for name in before} == before  # what had ended is not even touched
    assert begun <= set(ended_trajectories(out))  # and what was begun is gone on with
    assert sweep_table(given, out) == sweep_table(given, tmp_path / "whole")


def killed(given: Path, out: Path, finished: int) -> None:
    """Begin a sweep in another process and kill it once so many runs have ended."""
    env = child_environment(given.parent)
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(given), str(out)], env=env, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(ended_trajectories(out)) < finished and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL, errors


@pytest.mark.usefixtures("_generated_worlds")
def test_ctrl_c_names_the_command_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    given, out = write_sweep_file(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(sweep.TotalBudget, "record", interrupt)
        with pytest.raises(Interrupted, match=f"resume with: certigraph sweep {given} --out {out}$"):
            execute_sweep(given, out)
    kept = ended_trajectories(out)
    assert len(kept) == 1
    assert execute_sweep(given, out) == []
    assert runs_left(given, out) == [0, 0]
    assert kept.items() <= ended_trajectories(out).items()


@pytest.mark.usefixtures("_generated_worlds")
def test_a_benchmark_that_fails_keeps_no_other_from_being_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise Fault("environment", "no Java here")

    given, out = write_sweep_file(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(BlocksWorld, "open", broken)
        [stopped] = execute_sweep(given, out)
    assert stopped.startswith("blocksworld: ") and "no Java here" in stopped
    assert runs_left(given, out) == [9, 0]
    assert execute_sweep(given, out) == []


@pytest.mark.usefixtures("_generated_worlds")
def test_workers_carry_out_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Pool:  # a worker's own code without Ray, which tests/evaluation/test_scaling*.py have
        workers, at_once = 1, 2

        async def done(self, job: RunJob) -> BenchmarkRow:
            return await execute_job(job.to_portable())

    calls: list[tuple[Any, ...]] = []

    @contextmanager
    def pooled(options: WorkerOptions, model: str, at_once: int | None) -> Iterator[Pool]:
        calls.append((options, model, at_once))
        token = cluster._ACTIVE.set(Pool())  # type: ignore[arg-type]
        yield Pool()
        cluster._ACTIVE.reset(token)

    monkeypatch.setattr(cluster, "worker_pool", pooled)
    given, out = write_sweep_file(tmp_path), tmp_path / "out"
    assert run_sweep(prepare_sweep(given, out, WorkerOptions(1, "local")), silent=True) == []
    assert calls == [(WorkerOptions(1, "local"), "simulated:act=0.2,seed=3", None)]
    execute_sweep(given, tmp_path / "here")
    assert sweep_table(given, out) == sweep_table(given, tmp_path / "here")
    assert len(ended_trajectories(out)) == RUNS
    contexts = [read_trajectory(path).header.context for path in out.rglob("trajectory.jsonl")]
    assert all(str(context["group"]).startswith("sweep out · ") for context in contexts)


@pytest.mark.usefixtures("_generated_worlds")
def test_two_processes_do_not_share_a_folder(tmp_path: Path):
    given, out = write_sweep_file(tmp_path), tmp_path / "out"
    out.mkdir()
    with sweep.lock_folder(out), pytest.raises(Fault, match="another process"):
        execute_sweep(given, out)


# Sweeps carried out: limited, extended, reported; and what is written of them.


@pytest.mark.long
@pytest.mark.usefixtures("_generated_worlds")
def test_a_spent_budget_stops_the_sweep_and_a_larger_one_goes_on(tmp_path: Path):
    given, out = write_sweep_file(tmp_path, TEXT + "most: {calls: 12}\n"), tmp_path / "out"
    found = execute_and_report(given, out)
    assert 12 <= found.spent.calls < 12 + 30  # the run that was under way ended by its own budget
    assert found.benchmarks[0].left > 0  # in the midst of the first benchmark
    assert found.left < RUNS
    [stopped] = found.stopped
    assert re.match(rf"\d+ of 12 calls are spent: {found.left} runs left", stopped)
    assert f"{found.left} of {RUNS} runs" in (out / "sweep.html").read_text()
    assert json.loads((out / "sweep.json").read_text())["partial"] is True
    before = ended_trajectories(out)
    assert (
        ended_trajectories(out).keys()
        == before.keys()
        == {row.run for one in found.benchmarks for row in one.comparison.rows}
    )
    assert execute_sweep(given, out) == [stopped]  # what was spent is known to a new process
    assert ended_trajectories(out) == before

    assert execute_sweep(write_sweep_file(tmp_path, TEXT + "most: {calls: 6000}\n"), out) == []
    assert runs_left(given, out) == [0, 0]
    assert {name: ended_trajectories(out)[name] for name in before} == before


@pytest.mark.usefixtures("_generated_worlds")
def test_hours_are_those_of_one_start(tmp_path: Path):
    given = write_sweep_file(tmp_path, TEXT + "most: {hours: 0.00000001}\n")
    [stopped] = execute_sweep(given, tmp_path / "out")
    assert "1e-08 hours" in stopped and f"{RUNS} runs left" in stopped


@pytest.mark.usefixtures("_generated_worlds")
def test_a_benchmark_may_be_added_and_nothing_else_changed(tmp_path: Path):
    small = TEXT.replace("  - {name: travelplanner, limit: 1}\n", "").replace("limit: 3", "limit: 1")
    out = tmp_path / "out"
    execute_sweep(write_sweep_file(tmp_path, small), out)
    before = ended_trajectories(out)
    with pytest.raises(Fault, match=r"other settings \(trials: 1 there, 2 here\)"):
        execute_sweep(write_sweep_file(tmp_path, small + "trials: 2\n"), out)
    with pytest.raises(Fault, match="1 task there, 2 here"):
        execute_sweep(write_sweep_file(tmp_path, small.replace("limit: 1", "limit: 2")), out)
    with pytest.raises(Fault, match=r"has runs of blocksworld, which are not in .*sweep.yaml"):
        execute_sweep(
            write_sweep_file(tmp_path, small.replace("{name: blocksworld", "{label: b, name: blocksworld")), out
        )
    with pytest.raises(Fault, match=r"other settings \(trials"):  # nor is a report of other runs written
        run_command(write_sweep_file(tmp_path, small + "trials: 2\n"), out, report_only=True, as_json=True)
    assert ended_trajectories(out) == before
    execute_sweep(write_sweep_file(tmp_path, TEXT.replace("limit: 3", "limit: 1") + "at_once: 2\n"), out)
    assert before.items() <= ended_trajectories(out).items()
    assert len(ended_trajectories(out)) == 2 * len(before)


@pytest.mark.long
@pytest.mark.usefixtures("_generated_worlds")
def test_every_number_leads_to_its_runs(tmp_path: Path):
    label = "<b>blocks</b>"
    given, out = (
        write_sweep_file(tmp_path, TEXT.replace("{name: blocksworld", f'{{label: "{label}", name: blocksworld')),
        tmp_path / "o",
    )
    found = execute_and_report(given, out)
    with (out / "rows.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == RUNS
    for row in rows:
        trajectory = read_trajectory(out / row["folder"])
        assert (trajectory.header.run_id, trajectory.header.task.id) == (row["run"], row["task"])
        assert trajectory.usage.calls == int(row["calls"])
        assert str(trajectory.header.context["group"]).startswith(f"sweep o · {row['method']}")
    blocks = next(one for one in found.benchmarks if one.title == label)
    scores = [float(row["score"]) for row in rows if row["benchmark"] == label and row["method"] == "react"]
    [summary] = [summary for summary in blocks.comparison.methods if summary.method == "react"]
    assert summary.score == pytest.approx(sum(scores) / len(scores))
    assert [effect.difference.method for effect in found.effects] == 2 * ["sdp validate=always_pass"]
    page = (out / "sweep.html").read_text()
    links = re.findall(r'(?:href|src)="(?!#)([^"]*)"|url\((?!#)[^)]*\)|<script|<link', page)
    assert links == [one.page for one in found.benchmarks]
    assert all((out / link).is_file() for link in links)
    assert label not in page
    assert "&lt;b&gt;blocks&lt;/b&gt;" in page
