"""The scripts that measure speed: what they measure is right, however fast the machine."""

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

import speed
import worker_speed
from speed import LOOPS, Ladder, Loop, build_bare_graph, initial_state, measure_checkpoints, run_plain_loop, time_lap

from certigraph.runtime.run import run
from certigraph.state.endings import Fault

RUNGS = 12


@pytest.mark.slow
def test_all_loops_do_the_same_climb(tmp_path):
    result = run("sdp", Ladder(RUNGS), out=tmp_path)
    assert (result.terminated, result.scores.value, result.credit) == (True, 1.0, [1] * RUNGS)
    assert len(result.trajectory.events) == time_lap(Loop("sdp", "ainvoke"), RUNGS).supersteps
    config = {"recursion_limit": 5 * RUNGS}
    top = run_plain_loop(RUNGS)
    assert build_bare_graph().invoke(initial_state(RUNGS), config) == top
    assert top["head"] == top["height"] == RUNGS
    updates = list(build_bare_graph().stream(initial_state(RUNGS), config))
    assert len(updates) == time_lap(Loop("bare", "invoke"), RUNGS).supersteps


def test_a_climb_that_fails_gives_no_figures(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(speed, "height_after", lambda height, text: height)
    with pytest.raises(Fault, match="rung 0 of 12"):
        time_lap(Loop("sdp", "ainvoke"), RUNGS)


@pytest.mark.slow
def test_checkpoints_grow_linearly():
    short, long = measure_checkpoints(RUNGS), measure_checkpoints(2 * RUNGS)
    assert long["supersteps"] == 2 * short["supersteps"] - 2
    each = [sizes["payload"] / (sizes["supersteps"] + 1) for sizes in (short, long)]  # the node `result` too
    assert each[1] < min(1.2 * each[0], 4_000)
    assert long["file"] >= long["payload"]


@pytest.mark.slow
def test_everything_is_measured():
    done = speed.measure_all(4 * RUNGS, repeats=2, episodes=2)
    assert [(row["loop"], row["call"], row["saver"]) for row in done["speeds"]] == [tuple(loop) for loop in LOOPS]
    assert all(0 < row["best"] <= row["median"] and 0 < row["own"] <= row["median"] for row in done["speeds"])
    assert all((row["ratio"] is not None) == (row["loop"] == "sdp") for row in done["speeds"])
    assert all(row["own"] < row["median"] for row in done["speeds"] if row["loop"] == "sdp")
    assert [row["supersteps"] for row in done["payloads"]] == [4 * rungs + 2 for rungs in (3, 6, 12)]
    assert [row["operation"] for row in done["latencies"]] == ["open", "option query"]
    assert all(0 < row["p50"] <= row["p95"] for row in done["latencies"])
    assert [(row["at_once"], row["episodes"]) for row in done["throughputs"]] == [(1, 2), (16, 2)]


def test_ratios_of_workers_are_of_the_same_lap():
    laps = [
        {"work": "waiting", "workers": workers, "episodes": 30, "seconds": seconds / share, "cpu_ms": 50.0}
        for seconds in (60.0, 90.0)
        for workers, share in (("one process", 1), ("two processes", 2))
    ]
    assert worker_speed.rates_of(laps, "waiting", "two processes") == [60, 40]
    assert worker_speed.summary_row(laps, "waiting", "two processes")["over one process"] == "2.00, 2.00"


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["one process", "two processes"])
def test_a_lap_counts_the_runs_after_the_first(workers: str):
    lap = worker_speed.measure_lap("scripted", workers, 4)
    assert (lap["episodes"], lap["workers"]) == (4, workers)
    assert 0 < lap["seconds"] < 60
    assert lap["cpu_ms"] > 0
