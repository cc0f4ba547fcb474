"""Tests of `evaluation.bench`."""

import json

import pytest
from rich.console import Console

from certigraph.evaluation import bench_loops as bench_world
from certigraph.evaluation.bench import (
    LOOP_SETTINGS,
    WORKER_COUNTS,
    BenchResult,
    RayThroughput,
    Workload,
    _evaluate_on_ray,
    bench_table,
    measure_payload,
    print_ray,
    run_bench,
    worker_ratios,
)
from certigraph.evaluation.bench_loops import Ladder, LoopSetting, bare_graph, initial_state, plain_loop, time_lap
from certigraph.runtime.run import run
from certigraph.state.records import Fault

# The benchmark of certigraph's own machinery: what it measures is right, however fast the machine.

RUNGS = 12


@pytest.fixture(scope="module")
def done() -> BenchResult:
    return run_bench(4 * RUNGS, repetitions=2)


@pytest.mark.slow
def test_sdp_climbs_the_ladder_rung_by_rung(tmp_path):
    result = run("sdp", Ladder(RUNGS), out=tmp_path)
    assert result.terminated
    assert result.scores.value == 1.0
    assert result.credit == [1] * RUNGS
    assert len(result.trajectory.events) == time_lap(LoopSetting("sdp", "ainvoke"), RUNGS).supersteps


@pytest.mark.slow
def test_all_loops_do_the_same_climb():
    top = plain_loop(RUNGS)
    updates = list(bare_graph().stream(initial_state(RUNGS), {"recursion_limit": 5 * RUNGS}))
    assert bare_graph().invoke(initial_state(RUNGS), {"recursion_limit": 5 * RUNGS}) == top
    assert top["head"] == top["height"] == RUNGS
    assert len(updates) == time_lap(LoopSetting("bare", "invoke"), RUNGS).supersteps


@pytest.mark.slow
def test_a_climb_that_fails_gives_no_figures(monkeypatch):
    monkeypatch.setattr(bench_world, "height_after", lambda height, text: height)
    with pytest.raises(Fault, match="rung 0 of 12"):
        time_lap(LoopSetting("sdp", "ainvoke"), RUNGS)


@pytest.mark.slow
def test_checkpoints_grow_linearly():
    short, long = measure_payload(RUNGS), measure_payload(2 * RUNGS)
    assert long.supersteps == 2 * short.supersteps - 2
    assert long.per_superstep < 1.2 * short.per_superstep
    assert long.per_superstep < 4_000
    assert long.file >= long.payload


@pytest.mark.slow
def test_every_loop_is_measured_and_compared_with_the_bare_one(done):
    assert [(s.loop, s.call, s.saver) for s in done.speeds] == [tuple(setting) for setting in LOOP_SETTINGS]
    assert all(0 < s.best <= s.median and s.own <= s.median for s in done.speeds)
    assert all((s.ratio is not None) == (s.loop == "sdp") for s in done.speeds)
    assert all(s.own < s.median for s in done.speeds if s.loop == "sdp")
    assert [p.supersteps for p in done.payloads] == [4 * rungs + 2 for rungs in (3, 6, 12)]
    assert {x.operation for x in done.latencies} == {"open", "option query"}
    assert all(0 < x.p50 <= x.p95 for x in done.latencies)


@pytest.mark.slow
def test_figures_survive_json_and_are_shown(done):
    assert BenchResult.model_validate(done.as_json()) == done
    console = Console(record=True, width=200)
    console.print(bench_table(done))
    shown = console.export_text()
    assert f"{done.payloads[-1].per_superstep:,.0f}" in shown
    assert f"{done.latencies[0].p95:.3f}" in shown


# What is measured of workers on a cluster: rates after a warm-up, and ratios lap by lap.

WORKS: tuple[Workload, ...] = ("waiting", "scripted")
LAPS = [
    RayThroughput(work=work, workers=workers, episodes=30, seconds=seconds / max(workers, 1))
    for seconds in (60.0, 90.0)
    for work in WORKS
    for workers in WORKER_COUNTS
]


def test_ratios_are_of_the_same_lap_and_rates_the_median(capsys: pytest.CaptureFixture[str]):
    assert worker_ratios(LAPS, "waiting") == [2.0, 2.0]
    print_ray(LAPS, as_json=False)
    table = capsys.readouterr().out
    assert "2.00, 2.00" in table
    assert [line.split()[:4] for line in table.splitlines() if line.split()[0] in WORKS] == [
        ["waiting", "25", "25", "50"],
        ["scripted", "25", "25", "50"],
    ]
    print_ray(LAPS, as_json=True)
    assert json.loads(capsys.readouterr().out)["ratios"] == {"waiting": [2.0, 2.0], "scripted": [2.0, 2.0]}


@pytest.mark.slow
def test_a_lap_counts_the_runs_after_the_first():
    pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
    lap = _evaluate_on_ray("scripted", 0, 4)
    assert (lap.episodes, lap.workers) == (4, 0)
    assert 0 < lap.seconds < 60
