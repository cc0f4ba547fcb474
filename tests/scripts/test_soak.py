"""The soak test: what it counts and measures, and that a short one loses nothing and leaks nothing."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from soak import GRAPHS, SoakPlan, measure_disk, read_process, read_rows, run_soak, soak_figures

from certigraph.runtime.run import run

PLAN = SoakPlan(episodes=1_000, at_once=40, delay=0.5)
START = read_process()


def row(number: int, **changes: object) -> dict[str, Any]:
    """A run that made two calls, 100 ms later each than the endpoint took; each costs 20 ms of processor time."""
    about = {"number": number, "graph": GRAPHS[number % 2], "run": f"run-{number}", "ending": "goal"}
    used = {"seconds": 1.5, "calls": [0.6, 0.6], "cpu": START["cpu"] + 0.02 * (number + 1), "memory": 100.0}
    return {**about, **used, **changes}


def figures_of(rows: list[dict[str, Any]], finished: int = 1_000) -> dict[str, Any]:
    end = {**START, "cpu": START["cpu"] + 20, "memory": rows[-1]["memory"]}
    return soak_figures(PLAN, rows, {f"run-{n}" for n in range(finished)}, START, end)


def test_overheads_are_what_the_endpoint_did_not_take():
    done = figures_of([row(n) if n != 7 else row(7, seconds=5.0, calls=[0.6, 4.0]) for n in range(1_000)])
    assert (done["call"]["p50"], done["run"]["p50"]) == pytest.approx((100, 500))
    assert (done["call"]["most"], done["run"]["most"]) == pytest.approx((3_500, 4_000))
    assert done["endings"] == {graph: {"goal": 500} for graph in GRAPHS[:2]}


def test_windows_follow_each_other_and_show_a_cost_that_grows():
    done = figures_of([row(n) for n in range(1_000)])
    bounds = [(window["first"], window["end"]) for window in done["windows"]]
    assert bounds[:3] == [(0, 10), (10, 100), (100, 200)]
    assert bounds[-2:] == [(900, 960), (960, 1_000)], "the last runs on their own"
    assert all(window["cpu_each"] == pytest.approx(20) for window in done["windows"])
    assert done["flat"] == pytest.approx(1)
    dearer = [row(n, cpu=START["cpu"] + 0.02 * n + 0.00001 * n * n) for n in range(1_000)]
    assert figures_of(dearer)["flat"] > 1.5


def test_memory_that_grows_after_the_first_tenth_is_reported():
    steady = [row(n, memory=100.0 + 50 * (n >= 50)) for n in range(1_000)]
    assert figures_of(steady)["grown"] == pytest.approx(0)
    leaking = [row(n, memory=100.0 + 0.02 * n) for n in range(1_000)]
    assert figures_of(leaking)["grown"] == pytest.approx(0.1765, abs=1e-3)


def test_a_run_without_a_footer_is_lost(tmp_path: Path):
    assert figures_of([row(n) for n in range(1_000)], finished=998)["lost"] == 2
    kept, cut = (run("react", "blocksworld", "3-0", out=tmp_path).folder for _ in range(2))
    lines = (cut / "trajectory.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (cut / "trajectory.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")
    finished, sizes = measure_disk(tmp_path)
    assert finished == {kept.name}
    assert sizes["trajectories"] > 0.002
    assert sizes["rest"] > 0.01, "checkpoints"


def test_a_soak_that_was_interrupted_early_has_figures_too():
    done = figures_of([row(0)], finished=1)
    assert (done["ended"], done["lost"], done["flat"], done["grown"]) == (1, 0, 1.0, 0.0)


@pytest.mark.slow
@pytest.mark.alone
def test_hundreds_of_runs_at_once_lose_nothing_and_leak_nothing(tmp_path: Path):
    done = run_soak(SoakPlan(episodes=450, at_once=50, delay=0.4), tmp_path / "soak")
    start, end = done["start"], done["end"]
    assert (done["begun"], done["ended"], done["lost"]) == (450, 450, 0)
    assert done["endings"] == {graph: {"goal": 50} for graph in GRAPHS}
    assert end["worlds"] == start["worlds"]
    assert end["files"] <= start["files"] + 2
    assert end["threads"] <= start["threads"] + 1
    assert done["call"]["p50"] > 0
    assert 0.6 < done["flat"] < 1.6
    memory = [row["memory"] for row in read_rows(tmp_path / "soak" / "runs.jsonl")]
    assert median(memory[-100:]) < 1.05 * median(memory[100:200])
    assert {file.name for file in (tmp_path / "soak").iterdir()} == {"runs.jsonl", "soak.json"}
    assert json.loads((tmp_path / "soak" / "soak.json").read_text(encoding="utf-8"))["lost"] == 0


# A shell starts a background process with SIGINT ignored, and so may whatever started these tests.
INTERRUPTED = """
import signal, soak
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    soak.main()
"""


@pytest.mark.slow
@pytest.mark.alone
def test_ctrl_c_reports_what_was_measured_so_far(tmp_path: Path):
    script, rows = tmp_path / "soaking.py", tmp_path / "soak" / "runs.jsonl"
    script.write_text(f"import sys\nsys.path[:0] = {sys.path!r}\n{INTERRUPTED}", encoding="utf-8")
    options = ["--at-once", "10", "--delay", "0.05", "--json", "--out", str(tmp_path / "soak")]
    with subprocess.Popen([sys.executable, str(script), *options], stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (rows.is_file() and rows.read_bytes().count(b"\n") > 20) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    done = json.loads(printed)
    assert 20 < done["ended"] < done["begun"] < 10_000
    assert done["lost"] == 0
    assert process.returncode == 0
