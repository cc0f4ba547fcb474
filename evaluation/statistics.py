"""Statistics: means, shares, intervals, paired tests and resampling.

The one implementation of every interval and test in certigraph. Only the standard errors that benchmarks report with
their metrics are computed elsewhere, in `adapters.benchmarks.standard_error`. Scores of several trials of a task share
the difficulty of that task, so standard errors and intervals are clustered by task.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import comb, isnan, nan
from random import Random
from statistics import mean, quantiles, stdev
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from scipy import stats

from certigraph.state.records import Fault

# Percentile bootstrap of any statistics, with the standard library alone.
#
# There are three bootstraps. Metrics of a benchmark are computed by its own Python code, which takes too long for the
# jackknife that BCa needs on top of the resamples, so that `bootstrap_intervals` takes percentiles. Paired differences
# and ratios (`bootstrap_interval`, `relative_change`) are sums over arrays, and BCa corrects the skew of few pairs.
# `stratified_mean` resamples inside strata, for which scipy has no BCa.

T = TypeVar("T")

Interval = tuple[float, float]
"""Lower and upper bound of an interval."""

BOOTSTRAP_DRAWS = 1_000
"""Number of resamples of the percentile bootstrap; more would change the bounds by less than tables show."""

SEED = 0
"""Seed of every bootstrap."""

MIN_SPREAD = 1e-9
"""Differences below this value are taken for rounding errors."""


def bootstrap_intervals(
    groups: Sequence[Sequence[T]], compute: Callable[[Sequence[T]], Mapping[str, float]]
) -> dict[str, Interval]:
    """Compute the 95 % interval of each statistic by a percentile bootstrap over groups (cluster bootstrap).

    A statistic with the same value in every resample has no interval.

    Args:
        groups: lists of members that are always resampled together, such as the runs of each task.
        compute: function that computes the statistics of a resample, by name.
    """
    draw, values_of = Random(SEED), defaultdict[str, list[float]](list)
    for _ in range(BOOTSTRAP_DRAWS if groups else 0):
        sample = [member for group in draw.choices(groups, k=len(groups)) for member in group]
        for name, value in compute(sample).items():
            values_of[name].append(value)
    return {
        name: _percentile_bounds(values)
        for name, values in values_of.items()
        if max(values) - min(values) >= MIN_SPREAD
    }


def figure_intervals(
    figures: Mapping[str, float], groups: Sequence[Sequence[T]], compute: Callable[[Sequence[T]], Mapping[str, float]]
) -> dict[str, Interval | None]:
    """Compute the 95 % interval of each figure (metric) by a percentile bootstrap over groups.

    With fewer than MIN_PAIRS groups, and for a figure that is the same in every resample, the bootstrap is not used.
    A figure that is a share of successes then gets Wilson's interval with the number of groups as sample size; any
    other figure gets None.

    Args:
        figures: the value of each figure over all members, by name.
        groups: lists of members that are always resampled together, such as the runs of each task.
        compute: function that computes the figures of a resample, by name.
    """
    intervals = bootstrap_intervals(groups, compute) if len(groups) >= MIN_PAIRS else {}
    single = [compute([member]) for group in groups for member in group]
    return {
        name: intervals.get(name) or _wilson_of_share(value, [one.get(name) for one in single], len(groups))
        for name, value in figures.items()
    }


def _wilson_of_share(value: float, single: Sequence[float | None], groups: int) -> Interval | None:
    # Only of a figure that is 0 or 1 for each member and, for all members, their mean.
    values = [one for one in single if one is not None]
    if not values or {*values} - {0.0, 1.0} or abs(mean(values) - value) > MIN_SPREAD:
        return None
    return wilson_interval(round(value * groups), groups)


def stratified_mean(strata: Mapping[str, Sequence[float]]) -> tuple[float, Interval | None]:
    """Compute the mean of the strata's means, with a seeded percentile bootstrap that resamples within each stratum.

    A stratum with one value adds nothing to the width of the 95 % interval. If all strata have one value, the interval
    is None.
    """
    value = float(np.mean([float(np.mean(values)) for values in strata.values()]))
    if all(len(values) < 2 for values in strata.values()):
        return value, None
    random = np.random.default_rng(SEED)
    draws = np.mean([_bootstrap_means(values, random) for values in strata.values()], axis=0)
    low, high = np.percentile(draws, (2.5, 97.5))
    return value, (float(low), float(high))


def _bootstrap_means(values: Sequence[float], random: np.random.Generator) -> np.ndarray:
    n = len(values)
    counts = random.multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return np.asarray(counts @ np.asarray(values) / n)


def _percentile_bounds(values: Sequence[float]) -> Interval:
    low, *_, high = quantiles(values, n=40, method="inclusive")
    return low, high


# Means and shares with intervals.

CONFIDENCE = 0.95
"""Coverage of every interval."""

MIN_RELATIVE_ERROR = 1e-9
"""Ratio of standard error to largest score below which the standard error is taken for a rounding error."""


class MeanEstimate(NamedTuple):
    """Mean of `n` scores in `clusters` clusters, in the unit of the scores.

    `low` and `high` bound the 95 % interval; they are None if there are too few scores for an interval. `stderr` is 0
    if all scores are equal, and `mean` is 0 if there are no scores.
    """

    n: int
    clusters: int
    mean: float
    stderr: float
    low: float | None
    high: float | None


def mean_of(
    scores: Sequence[float], clusters: Sequence[str] | None = None, *, top: float | None = None
) -> MeanEstimate:
    """Compute a mean with a cluster-robust standard error and a t interval with clusters - 1 degrees of freedom.

    The standard error is that of a regression on a constant (Liang and Zeger 1986), its square times G / (G - 1) for G
    clusters. With the same number of trials for every task it equals the standard error of the tasks' means.

    Args:
        scores: The score of each trial.
        clusters: The task of each score; None makes each score its own cluster.
        top: The highest possible score; the lowest is 0. The interval is then cut to this range, and if all scores are
            0 or all are `top`, it is Wilson's over clusters. Without it, equal scores have no interval.

    Raises:
        ValueError: scores and clusters differ in number.
    """
    names = range(len(scores)) if clusters is None else clusters
    codes = _cluster_codes(names, len(scores))
    count = len(set(codes))
    middle = float(mean(scores)) if scores else 0.0
    if count < 2:
        return MeanEstimate(len(scores), count, middle, 0.0, None, None)
    stderr, low, high = _clustered_error(scores, codes)
    if stderr <= MIN_RELATIVE_ERROR * max(map(abs, scores)):
        return MeanEstimate(len(scores), count, middle, 0.0, *_bounds_without_spread(middle, count, top))
    if top is not None:
        low, high = max(0.0, low), min(top, high)
    return MeanEstimate(len(scores), count, middle, stderr, low, high)


class ShareEstimate(NamedTuple):
    """Share of successes among `n` outcomes in `clusters` clusters, 0 to 1, with the bounds of its 95 % interval.

    The share and the bounds are NaN if there are no outcomes.
    """

    n: int
    clusters: int
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


def share_of(hits: Sequence[bool], clusters: Sequence[str]) -> ShareEstimate:
    """Compute the share of hits (successes) with Wilson's interval for the effective number of independent outcomes.

    If outcomes share a cluster (a task), the effective number is the number of independent outcomes that would have
    the same standard error as the clustered ones (design effect). It is at least the number of clusters.

    Raises:
        ValueError: hits and clusters differ in number.
    """
    if not hits:
        return ShareEstimate(0, 0)
    estimate = mean_of([float(hit) for hit in hits], clusters)
    effective = _effective_n(estimate)
    return ShareEstimate(
        estimate.n, estimate.clusters, estimate.mean, *_wilson_bounds(estimate.mean * effective, effective)
    )


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Compute Wilson's 95 % score interval (1927) of a success probability; it is 0 to 1 if `n` is 0.

    Raises:
        ValueError: `successes` is negative or larger than `n`.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials: give a number of successes from 0 to {n}")
    if n == 0:
        return 0.0, 1.0
    return _wilson_bounds(successes, n)


def _wilson_bounds(successes: float, n: float) -> tuple[float, float]:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - CONFIDENCE, method="wilson")
    # statsmodels is off by rounding where a bound is exactly 0 or 1
    return float(low) if successes else 0.0, float(high) if successes < n else 1.0


def _effective_n(estimate: MeanEstimate) -> float:
    spread = estimate.mean * (1 - estimate.mean)
    if estimate.n == estimate.clusters or not spread or estimate.clusters < 2:
        return estimate.clusters
    return min(max(spread / estimate.stderr**2, estimate.clusters), estimate.n) if estimate.stderr else estimate.n


def _cluster_codes(names: Sequence[Hashable], n: int) -> list[int]:
    if len(names) != n:
        raise ValueError(f"{n} scores but {len(names)} clusters: give the cluster of each score")
    known = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return [known[name] for name in names]


def _clustered_error(scores: Sequence[float], codes: Sequence[int]) -> tuple[float, float, float]:
    from statsmodels.regression.linear_model import OLS  # imported here, since it is slow to import

    constant = [1.0] * len(scores)
    fit = OLS([float(score) for score in scores], constant).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    low, high = fit.conf_int(alpha=1 - CONFIDENCE)[0]
    return float(fit.bse[0]), float(low), float(high)


def _bounds_without_spread(middle: float, count: int, top: float | None) -> tuple[float, float] | tuple[None, None]:
    # Scores between 0 and `top` have a mean of at most `top` times the share above 0, which Wilson's interval bounds.
    if top is None or middle not in (0.0, top):
        return None, None
    low, high = wilson_interval(count if middle else 0, count)
    return top * low, top * high


# Multiple comparisons.


def adjust_p_values(values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values for multiple comparisons by Holm's step-down method (1979); None is left out and stays None."""
    # statsmodels' multipletests runs the garbage collector at every call, which takes 20 ms and more
    known = sorted((p, index) for index, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, index) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[index] = highest
    return adjusted


# Paired differences between two methods on the same tasks, in the unit of the scores.

POWER = 0.8
"""Power of the test that defines the detectable difference."""

RESAMPLES = 10_000
"""Number of resamples of the BCa bootstrap and of the stratified bootstrap."""

MIN_PAIRS = 6
"""Minimum number of pairs for a significant difference. With five, even five differences in one direction have p = 0.06
in a sign test."""

ScoresByTask = Mapping[str, Sequence[float]]
"""Scores of the trials of each task, by task id."""


class PairedDifference(NamedTuple):
    """Mean paired difference between two methods over `n` tasks.

    `low` and `high` bound the 95 % BCa bootstrap interval (see `bootstrap_interval`). `p` is the two-sided p-value of
    the paired t-test. `detectable` is the smallest mean difference that the test would find with a power of 0.8 over
    `n` such tasks. They are None if there are too few tasks, `detectable` also if all differences are equal.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    detectable: float | None


def compare_paired(first: ScoresByTask, other: ScoresByTask) -> PairedDifference:
    """Compare two methods by the paired differences `other` minus `first` over the tasks that both have.

    The trials of a task are averaged first, so that `n` counts tasks.

    Raises:
        Fault: the methods have no task in common.
    """
    tasks = [task for task in first if task in other]
    if first and other and not tasks:
        names = f"one has {next(iter(first))!r}, the other {next(iter(other))!r}"
        raise Fault("data", f"no task in common ({names}, for instance): run both methods on the same tasks")
    before, after = ([mean(scores[task]) for task in tasks] for scores in (first, other))
    differences = [b - a for a, b in zip(before, after, strict=True)]
    low, high = bootstrap_interval(differences) or (None, None)
    return PairedDifference(
        len(differences),
        mean_difference(differences),
        low,
        high,
        paired_p(before, after),
        detectable_difference(differences),
    )


def bootstrap_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """Compute the 95 % interval of a mean paired difference by a seeded BCa bootstrap; None for fewer than two pairs.

    BCa is the bias-corrected and accelerated bootstrap (Efron 1987). Its interval is too narrow for few pairs: with 6
    pairs, one interval in eight does not contain the true difference.
    """
    if len(differences) < 2:
        return None
    if len(set(differences)) == 1:  # every resample is the same, for which BCa is not defined
        return differences[0], differences[0]
    bounds = stats.bootstrap(
        (np.asarray(differences),), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, rng=SEED
    ).confidence_interval
    return float(bounds.low), float(bounds.high)


def paired_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Compute the two-sided p-value of the paired t-test; None for fewer than two pairs.

    If all differences are equal, the t-test is not defined. The p-value is then 1 if the differences are zero, else
    that of the sign test.
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    if len(differences) < 2:
        return None
    if len(set(differences)) == 1:
        return 1.0 if differences[0] == 0 else float(stats.binomtest(0, len(differences)).pvalue)
    return float(stats.ttest_rel(second, first).pvalue)


def detectable_difference(differences: Sequence[float]) -> float | None:
    """Compute the smallest mean difference that a paired t-test finds with a power of 0.8, given these differences.

    The number of pairs and the standard deviation are those of `differences`; the test is two-sided at 5 %. The result
    is None if all differences are equal.
    """
    from statsmodels.stats.power import TTestPower

    if len(set(differences)) < 2:
        return None
    effect = TTestPower().solve_power(nobs=len(differences), alpha=1 - CONFIDENCE, power=POWER)
    return float(effect) * stdev(differences)


def is_significant(bounds: tuple[float, float] | None, n: int, p: float | None = None) -> bool:
    """Return whether a difference is significant: MIN_PAIRS pairs or more, 0 outside the interval, p at most 0.05.

    Args:
        bounds: the 95 % interval of the difference.
        n: number of pairs.
        p: p-value adjusted by Holm's method; None: only the interval decides. With 6 pairs the interval alone would
            call one in eight differences between equal methods significant.
    """
    has_low_p = p is None or p <= 1 - CONFIDENCE
    return bounds is not None and n >= MIN_PAIRS and not bounds[0] <= 0 <= bounds[1] and has_low_p


def mean_difference(differences: Sequence[float]) -> float:
    """Compute the mean of differences; 0 if there are none."""
    return mean(differences) if differences else 0.0


# Reliability over trials: pass^k.

SuccessesByTask = Mapping[str, Sequence[bool]]
"""Success of each trial, by task id."""


def pass_hat_k(outcomes: SuccessesByTask, k: int) -> MeanEstimate:
    """Estimate the probability, 0 to 1, that k independent trials of a task all succeed (Yao et al. 2024, tau-bench).

    If c of a task's n trials succeed, C(c, k) / C(n, k) is an unbiased estimate: the share of the sets of k trials that
    contain no failure. The result is the mean of this share over tasks, with an interval over tasks.

    Raises:
        Fault: a task has fewer than k trials.
        ValueError: k is below 1.
    """
    if k < 1:
        raise ValueError(f"k={k}: give a number of trials of at least 1")
    short = [(task, len(trials)) for task, trials in outcomes.items() if len(trials) < k]
    if short:
        task, n = min(short, key=lambda pair: pair[1])
        reason = f"{len(short)} of {len(outcomes)} tasks have fewer than {k} trials ({task} has {n})"
        raise Fault("data", f"{reason}: run them again with --trials {k}, or use k={n}" if n else reason)
    shares = [comb(sum(map(bool, trials)), k) / comb(len(trials), k) for trials in outcomes.values()]
    return mean_of(shares, top=1.0)


# Relative changes between two methods on the same tasks.

PERCENT = 100

AmountsByTask = Mapping[str, Sequence[float]]
"""Amounts that the trials of each task needed, such as tokens, by task id; none is negative."""


class RelativeChange(NamedTuple):
    """Change from one method's amount to another's over `n` tasks, in percent of the first amount: -50 means half.

    `low` and `high` bound the 95 % interval; they are None if there are too few tasks. If the first amount is 0,
    `percent` is None too.
    """

    n: int
    percent: float | None
    low: float | None = None
    high: float | None = None


def relative_change(first: AmountsByTask, other: AmountsByTask) -> RelativeChange:
    """Compute the relative change from `first` to `other`, a ratio of sums over the tasks that both have.

    Each task needs the same number of trials in both. The interval is that of a seeded, paired BCa bootstrap over tasks
    (Efron 1987). Like that of `bootstrap_interval` it is too narrow for few tasks.
    """
    tasks = [task for task in first if task in other]
    before, after = (np.array([sum(amounts[task]) for task in tasks], dtype=float) for amounts in (first, other))
    if not before.sum():
        return RelativeChange(len(tasks), None)
    value = _percent_change(before, after)
    return RelativeChange(len(tasks), float(value), *_bootstrap_change(before, after, float(value)))


def _bootstrap_change(before: np.ndarray, after: np.ndarray, value: float) -> tuple[float, float] | tuple[None, None]:
    if len(before) < 2 or np.count_nonzero(before) < 2:  # resamples without an amount have no ratio
        return None, None
    if np.allclose(after * before.sum(), before * after.sum(), atol=0):  # every resample is the same
        return value, value
    with np.errstate(divide="ignore", invalid="ignore"):
        sampled = stats.bootstrap(
            (before, after), _percent_change, paired=True, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, rng=SEED
        ).confidence_interval
    bounds = float(sampled.low), float(sampled.high)
    return bounds if np.isfinite(bounds).all() else (None, None)


def _percent_change(before: np.ndarray, after: np.ndarray, axis: int = -1) -> np.ndarray:
    earlier, later = before.sum(axis=axis), after.sum(axis=axis)
    return np.asarray(PERCENT * (later - earlier) / earlier)


# The slope of a line.

MIN_POINTS = 3
"""Minimum number of points for the interval of a slope."""


def fit_slope(lengths: Sequence[float], values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Fit a least-squares line through the points (length, value).

    Returns:
        The slope and the bounds of its 95 % t interval; three times None for fewer than three points.
    """
    if len(lengths) < MIN_POINTS:
        return None, None, None
    if len(set(values)) == 1:  # linregress cannot compute an error without spread
        return 0.0, 0.0, 0.0
    line = stats.linregress(lengths, values)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(lengths) - 2) * line.stderr)
    return float(line.slope), float(line.slope) - half, float(line.slope) + half


# Shares, means and ratios of frames, clustered by task.

STATISTIC_COLUMNS = ["n", "tasks", "value", "low", "high"]
"""Columns of a table of statistics; they are the fields of `Statistic`."""


class Statistic(NamedTuple):
    """Statistic over `n` rows that belong to `tasks` tasks, with the bounds of its 95 % interval; NaN: too few rows."""

    n: int
    tasks: int
    value: float
    low: float = nan
    high: float = nan


NO_STATISTIC = Statistic(0, 0, nan)


def share_interval(rows: pd.DataFrame, hits: "pd.Series[bool]") -> Statistic:
    """Compute the share of rows for which `hits` is True, with Wilson's interval as in `share_of`."""
    return Statistic(*share_of(hits.astype(bool).tolist(), _task_labels(rows)))


def average_of(rows: pd.DataFrame, values: "pd.Series[Any]", top: float | None = None) -> Statistic:
    """Compute the mean of the values that are not missing, with a t interval clustered by task.

    No value may be negative; `top` is the highest possible value, if there is one.
    """
    known = values.notna()
    if not known.any():
        return NO_STATISTIC
    tasks = _task_labels(rows[known])
    estimate = mean_of(values[known].astype(float).tolist(), tasks, top=top)
    return Statistic(estimate.n, estimate.clusters, estimate.mean, _lower_bound(estimate.low), _to_float(estimate.high))


def ratio_of(rows: pd.DataFrame, top: "pd.Series[Any]", bottom: "pd.Series[Any]") -> Statistic:
    """Compute the ratio of the sum of `top` to the sum of `bottom`, such as tokens per predicate.

    The interval is that of the linearised ratio (delta method), clustered by task and cut at 0.
    """
    above, below = top.to_numpy(dtype=float), bottom.to_numpy(dtype=float)
    if rows.empty or not below.sum():
        return NO_STATISTIC._replace(n=len(rows))
    value = float(above.sum() / below.sum())
    spread = mean_of(((above - value * below) / below.mean()).tolist(), _task_labels(rows))
    return Statistic(
        spread.n, spread.clusters, value, _lower_bound(value + _to_float(spread.low)), value + _to_float(spread.high)
    )


def compute_by_group(
    rows: pd.DataFrame, by: Sequence[str], compute: Callable[[pd.DataFrame], Statistic]
) -> pd.DataFrame:
    """Compute a statistic for each group of rows, in order of appearance.

    The table has the columns in `by` and STATISTIC_COLUMNS.
    """
    groups = rows.groupby(list(by), sort=False, dropna=False)
    lines = [(*name, *compute(group)) for name, group in groups]
    return pd.DataFrame(lines, columns=[*by, *STATISTIC_COLUMNS])


def shares_by_method(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Compute how often each value of a column occurs among the rows of each method, as a share."""
    values = rows[column].drop_duplicates().sort_values()
    lines = [
        (method, value, *share_interval(group, group[column] == value))
        for method, group in rows.groupby("method", sort=False)
        for value in values
    ]
    return pd.DataFrame(lines, columns=["method", column, *STATISTIC_COLUMNS])


def _task_labels(rows: pd.DataFrame) -> list[str]:
    return (rows["benchmark"] + " " + rows["task"]).tolist()


def _lower_bound(low: float | None) -> float:
    # A lower bound of an amount that cannot be negative.
    return _to_float(low) if low is None or isnan(low) else max(0.0, float(low))


def _to_float(value: float | None) -> float:
    return nan if value is None else float(value)
