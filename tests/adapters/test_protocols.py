"""Every benchmark's default limits are the paper's."""

import pytest

from certigraph.adapters.benchmarks import BENCHMARKS, load_benchmark
from certigraph.adapters.protocols import PAPER_LIMITS, Limits

APPENDIX = {
    "travelplanner": (3, 5, 60),
    "scienceworld": (30, 5, 500),
    "assistantbench": (3, 2, 30),
    "hotpotqa": (3, 2, 20),
    "musique": (3, 2, 25),
}
"""Attempts, replans and steps: SDP, tables of appendix A."""


@pytest.mark.parametrize("name", APPENDIX)
def test_the_table_has_the_papers_numbers(name: str):
    limits = PAPER_LIMITS[name]
    assert (limits.attempts, limits.replans, limits.steps) == APPENDIX[name]


def test_subqueries_and_passages_are_the_papers():
    assert PAPER_LIMITS["assistantbench"].subqueries == 5
    assert {PAPER_LIMITS[name].passages for name in ("hotpotqa", "musique")} == {10}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_takes_its_limits_from_the_table(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    assert load_benchmark(name).limits is PAPER_LIMITS[name]


def test_a_benchmark_the_paper_did_not_run_has_the_defaults():
    assert PAPER_LIMITS["blocksworld"] == Limits()
    assert set(PAPER_LIMITS) >= set(BENCHMARKS) | set(APPENDIX)
