"""What is measured of workers on a cluster: rates after a warm-up, and ratios lap by lap."""

import json

import pytest

from certigraph.evaluation.bench import WORKERS, Spread, Work, _evaluate_on_ray, print_ray, ratios

WORKS: tuple[Work, ...] = ("waiting", "scripted")
LAPS = [
    Spread(work=work, workers=workers, episodes=30, seconds=seconds / max(workers, 1))
    for seconds in (60.0, 90.0)
    for work in WORKS
    for workers in WORKERS
]


def test_ratios_are_of_the_same_lap_and_rates_the_median(capsys: pytest.CaptureFixture[str]):
    assert ratios(LAPS, "waiting") == [2.0, 2.0]
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
