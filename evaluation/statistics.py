"""Statistics: means, shares, intervals, paired tests and resampling.

The one implementation of every interval and test in certigraph; the standard errors that benchmarks give with their
figures are `adapters.benchmarks.standard_error`. Scores of several trials of a task share the difficulty of that task,
so that standard errors and intervals are clustered by task.
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
# There are three bootstraps. Figures of a benchmark are computed by its own Python code, which takes too long for the
# jackknife that BCa needs on top of the resamples, so that `bootstrap_intervals` takes percentiles. Paired differences
# and ratios (`bootstrap_interval`, `relative_change`) are sums over arrays, and BCa corrects the skew of few pairs.
# `stratified_mean` resamples inside strata, for which scipy has no BCa.

T = TypeVar("T")

Interval = tuple[float, float]
"""Lower and upper bound."""

BOOTSTRAP_DRAWS = 1_000
"""Number of resamples; more change the bounds by less than tables show."""

SEED = 0
"""Seed of every bootstrap."""

MIN_SPREAD = 1e-9
"""Differences below this are rounding errors."""


def bootstrap_intervals(
    groups: Sequence[Sequence[T]], compute: Callable[[Sequence[T]], Mapping[str, float]]
) -> dict[str, Interval]:
    """Compute the 95 % interval of each statistic by a percentile bootstrap over groups.

    A statistic with the same value in every resample has no interval.

    Args:
        groups: the members that are drawn together, such as the runs of each task.
        compute: computes the statistics of a sample, by name.
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
    """Compute the 95 % interval of each figure, whatever it computes.

    A percentile bootstrap over groups. With fewer than MIN_PAIRS groups, and for a figure that is the same in every
    sample, a share of hits has Wilson's interval with one count per group; other figures have none.

    Args:
        figures: the figures of all members.
        groups: the members that are drawn together, such as the runs of each task.
        compute: computes the figures of a sample.
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
    """Compute the mean of the means of strata, with a seeded percentile bootstrap that resamples within each stratum.

    A stratum with one value adds nothing to the width; if all have one value, there is no interval.
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
"""Ratio of standard error to largest score below which the standard error is a rounding error."""


class MeanEstimate(NamedTuple):
    """Mean of `n` scores in `clusters` clusters, in the unit of the scores.

    `low` and `high` bound the 95 % interval; they are None if there are too few scores for one. `stderr` is 0 without
    spread, and `mean` is 0 without scores.
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

    The error is that of a regression on a constant (Liang and Zeger 1986), its square times G / (G - 1) for G
    clusters. With the same number of trials for every task it is the standard error of the tasks' means.

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
    """Share of hits, 0 to 1, of `n` outcomes in `clusters` clusters, and its 95 % interval; NaN without outcomes."""

    n: int
    clusters: int
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


def share_of(hits: Sequence[bool], clusters: Sequence[str]) -> ShareEstimate:
    """Compute the share of hits with Wilson's interval for the effective number of independent outcomes.

    If outcomes share a cluster (a task), the effective number is the one that has the clustered standard error (the
    design effect), at least the number of clusters.

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
    """Compute Wilson's 95 % score interval (1927) of a probability; 0 to 1 without trials.

    Raises:
        ValueError: there are more successes than trials, or fewer than none.
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
    """Adjust p-values for multiple comparisons by Holm's step-down rule (1979); None stays None and is not counted."""
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
"""Number of resamples of the bootstrap of paired differences."""

MIN_PAIRS = 6
"""Minimum number of pairs for a significant difference: five of five in one direction is p = 0.06 by a sign test."""

ScoresByTask = Mapping[str, Sequence[float]]
"""Scores of the trials, by task."""


class PairedDifference(NamedTuple):
    """Mean paired difference between two methods over `n` tasks.

    `low` and `high` bound the 95 % interval (see `bootstrap_interval`), `p` is from the paired t-test,
    `detectable_difference` is the smallest difference that n such tasks would show four times in five. They are None
    with too few tasks or no spread.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    detectable: float | None


def compare_paired(first: ScoresByTask, other: ScoresByTask) -> PairedDifference:
    """Compare `other` minus `first` over the tasks of both; trials are averaged within a task, so that n counts tasks.

    Raises:
        Fault: they have no task in common.
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
    """Compute the 95 % interval of the mean paired difference by a seeded bootstrap over tasks; None below two pairs.

    The bootstrap is bias-corrected and accelerated (BCa; Efron 1987). The interval is too narrow for few pairs: with 6
    pairs, one in eight does not contain the true difference.
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
    """Compute the two-sided p of the paired t-test; None below two pairs.

    If all differences are equal, the t-test is not defined: p is 1 if they are zero, else that of the sign test.
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    if len(differences) < 2:
        return None
    if len(set(differences)) == 1:
        return 1.0 if differences[0] == 0 else float(stats.binomtest(0, len(differences)).pvalue)
    return float(stats.ttest_rel(second, first).pvalue)


def detectable_difference(differences: Sequence[float]) -> float | None:
    """Compute the mean difference that as many pairs with this spread would show four times in five.

    The test is a two-sided paired t-test at 5 %. None if the differences have no spread.
    """
    from statsmodels.stats.power import TTestPower

    if len(set(differences)) < 2:
        return None
    effect = TTestPower().solve_power(nobs=len(differences), alpha=1 - CONFIDENCE, power=POWER)
    return float(effect) * stdev(differences)


def is_significant(bounds: tuple[float, float] | None, n: int, p: float | None = None) -> bool:
    """Whether a difference is significant: enough pairs, zero outside the interval, and p at most 5 %.

    Pass the p adjusted by Holm's rule: with 6 pairs the interval alone finds a difference between one in eight pairs of
    equal methods.
    """
    has_low_p = p is None or p <= 1 - CONFIDENCE
    return bounds is not None and n >= MIN_PAIRS and not bounds[0] <= 0 <= bounds[1] and has_low_p


def mean_difference(differences: Sequence[float]) -> float:
    """Compute the mean of differences; 0 without any."""
    return mean(differences) if differences else 0.0


# Reliability over trials: pass^k.

SuccessesByTask = Mapping[str, Sequence[bool]]
"""Success of each trial, by task."""


def pass_hat_k(outcomes: SuccessesByTask, k: int) -> MeanEstimate:
    """Estimate the probability, 0 to 1, that k independent trials of a task all succeed (Yao et al. 2024, tau-bench).

    If c of a task's n trials succeed, the share of k-subsets without a failure, C(c, k) / C(n, k), is an unbiased
    estimate. The result is its mean over tasks, with an interval over tasks.

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
"""Amounts that the trials needed, none below 0, by task."""


class RelativeChange(NamedTuple):
    """Change from one method's amount to another's over `n` tasks, in percent of the first: -50 is half.

    `low` and `high` bound the 95 % interval. They are None with too few tasks, and all are None if the first amount is
    0.
    """

    n: int
    percent: float | None
    low: float | None = None
    high: float | None = None


def relative_change(first: AmountsByTask, other: AmountsByTask) -> RelativeChange:
    """Compute the change from `first` to `other`, a ratio of sums over the tasks of both.

    Each task needs the same number of trials in both. The interval is a seeded BCa bootstrap over tasks (Efron 1987),
    each drawn with both its amounts; it is too narrow for few pairs, as that of `bootstrap_interval`.
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
    """Fit a least-squares line.

    Returns:
        The slope with the bounds of its interval; None for fewer than three points.
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
"""Columns of a table of statistics."""


class Statistic(NamedTuple):
    """Statistic over `n` rows in `tasks` tasks with its 95 % interval; NaN if there are too few."""

    n: int
    tasks: int
    value: float
    low: float = nan
    high: float = nan


NO_STATISTIC = Statistic(0, 0, nan)


def share_interval(rows: pd.DataFrame, hits: "pd.Series[bool]") -> Statistic:
    """Compute the share of rows that are hits, with Wilson's interval as in `share_of`."""
    return Statistic(*share_of(hits.astype(bool).tolist(), _task_labels(rows)))


def average_of(rows: pd.DataFrame, values: "pd.Series[Any]", top: float | None = None) -> Statistic:
    """Compute the mean of the values that are not missing, none below 0; `top` is the highest possible value."""
    known = values.notna()
    if not known.any():
        return NO_STATISTIC
    tasks = _task_labels(rows[known])
    estimate = mean_of(values[known].astype(float).tolist(), tasks, top=top)
    return Statistic(estimate.n, estimate.clusters, estimate.mean, _lower_bound(estimate.low), _to_float(estimate.high))


def ratio_of(rows: pd.DataFrame, top: "pd.Series[Any]", bottom: "pd.Series[Any]") -> Statistic:
    """Compute a ratio of sums, as in tokens per predicate; the interval is that of the linearised ratio, cut at 0."""
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
    """Compute a statistic for each group, in order of appearance: names of the group, then the columns of COLUMNS."""
    groups = rows.groupby(list(by), sort=False, dropna=False)
    lines = [(*name, *compute(group)) for name, group in groups]
    return pd.DataFrame(lines, columns=[*by, *STATISTIC_COLUMNS])


def shares_by_method(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Compute the share of each value of a column among the rows of each method."""
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
