"""What every registered benchmark does alike: figures over runs, also over none, and names that it refuses."""

import pytest

from certigraph.adapters.benchmarks import load_benchmark, mean_score, standard_error
from certigraph.benchmarks import BENCHMARKS
from certigraph.state.endings import Fault, UnknownName

NAMES = [name for name in BENCHMARKS if name not in ("ask", "alfworld", "rewardprediction", "swe_qa")]
"""Benchmarks with splits of their own that open without data."""


@pytest.mark.parametrize("name", NAMES)
def test_unknown_splits_configurations_and_tasks_are_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    with pytest.raises(UnknownName, match="nonsense"):
        load_benchmark(f"{name}:nonsense")
    with pytest.raises((UnknownName, Fault), match="nonsense"):
        load_benchmark(name).tasks("nonsense")
    with pytest.raises(UnknownName, match="nonsense"):
        load_benchmark(name).task("nonsense")


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_figures_of_no_run_are_zero(name: str):
    try:
        figures = load_benchmark(name).figures([])
    except Fault as fault:  # the data of the benchmark are not on this machine
        pytest.skip(str(fault))
    assert figures["n"] == 0
    assert set(figures.values()) == {0}


def test_standard_errors_need_two_values_and_means_one():
    assert (mean_score([]), mean_score([0.5]), mean_score([True, False])) == (0, 0.5, 0.5)
    assert (standard_error([]), standard_error([1.0])) == (0, 0)
    assert standard_error([0.0, 1.0]) == pytest.approx(0.5)


def test_rates_of_no_scored_plan_are_zero():
    rates = load_benchmark("travelplanner").rates([])  # type: ignore[attr-defined]
    assert set(rates.values()) == {0}
