"""Statistics: means, shares, intervals, paired tests and resampling.

The one implementation of every interval and test in certigraph. Only the standard errors that benchmarks report with
their metrics are computed elsewhere, in `adapters.benchmarks.standard_error`. Scores of several trials of a task share
the difficulty of that task, so standard errors and intervals are clustered by task.

A mean of scores has the interval of `mean_of`, whoever prints it. Everything else (differences, ratios, other figures
of a benchmark) has that of `bootstrap_bounds`.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, isnan, nan
from statistics import mean, stdev
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from scipy import stats

from certigraph.state.endings import Fault

T = TypeVar("T")

Interval = tuple[float, float]
"""Lower and upper bound of an interval."""

CONFIDENCE = 0.95
"""Coverage of every interval."""

# Means and shares with intervals.

MIN_RELATIVE_ERROR = 1e-9
"""Ratio of standard error to largest score below which the standard error is taken for a rounding error."""


class MeanEstimate(NamedTuple):
    """Mean of `n` scores in `clusters` clusters, in the unit of the scores.

    `low` and `high` bound the 95 % interval; they are None if there are too few scores for an interval. `stderr` is 0
    if there is no spread between clusters, and `mean` is 0 if there are no scores.
    """

    n: int
    clusters: int
    mean: float
    stderr: float
    low: float | None
    high: float | None

    @property
    def interval(self) -> Interval | None:
        """The bounds of the interval, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def mean_of(
    scores: Sequence[float], clusters: Sequence[Hashable] | None = None, *, top: float | None = None
) -> MeanEstimate:
    """Compute a mean with a cluster-robust standard error and its 95 % interval.

    The standard error is that of a regression on a constant (Liang and Zeger 1986), its square times G / (G - 1) for G
    clusters. With the same number of trials for every task it equals the standard error of the tasks' means.

    The interval of scores that are all 0 or `top`, a share of successes, is Wilson's (1927) for the effective number of
    independent scores: the number that would have the same standard error (design effect), at least the number of
    clusters. Of other scores it is the t interval with G - 1 degrees of freedom, cut to 0 and `top`.

    Args:
        scores: The score of each trial.
        clusters: The task of each score; None makes each score its own cluster.
        top: The highest possible score; the lowest is 0. None: scores have no bounds, and equal scores no interval.

    Raises:
        ValueError: scores and clusters differ in number.
    """
    names = range(len(scores)) if clusters is None else clusters
    if len(names) != len(scores):
        raise ValueError(f"{len(scores)} scores but {len(names)} clusters: give the cluster of each score")
    known = {name: code for code, name in enumerate(dict.fromkeys(names))}
    codes = [known[name] for name in names]
    count, middle = len(set(codes)), float(mean(scores)) if scores else 0.0
    stderr, low, high = _clustered_error(scores, codes) if count > 1 else (0.0, None, None)
    if scores and stderr <= MIN_RELATIVE_ERROR * max(map(abs, scores)):
        stderr, low, high = 0.0, None, None
    if top is not None and scores and {*scores} <= {0, top}:
        n = _effective_n(middle / top, stderr / top, len(scores), count)
        low, high = (top * bound for bound in _wilson_bounds(middle / top * n, n))
    elif top is not None and low is not None and high is not None:
        low, high = max(0.0, low), min(top, high)
    return MeanEstimate(len(scores), count, middle, stderr, low, high)


def wilson_interval(successes: int, n: int) -> Interval:
    """Compute Wilson's 95 % score interval (1927) of a success probability; it is 0 to 1 if `n` is 0.

    Raises:
        ValueError: `successes` is negative or larger than `n`.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials: give a number of successes from 0 to {n}")
    return _wilson_bounds(successes, n) if n else (0.0, 1.0)


def _wilson_bounds(successes: float, n: float) -> Interval:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - CONFIDENCE, method="wilson")
    # statsmodels is off by rounding where a bound is exactly 0 or 1
    return float(low) if successes else 0.0, float(high) if successes < n else 1.0


def _effective_n(share: float, stderr: float, n: int, clusters: int) -> float:
    spread = share * (1 - share)
    if n == clusters or not spread or clusters < 2:
        return clusters
    return min(max(spread / stderr**2, clusters), n) if stderr else n


def _clustered_error(scores: Sequence[float], codes: Sequence[int]) -> tuple[float, float | None, float | None]:
    from statsmodels.regression.linear_model import OLS  # imported here, since it is slow to import

    constant = [1.0] * len(scores)
    fit = OLS([float(score) for score in scores], constant).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    low, high = fit.conf_int(alpha=1 - CONFIDENCE)[0]
    return float(fit.bse[0]), float(low), float(high)


# The bootstrap: of differences, of ratios, of means over strata, and of figures that are not means.

RESAMPLES, FIGURE_RESAMPLES = 10_000, 1_000
"""Number of resamples: of statistics of arrays, and of figures that a benchmark's own Python code computes."""

SEED = 0
"""Seed of every bootstrap."""

MAX_BATCH = 10_000_000
"""Maximum number of values that are resampled at once, which bounds the memory."""

MIN_PAIRS = 6
"""Minimum number of tasks for a significant difference, and for the bootstrap of a figure. With five, even five
differences in one direction have p = 0.06 in a sign test."""

MIN_SPREAD = 1e-9
"""Differences below this value are taken for rounding errors."""


def bootstrap_bounds(
    samples: "Sequence[Sequence[float] | np.ndarray[Any, Any]]",
    compute: Callable[..., Any],
    *,
    paired: bool = False,
    resamples: int | None = None,
    vectorized: bool = True,
) -> list[Interval | None]:
    """Compute the 95 % intervals of one or more statistics by a seeded BCa bootstrap.

    BCa is the bias-corrected and accelerated bootstrap (Efron 1987). It corrects the skew of few values, but its
    intervals are too narrow for few: with 6, one in eight does not contain the true mean. Where it is not defined, the
    interval is that of the percentiles of the same resamples. It is None if a resample leaves the statistic undefined.

    Args:
        samples: samples that are resampled independently of each other, or in pairs; each has two values or more.
        compute: function of resamples of all samples, and of an `axis` if it is vectorized; returns one statistic or an
            array of them.
        paired: whether the same positions are drawn from all samples.
        resamples: number of resamples; by default RESAMPLES.
        vectorized: whether `compute` takes many resamples at once.
    """
    batch = max(1, MAX_BATCH // max(map(len, samples)))
    settings: dict[str, Any] = {"n_resamples": resamples or RESAMPLES, "confidence_level": CONFIDENCE, "rng": SEED}
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.bootstrap(samples, compute, paired=paired, vectorized=vectorized, batch=batch, **settings)
        percents = (100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2)
        percentiles = np.percentile(found.bootstrap_distribution, percents, axis=-1)
    corrected = np.array(found.confidence_interval)
    bounds = np.where(np.isfinite(corrected).all(axis=0), corrected, percentiles).reshape(2, -1)
    return [(float(low), float(high)) if np.isfinite([low, high]).all() else None for low, high in bounds.T]


def bootstrap_interval(differences: Sequence[float]) -> Interval | None:
    """Compute the 95 % interval of a mean paired difference by the bootstrap; None for fewer than two pairs."""
    if len(differences) < 2:
        return None
    if len(set(differences)) == 1:  # every resample is the same
        return differences[0], differences[0]
    return bootstrap_bounds([differences], np.mean)[0]


def stratified_mean(strata: Mapping[str, Sequence[float]]) -> tuple[float, Interval | None]:
    """Compute the mean of the strata's means, with a bootstrap interval that resamples within each stratum.

    A stratum with one value adds nothing to the width of the interval. If all have one value, the interval is None.
    """
    value = float(np.mean([float(np.mean(values)) for values in strata.values()]))
    samples = [values for values in strata.values() if len(values) > 1]
    if not samples:
        return value, None
    single = sum(values[0] for values in strata.values() if len(values) == 1)

    def mean_over_strata(*drawn: "np.ndarray[Any, Any]", axis: int) -> Any:
        return (sum(np.mean(values, axis=axis) for values in drawn) + single) / len(strata)

    return value, bootstrap_bounds(samples, mean_over_strata)[0]


def figure_intervals(
    figures: Mapping[str, float],
    runs: Sequence[T],
    tasks: Sequence[Hashable],
    compute: Callable[[Sequence[T]], Mapping[str, float]],
) -> dict[str, Interval | None]:
    """Compute the 95 % interval of each figure (metric) of a benchmark, clustered by task.

    A figure that is the mean of what it is for each run alone has the interval of `mean_of`; if these values are from 0
    to 1, they count as scores with the maximum 1. Any other figure has a bootstrap interval over tasks, or None with
    fewer than MIN_PAIRS tasks and where all resamples give the same value.

    Args:
        figures: the value of each figure over all runs, by name.
        runs: the runs.
        tasks: the task of each run; the runs of a task are resampled together (cluster bootstrap).
        compute: function that computes the figures of some runs, by name.
    """
    single, half = [compute([run]) for run in runs], compute(runs[::2]) if runs else {}
    intervals: dict[str, Interval | None] = {}
    for name, value in figures.items():
        values = {index: one[name] for index, one in enumerate(single) if name in one}
        # a mean of all runs and also of every other one, so that no coincidence makes a figure a mean
        if _is_mean_of(value, values.values()) and _is_mean_of(
            half.get(name), [value for index, value in values.items() if not index % 2]
        ):
            top = 1.0 if all(0 <= value <= 1 for value in values.values()) else None
            intervals[name] = mean_of([*values.values()], [tasks[index] for index in values], top=top).interval
    return intervals | _bootstrap_figures([name for name in figures if name not in intervals], runs, tasks, compute)


def _is_mean_of(value: float | None, values: Iterable[float]) -> bool:
    known = list(values)
    return (abs(mean(known) - value) < MIN_SPREAD) if known and value is not None else value is None and not known


def _bootstrap_figures(
    names: Sequence[str],
    runs: Sequence[T],
    tasks: Sequence[Hashable],
    compute: Callable[[Sequence[T]], Mapping[str, float]],
) -> dict[str, Interval | None]:
    groups = defaultdict[Hashable, list[T]](list)
    for run, task in zip(runs, tasks, strict=True):
        groups[task].append(run)
    members = list(groups.values())
    if not names or len(members) < MIN_PAIRS:
        return dict.fromkeys(names)

    def compute_resample(drawn: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        found = compute([run for index in drawn for run in members[int(index)]])
        return np.array([found.get(name, nan) for name in names])

    indices = np.arange(len(members))
    bounds = bootstrap_bounds([indices], compute_resample, resamples=FIGURE_RESAMPLES, vectorized=False)
    return {
        name: interval if interval and interval[1] - interval[0] >= MIN_SPREAD else None
        for name, interval in zip(names, bounds, strict=True)
    }


# Multiple comparisons.


def adjust_p_values(values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values for multiple comparisons by Holm's step-down method (1979); None is left out and stays None."""
    from statsmodels.stats.multitest import multipletests

    known = [p for p in values if p is not None]
    adjusted = iter(multipletests(known, method="holm")[1].tolist() if known else ())
    return [None if p is None else next(adjusted) for p in values]


# Paired differences between two methods on the same tasks, in the unit of the scores.

POWER = 0.8
"""Power of the test that defines the detectable difference."""

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


def is_significant(low: float | None, high: float | None, n: int, p: float | None = None) -> bool:
    """Return whether a difference is significant: MIN_PAIRS pairs or more, 0 outside the interval, p at most 0.05.

    Args:
        low: lower bound of the 95 % interval of the difference, if there is one.
        high: upper bound.
        n: number of pairs.
        p: p-value adjusted by Holm's method; None: only the interval decides. With 6 pairs the interval alone would
            call one in eight differences between equal methods significant.
    """
    has_low_p = p is None or p <= 1 - CONFIDENCE
    return low is not None and high is not None and n >= MIN_PAIRS and not low <= 0 <= high and has_low_p


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

    Each task needs the same number of trials in both. The interval is that of a paired bootstrap over tasks.
    """
    tasks = [task for task in first if task in other]
    before, after = (np.array([sum(amounts[task]) for task in tasks], dtype=float) for amounts in (first, other))
    if not before.sum():
        return RelativeChange(len(tasks), None)
    value = _percent_change(before, after)
    return RelativeChange(len(tasks), float(value), *_bootstrap_change(before, after, float(value)))


def _bootstrap_change(before: np.ndarray, after: np.ndarray, value: float) -> tuple[float | None, float | None]:
    if len(before) < 2 or np.count_nonzero(before) < 2:  # resamples without an amount have no ratio
        return None, None
    if np.allclose(after * before.sum(), before * after.sum(), atol=0):  # every resample is the same
        return value, value
    return bootstrap_bounds([before, after], _percent_change, paired=True)[0] or (None, None)


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
    """Compute the share of rows for which `hits` is True, with Wilson's interval clustered by task."""
    return average_of(rows, hits.astype(bool), top=1.0)


def average_of(rows: pd.DataFrame, values: "pd.Series[Any]", top: float | None = None) -> Statistic:
    """Compute the mean of the values that are not missing, with the interval of `mean_of`, clustered by task.

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


@dataclass(frozen=True)
class Measure:
    """Statistic of a column, clustered by task: its mean, or with `per` the ratio of its sum to that of another column.

    `top` is the highest possible value, if there is one. The mean of a boolean column with `top` 1 is a share.
    """

    column: str
    per: str = ""
    top: float | None = None

    def __call__(self, rows: pd.DataFrame) -> Statistic:
        """Compute the statistic of some rows."""
        values = rows[self.column]
        return ratio_of(rows, values, rows[self.per]) if self.per else average_of(rows, values, self.top)


def measure_table(
    rows: pd.DataFrame, by: Sequence[str], measures: Mapping[str, Measure], label: str = "measure"
) -> pd.DataFrame:
    """Compute several measures for each group of rows, without the rows that have no value of the measure.

    The table has the columns in `by`, the name of the measure in the column `label`, and STATISTIC_COLUMNS.
    """
    tables = [
        compute_by_group(rows.dropna(subset=[measure.column]), by, measure).assign(**{label: name})
        for name, measure in measures.items()
    ]
    return pd.concat(tables, ignore_index=True)[[*by, label, *STATISTIC_COLUMNS]]


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
