"""The scripts that measure speed: what they measure is right, however fast the machine."""

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

import ray_speed
import speed
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
    each = [sizes["payload"] / sizes["supersteps"] for sizes in (short, long)]
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
        {"work": work, "workers": workers, "episodes": 30, "seconds": seconds / max(workers, 1)}
        for seconds in (60.0, 90.0)
        for work in ray_speed.WORKLOADS
        for workers in ray_speed.WORKER_COUNTS
    ]
    assert ray_speed.rates_of(laps, "waiting", 2) == [60, 40]
    assert ray_speed.worker_ratios(laps, "waiting") == [2, 2]


@pytest.mark.slow
def test_a_lap_counts_the_runs_after_the_first():
    lap = ray_speed.measure_lap("scripted", 0, 4)
    assert (lap["episodes"], lap["workers"]) == (4, 0)
    assert 0 < lap["seconds"] < 60
