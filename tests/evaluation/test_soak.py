"""The soak: what it counts and measures, and that a short one loses nothing and leaks nothing."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

from certigraph.evaluation.soak import (
    SOAK_GRAPHS,
    DiskUsage,
    SoakPlan,
    SoakResult,
    SoakRun,
    measure_disk,
    read_process,
    read_soak_runs,
    run_soak,
    soak_figures,
)
from certigraph.runtime.run import run

PLAN = SoakPlan(episodes=1_000, at_once=40, delay=0.5)


def row(number: int, **changes: object) -> SoakRun:
    """A run that made two calls, 100 ms later each than the endpoint took; each costs 20 ms of processor time."""
    usual = SoakRun(
        number=number,
        graph=SOAK_GRAPHS[number % 2],
        run=f"run-{number}",
        ending="goal",
        seconds=1.5,
        calls=(0.6, 0.6),
        cpu=held_at_start.cpu + 0.02 * (number + 1),
        memory=100.0,
    )
    return usual.model_copy(update=changes)


held_at_start = read_process()


def result_of(rows: list[SoakRun], finished: int) -> SoakResult:
    disk = DiskUsage(finished=frozenset(f"run-{n}" for n in range(finished)), trajectories=1.0, rest=2.0)
    end = held_at_start.model_copy(update={"cpu": held_at_start.cpu + 20.0, "memory": rows[-1].memory})
    return soak_figures(PLAN, len(rows), rows, disk, (held_at_start, end), 40.0)


def test_overheads_are_what_the_endpoint_did_not_take():
    slow = row(7, seconds=5.0, calls=(0.6, 4.0))
    done = result_of([row(n) for n in range(7)] + [slow] + [row(n) for n in range(8, 1_000)], 1_000)
    assert done.call.p50 == pytest.approx(100)
    assert done.run.p50 == pytest.approx(500)
    assert (done.call.most, done.run.most) == pytest.approx((3_500, 4_000))
    assert done.busy == pytest.approx(0.5)


def test_windows_follow_each_other_and_tell_a_cost_that_grows():
    rows = [row(n) for n in range(1_000)]
    done = result_of(rows, 1_000)
    assert [(w.first, w.end) for w in done.windows][:3] == [(0, 10), (10, 100), (100, 200)]
    assert [(w.first, w.end) for w in done.windows][-2:] == [(900, 960), (960, 1_000)], "the last runs on their own"
    assert all(w.cpu_each == pytest.approx(20) for w in done.windows)
    assert done.flat == pytest.approx(1)
    dearer = [row(n, cpu=held_at_start.cpu + 0.02 * n + 0.00001 * n * n) for n in range(1_000)]
    assert result_of(dearer, 1_000).flat > 1.5


def test_memory_that_grows_after_the_first_tenth_is_reported():
    steady = [row(n, memory=100.0 + 50 * (n >= 50)) for n in range(1_000)]
    assert result_of(steady, 1_000).grown == pytest.approx(0)
    leaking = [row(n, memory=100.0 + 0.02 * n) for n in range(1_000)]
    assert result_of(leaking, 1_000).grown == pytest.approx(0.1765, abs=1e-3)


def test_a_run_without_a_footer_is_lost(tmp_path: Path):
    assert result_of([row(n) for n in range(1_000)], 998).lost == 2
    kept, cut = (run("react", "blocksworld", "3-0", out=tmp_path).folder for _ in range(2))
    lines = (cut / "trajectory.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (cut / "trajectory.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")
    found = measure_disk(tmp_path)
    assert found.finished == {kept.name}
    assert found.trajectories > 0.002
    assert found.rest > 0.01, "checkpoints"


def test_a_soak_that_was_interrupted_early_has_figures_too():
    done = result_of([row(0)], 1)
    assert (done.ended, done.lost, done.flat, done.grown) == (1, 0, 1.0, 0.0)


@pytest.mark.slow
@pytest.mark.alone
def test_hundreds_of_runs_at_once_lose_nothing_and_leak_nothing(tmp_path: Path):
    lines: list[str] = []
    done = run_soak(SoakPlan(episodes=450, at_once=50, delay=0.4), tmp_path / "soak", progress=lines.append)
    assert (done.begun, done.ended, done.lost) == (450, 450, 0)
    assert done.endings == {graph: {"goal": 50} for graph in SOAK_GRAPHS}
    assert done.end.worlds == done.start.worlds
    assert done.end.files <= done.start.files + 2
    assert done.end.threads <= done.start.threads + 1
    assert done.call.p50 > 0
    assert 0.6 < done.flat < 1.6
    memory = [row.memory for row in read_soak_runs(tmp_path / "soak" / "runs.jsonl")]
    assert median(memory[-100:]) < 1.05 * median(memory[100:200])
    assert len(lines) == 20
    assert SoakResult.model_validate_json((tmp_path / "soak" / "soak.json").read_text(encoding="utf-8")) == done
    assert {file.name for file in (tmp_path / "soak").iterdir()} == {"runs.jsonl", "soak.json"}


# A shell starts what it puts into the background deaf to SIGINT, and so may be whatever started these tests.
INTERRUPTED = """
import signal, sys
from pathlib import Path
from certigraph.evaluation.soak import SoakPlan, print_soak, run_soak

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print_soak(run_soak(SoakPlan(10_000, 10, 0.05), Path(sys.argv[1]), progress=lambda line: None), as_json=True)
"""


@pytest.mark.slow
@pytest.mark.alone
def test_ctrl_c_tells_what_was_measured_so_far(tmp_path: Path):
    script, rows = tmp_path / "soaking.py", tmp_path / "soak" / "runs.jsonl"
    script.write_text(INTERRUPTED, encoding="utf-8")
    command = [sys.executable, str(script), str(tmp_path / "soak")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (rows.is_file() and rows.read_bytes().count(b"\n") > 20) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    done = SoakResult.model_validate(json.loads(printed))
    assert 20 < done.ended < done.begun < 10_000
    assert done.lost == 0
    assert process.returncode == 0
