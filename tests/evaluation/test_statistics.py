"""Statistics: results by hand, by other functions of scipy, and by simulation."""

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import mean, stdev

import pytest

pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from certigraph.adapters.benchmarks import standard_error
from certigraph.evaluation import statistics as pairs
from certigraph.evaluation.statistics import (
    MeanEstimate,
    PairedDifference,
    adjust_p_values,
    bootstrap_bounds,
    bootstrap_interval,
    compare_paired,
    detectable_difference,
    figure_intervals,
    is_significant,
    mean_of,
    paired_p,
    pass_hat_k,
    ratio_of,
    stratified_mean,
    wilson_interval,
)
from certigraph.state.endings import Fault

OUTCOMES = st.dictionaries(st.text(max_size=3), st.lists(st.booleans(), min_size=3, max_size=7), min_size=1, max_size=5)


# --- a mean


def test_the_mean_of_independent_scores_has_the_textbook_interval():
    scores = [1.0, 2.0, 3.0, 4.0, 5.0]
    found = mean_of(scores)
    assert found[:4] == (5, 5, 3.0, pytest.approx(0.70711, abs=1e-5))
    assert (found.low, found.high) == pytest.approx((3 - 2.776445 * 0.707107, 3 + 2.776445 * 0.707107), abs=1e-5)
    assert found.stderr == pytest.approx(standard_error(scores)) == pytest.approx(stats.sem(scores))


def test_trials_of_a_task_are_not_new_evidence():
    once, thrice = mean_of([10, 50, 60], ["a", "b", "c"]), mean_of([10, 50, 60] * 3, ["a", "b", "c"] * 3)
    assert thrice._replace(n=3) == pytest.approx(once)


def test_the_clustered_error_by_hand():
    """Residual sums over clusters are -4, 0 and 4: sqrt(3 / 2 * 32) / 5."""
    found = mean_of([1, 1, 3, 5, 5], ["a", "a", "b", "c", "c"])
    assert found == pytest.approx((5, 3, 3.0, math.sqrt(48) / 5, *stats.t.interval(0.95, 2, 3, math.sqrt(48) / 5)))


@pytest.mark.parametrize(
    ("scores", "clusters", "found"),
    [
        ([], [], MeanEstimate(0, 0, 0.0, 0.0, None, None)),
        ([40], ["a"], MeanEstimate(1, 1, 40.0, 0.0, None, None)),
        ([40, 60], ["a", "a"], MeanEstimate(2, 1, 50.0, 0.0, None, None)),
        ([40, 40, 40], None, MeanEstimate(3, 3, 40.0, 0.0, None, None)),
        ([0.1] * 7, None, MeanEstimate(7, 7, 0.1, 0.0, None, None)),
        ([10, 90, 90, 10], ["a", "a", "b", "b"], MeanEstimate(4, 2, 50.0, 0.0, None, None)),
    ],
)
def test_without_spread_between_tasks_there_is_no_interval(
    scores: list[float], clusters: list[str] | None, found: MeanEstimate
):
    assert mean_of(scores, clusters) == mean_of(scores, clusters, top=100) == found


def test_all_or_nothing_has_wilson_s_interval_over_tasks():
    clusters = [task for task in "abcde" for _ in range(4)]
    assert mean_of([100] * 20, clusters, top=100) == pytest.approx((20, 5, 100, 0, 56.55175, 100), abs=1e-4)
    assert mean_of([0] * 20, clusters, top=100) == pytest.approx((20, 5, 0, 0, 0, 43.44825), abs=1e-4)
    assert mean_of([0] * 20, clusters).high is None


def test_a_share_of_successes_has_wilsons_interval_for_as_many_trials_as_are_independent():
    assert mean_of([1, 0, 1, 1], top=1)[4:] == pytest.approx(wilson_interval(3, 4))
    assert mean_of([0, 100], ["a", "a"], top=100)[4:] == pytest.approx([100 * x for x in wilson_bounds(0.5, 1)])
    trials = [[1, 1, 1], [0, 0, 0], [1, 1, 0], [1, 1, 1]]
    names = [task for task in "abcd" for _ in range(3)]
    found = mean_of([score for task in trials for score in task], names, top=1)
    effective = found.mean * (1 - found.mean) / found.stderr**2
    assert 4 <= max(effective, 4) < 12
    assert found[4:] == pytest.approx(wilson_bounds(found.mean, max(effective, 4)))
    equal = mean_of([0, 1] * 6, [str(n) for n in range(6) for _ in range(2)], top=1)
    assert equal[4:] == pytest.approx(wilson_interval(6, 12)), "no spread between tasks: all trials are independent"


def wilson_bounds(share: float, n: float) -> tuple[float, float]:
    return proportion_confint(share * n, n, method="wilson")


def test_no_interval_leaves_the_scale():
    scores = [1.0] * 8 + [0.5, 0.0]
    free, bound = mean_of(scores), mean_of(scores, top=1)
    assert free.high is not None
    assert free.high > 1
    assert (bound.low, bound.high) == (free.low, 1)
    assert mean_of([0.0] * 8 + [0.5, 1.0], top=1).low == 0


def test_each_score_needs_its_cluster():
    with pytest.raises(ValueError, match="2 scores but 1 clusters"):
        mean_of([1, 2], ["a"])


def test_wilson():
    """By hand for 8 of 10: (p + z2/2n +- z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n), z2 = 3.84146."""
    assert wilson_interval(8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)
    expected = stats.binomtest(3, 7).proportion_ci(method="wilson")
    assert wilson_interval(3, 7) == pytest.approx((expected.low, expected.high))
    assert (wilson_interval(0, 0), wilson_interval(0, 5)[0], wilson_interval(5, 5)[1]) == ((0, 1), 0, 1)
    with pytest.raises(ValueError, match="7 successes in 5"):
        wilson_interval(7, 5)


# --- pairs


@pytest.mark.slow
def test_known_values():
    assert standard_error([1, 2, 3, 4, 5]) == pytest.approx(0.70711, abs=1e-5)
    assert paired_p([0] * 5, [1, 2, 3, 4, 5]) == pytest.approx(0.013236, abs=1e-6)  # t = 4.2426 with 4 degrees
    assert adjust_p_values([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])
    assert adjust_p_values([0.6, 0.9]) == [1.0, 1.0]
    assert (adjust_p_values([]), adjust_p_values([None])) == ([], [None])


def test_trials_are_averaged_within_their_task():
    first = {"a": [0, 100], "b": [20], "c": [30, 40, 50], "d": [1]}
    other = {"c": [60], "b": [40, 20], "a": [90], "e": [1]}
    found = compare_paired(first, other)
    apart = [40, 10, 20]
    assert (found.n, found.mean) == (3, pytest.approx(70 / 3))
    assert found.p == pytest.approx(stats.ttest_1samp(apart, 0).pvalue)
    assert (found.low, found.high, found.detectable) == (
        *(bootstrap_interval(apart) or ()),
        detectable_difference(apart),
    )


def test_what_cannot_be_paired():
    assert compare_paired({}, {}) == PairedDifference(0, 0.0, None, None, None, None)
    assert compare_paired({"a": [1]}, {"a": [3], "b": [9]}) == PairedDifference(1, 2, None, None, None, None)
    assert compare_paired({"a": [1], "b": [2]}, {"a": [3], "b": [4]}) == PairedDifference(2, 2, 2, 2, 0.5, None)
    with pytest.raises(Fault, match=r"no task in common \(one has '3-0', the other '4-0'"):
        compare_paired({"3-0": [1]}, {"4-0": [1]})


def test_the_bootstrap_agrees_with_theory_where_there_is_one():
    normal = [-1.64, -1.04, -0.67, -0.39, -0.13, 0.13, 0.39, 0.67, 1.04, 1.64] * 10
    low, high = bootstrap_interval([10 + x for x in normal]) or (0, 0)
    assert (low, high) == pytest.approx((10 - 1.96 * 0.0925, 10 + 1.96 * 0.0925), abs=0.02)
    assert bootstrap_interval(normal) == bootstrap_interval(normal)


@pytest.mark.parametrize("apart", [[0.0] * 29 + [1.0], [0.0, 1.0], [-1.0, 1.0], [0.0, 0.0, 1e-9]])
def test_the_bootstrap_of_hardly_any_spread_is_a_number(apart: list[float]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = bootstrap_interval(apart) or (math.nan, math.nan)
    assert min(apart) <= low <= mean(apart) <= high <= max(apart)


def test_where_the_correction_is_undefined_the_interval_is_that_of_the_percentiles():
    apart = [5.0] * 6 + [6.0] * 3
    medians = [np.median(np.random.default_rng(n).choice(apart, len(apart))) for n in range(2000)]
    assert bootstrap_bounds([[5.0] * 3 + [6.0]], np.median) == [(5.0, 6.0)]
    assert bootstrap_bounds([apart], np.median) == [tuple(np.percentile(medians, [2.5, 97.5]))]


def test_a_ratio_has_the_interval_of_its_bootstrap():
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({"benchmark": "b", "task": [f"{n}" for n in range(400)], "calls": draws.integers(1, 9, 400)})
    rows["tokens"] = rows["calls"] * draws.integers(50, 150, 400)
    ratio = ratio_of(rows, rows["tokens"], rows["calls"])
    chosen = draws.integers(0, 400, (2000, 400))
    ratios = rows["tokens"].to_numpy()[chosen].sum(1) / rows["calls"].to_numpy()[chosen].sum(1)
    assert ratio.value == rows["tokens"].sum() / rows["calls"].sum()
    assert [ratio.low, ratio.high] == pytest.approx(np.percentile(ratios, [2.5, 97.5]), rel=0.01)


def test_without_spread_there_is_nothing_to_compute():
    assert bootstrap_interval([5.0] * 8) == (5.0, 5.0)
    assert (bootstrap_interval([5.0]), paired_p([1], [2]), detectable_difference([5.0] * 8), standard_error([5.0])) == (
        None,
        None,
        None,
        0,
    )


def test_equal_differences_have_the_sign_tests_p():
    assert paired_p([1, 2, 3], [1, 2, 3]) == 1
    assert paired_p([0] * 6, [100] * 6) == pytest.approx(2 / 2**6)


@pytest.mark.parametrize(
    ("found", "n", "p", "apart"),
    [
        ((1, 3), 20, None, True),
        ((-3, -1), 6, 0.05, True),
        ((-3, -1), 6, 0.06, False),
        ((-1, 3), 20, 0.01, False),
        ((0, 3), 20, 0.01, False),
        ((1, 3), 5, 0.01, False),
        (None, 20, None, False),
    ],
)
def test_what_can_be_distinguished_from_noise(found: tuple[float, float] | None, n: int, p: float | None, apart: bool):
    assert is_significant(*(found or (None, None)), n, p) is apart


def test_the_detectable_difference_by_the_noncentral_t():
    apart = [1, 2, 3, 4, 5, 9]
    shift = (detectable_difference(apart) or 0) / standard_error(apart)
    limit = stats.t.ppf(0.975, 5)
    assert stats.nct.sf(limit, 5, shift) + stats.nct.cdf(-limit, 5, shift) == pytest.approx(0.8, abs=1e-6)


# --- other statistics by the bootstrap


def test_means_over_strata_are_resampled_within_them():
    assert stratified_mean({"a": [1.0], "b": [3.0]}) == (2.0, None)
    assert stratified_mean({"a": [1.0, 1.0], "b": [3.0]}) == (2.0, pytest.approx((2.0, 2.0)))
    wide = [float(x) for x in range(20)]
    alone, both = stratified_mean({"a": wide}), stratified_mean({"a": wide, "b": [100.0]})
    assert alone[1] == pytest.approx(bootstrap_interval(wide), abs=0.01)
    assert both[0] == (9.5 + 100) / 2
    assert both[1] == pytest.approx([(bound + 100) / 2 for bound in alone[1]], abs=1e-9)


Sized = tuple[float, float]
"""Successes and trials of a run."""


def rates_of(runs: Sequence[Sized]) -> dict[str, float]:
    """A mean over runs, a mean over some of them, and a rate over all trials of all runs, not a mean of runs."""
    large = [hits / trials for hits, trials in runs if trials > 5]
    figures = {"macro": mean(hits / trials for hits, trials in runs)} | ({"large": mean(large)} if large else {})
    return {**figures, "micro": sum(hits for hits, _ in runs) / sum(trials for _, trials in runs)}


RUNS: list[Sized] = [(n % 3, 2 + n % 5) for n in range(30)] + [(7, 9), (2, 9)]


def test_figures_that_are_means_have_the_interval_of_a_mean():
    tasks = [n // 2 for n in range(len(RUNS))]
    found = figure_intervals(rates_of(RUNS), RUNS, tasks, rates_of)
    macro = mean_of([hits / trials for hits, trials in RUNS], tasks, top=1.0)
    large = [n for n, (_, trials) in enumerate(RUNS) if trials > 5]
    assert found["macro"] == macro.interval
    assert found["large"] == mean_of([RUNS[n][0] / RUNS[n][1] for n in large], [tasks[n] for n in large], top=1.0)[4:]


@pytest.mark.slow
def test_figures_that_are_not_means_are_resampled_over_tasks():
    def interval_of(runs: Sequence[Sized], tasks: Sequence[int]) -> tuple[float, float] | None:
        return figure_intervals({"micro": rates_of(runs)["micro"]}, runs, tasks, rates_of)["micro"]

    low, high = interval_of(RUNS, range(len(RUNS))) or (0, 0)
    assert low < rates_of(RUNS)["micro"] < high
    same_again = interval_of(RUNS * 3, [*range(len(RUNS))] * 3)
    assert same_again == pytest.approx((low, high)), "trials of a task are not new evidence"
    assert interval_of(RUNS[:5], range(5)) is None, "too few tasks"
    assert interval_of([(1, 2), (2, 4)] * 4, range(8)) == mean_of([0.5] * 8, top=1.0).interval is None
    assert figure_intervals({}, [], [], rates_of) == {}


def test_a_figure_that_is_a_mean_needs_no_resamples():
    calls = []
    figure_intervals(
        {"macro": rates_of(RUNS)["macro"]}, RUNS, range(len(RUNS)), lambda r: calls.append(r) or rates_of(r)
    )
    assert len(calls) == len(RUNS) + 1


# --- trials


@pytest.mark.slow
@given(OUTCOMES, st.integers(1, 3))
def test_pass_k_is_the_share_of_subsets(outcomes: dict[str, list[bool]], k: int):
    share = mean(mean(all(drawn) for drawn in combinations(trials, k)) for trials in outcomes.values())
    assert pass_hat_k(outcomes, k).mean == pytest.approx(share)


def test_pass_k_by_hand():
    outcomes = {"a": [True, True, True, False], "b": [True] * 4, "c": [False, False, True, False]}
    found = pass_hat_k(outcomes, 2)
    assert (found.n, found.mean) == (3, pytest.approx((3 / 6 + 1 + 0) / 3))
    assert found.stderr == pytest.approx(stdev([0.5, 1, 0]) / math.sqrt(3))
    assert (found.low, found.high) == (0, 1)
    assert pass_hat_k({"a": [True] * 3, "b": [True] * 3}, 3)[2:] == (1, 0, *wilson_interval(2, 2))


def test_too_few_trials():
    with pytest.raises(Fault, match=r"2 of 3 tasks have fewer than 4 trials \(b has 2\).*--trials 4, or use k=2"):
        pass_hat_k({"a": [True] * 4, "b": [True] * 2, "c": [False] * 3}, 4)
    with pytest.raises(Fault, match="b has 0"):
        pass_hat_k({"a": [True], "b": []}, 1)
    with pytest.raises(ValueError, match="k=0"):
        pass_hat_k({"a": [True]}, 0)
    assert pass_hat_k({}, 2).n == 0


# --- simulations


def rates(draws: int, of: Callable[[], bool]) -> float:
    return sum(of() for _ in range(draws)) / draws


def significant(p: float | None) -> bool:
    return p is not None and p < 0.05


def within(rate: float, draws: int) -> float:
    """Four standard deviations of a rate: a seeded test that fails has something wrong, not bad luck."""
    return 4 * math.sqrt(rate * (1 - rate) / draws)


@pytest.mark.slow
def test_p_is_uniform_where_nothing_differs():
    chance = np.random.default_rng(1)
    tasks = chance.normal(50, 20, size=(1000, 12))  # hard and easy tasks, alike for both
    ps = [paired_p(t + chance.normal(0, 5, 12), t + chance.normal(0, 5, 12)) for t in tasks]
    assert stats.kstest(ps, "uniform").pvalue > 0.01


@pytest.mark.slow
def test_p_of_successes_keeps_its_size():
    """At n = 30, where 0/1 differences take few values: near 5 %, whatever the tasks' difficulties."""
    chance = np.random.default_rng(2)
    chances = chance.uniform(0.1, 0.9, 30)
    ps = [paired_p(*(chance.random((2, 30)) < chances).astype(float)) for _ in range(2000)]
    assert mean(map(significant, ps)) == pytest.approx(0.05, abs=within(0.05, 2000))


@pytest.mark.slow
@pytest.mark.parametrize(("clustered", "covered"), [(True, 0.95), (False, 0.66)])
def test_intervals_of_means_cover_where_trials_are_clusters(clustered: bool, covered: float):
    """20 tasks with a spread of 2, 5 trials each with a spread of 1. As 100 tasks the error looks half as large."""
    chance = np.random.default_rng(4)
    names = [str(task) for task in range(20) for _ in range(5)]

    def holds() -> bool:
        scores = np.repeat(chance.normal(0, 2, 20), 5) + chance.normal(0, 1, 100)
        found = mean_of(scores.tolist(), names if clustered else None)
        return found.low < 0 < found.high

    assert rates(600, holds) == pytest.approx(covered, abs=within(covered, 600))


@pytest.mark.slow
def test_intervals_of_differences_cover(monkeypatch: pytest.MonkeyPatch):
    """BCa falls a little short at 40 skewed pairs; fewer resamples than usual, for time."""
    monkeypatch.setattr(pairs, "RESAMPLES", 600)
    chance = np.random.default_rng(5)

    def holds() -> bool:
        low, high = bootstrap_interval(chance.exponential(1.0, 40)) or (0, 0)
        return low < 1 < high

    assert rates(600, holds) == pytest.approx(0.935, abs=within(0.935, 600))


@pytest.mark.long
@pytest.mark.slow
def test_equal_methods_are_seldom_distinguished(monkeypatch: pytest.MonkeyPatch):
    """At 6 pairs the interval alone would find a difference in one case of eight."""
    monkeypatch.setattr(pairs, "RESAMPLES", 400)
    chance = np.random.default_rng(6)
    drawn = [{str(task): [score] for task, score in enumerate(scores)} for scores in chance.normal(size=(600, 6))]
    found = [compare_paired({task: [0.0] for task in scores}, scores) for scores in drawn]
    claimed = mean(is_significant(d.low, d.high, d.n, d.p) for d in found)
    assert claimed == pytest.approx(0.05, abs=within(0.05, 600))
    assert mean(is_significant(d.low, d.high, d.n) for d in found) > 0.09


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 30])
def test_four_of_five_samples_show_the_detectable_difference(n: int):
    chance = np.random.default_rng(n)
    spread = [x * 7 / stdev(range(n)) for x in range(n)]  # whose standard deviation is 7
    shown = [paired_p([0.0] * n, sample) for sample in chance.normal(detectable_difference(spread), 7, size=(2000, n))]
    assert mean(map(significant, shown)) == pytest.approx(0.8, abs=within(0.8, 2000))
