"""Statistics: means, intervals, paired tests and resampling."""

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

# Intervals of any figures by resampling what they are computed from, with the standard library alone.

T = TypeVar("T")

Interval = tuple[float, float]

DRAWS = 1_000
"""Resamples; more change the bounds by less than the tables show."""

SEED = 0

ALIKE = 1e-9
"""Figures closer than that differ by rounding only."""


def resampled(
    groups: Sequence[Sequence[T]], compute: Callable[[Sequence[T]], Mapping[str, float]]
) -> dict[str, Interval]:
    """The 95 % interval of each figure by a percentile bootstrap; none of one that is the same in every sample.

    Args:
        groups: what is drawn together, for it shares a difficulty: the runs of each task.
        compute: the figures of a sample.
    """
    draw, found = Random(SEED), defaultdict[str, list[float]](list)
    for _ in range(DRAWS if groups else 0):
        sample = [member for group in draw.choices(groups, k=len(groups)) for member in group]
        for name, value in compute(sample).items():
            found[name].append(value)
    return {name: _percentiles(values) for name, values in found.items() if max(values) - min(values) >= ALIKE}


def _percentiles(values: Sequence[float]) -> Interval:
    low, *_, high = quantiles(values, n=40, method="inclusive")
    return low, high


# A mean over tasks and trials with its interval. Trials of a task are a cluster: they share its difficulty.

CONFIDENCE = 0.95

NO_SPREAD = 1e-9
"""A standard error below this share of the largest score is rounding."""


class Estimate(NamedTuple):
    """A mean of `n` scores in `clusters` clusters, in the scores' unit.

    `low` and `high` bound the 95 % interval, and are None where the scores show too little to have one. `stderr` is
    0 where there is no spread to go by, and `mean` is 0 where there are no scores.
    """

    n: int
    clusters: int
    mean: float
    stderr: float
    low: float | None
    high: float | None


def standard_error(scores: Sequence[float]) -> float:
    """Of the mean of independent scores; 0 for fewer than two, which show no spread."""
    return stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else 0.0


def mean_of(scores: Sequence[float], clusters: Sequence[str] | None = None, *, top: float | None = None) -> Estimate:
    """The mean with a cluster-robust standard error and a t interval with clusters - 1 degrees of freedom.

    The error is that of a regression on a constant (Liang and Zeger 1986), its square times G / (G - 1) for G
    clusters. With the same number of trials for every task it is the standard error of the tasks' means.

    Args:
        scores: One a trial.
        clusters: The task of each score; None makes each score its own cluster.
        top: The highest possible score, 0 being the lowest. The interval then stays within, and where all scores are
            0 or all are `top`, it is Wilson's over clusters. Without it, equal scores have no interval.

    Raises:
        ValueError: scores and clusters differ in number.
    """
    names = range(len(scores)) if clusters is None else clusters
    codes = _codes(names, len(scores))
    count = len(set(codes))
    middle = float(mean(scores)) if scores else 0.0
    if count < 2:
        return Estimate(len(scores), count, middle, 0.0, None, None)
    stderr, low, high = _clustered(scores, codes)
    if stderr <= NO_SPREAD * max(map(abs, scores)):
        return Estimate(len(scores), count, middle, 0.0, *_without_spread(middle, count, top))
    if top is not None:
        low, high = max(0.0, low), min(top, high)
    return Estimate(len(scores), count, middle, stderr, low, high)


class Share(NamedTuple):
    """The share of `n` outcomes in `clusters` clusters that are hits, 0 to 1, and its 95 % interval.

    NaN where there is no outcome.
    """

    n: int
    clusters: int
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


def share_of(hits: Sequence[bool], clusters: Sequence[str]) -> Share:
    """The share of hits, with Wilson's interval for as many independent outcomes as these are worth.

    Where outcomes share a cluster (a task) that is the number that would have the clustered standard error (the design
    effect), at least the number of clusters.

    Raises:
        ValueError: hits and clusters differ in number.
    """
    if not hits:
        return Share(0, 0)
    found = mean_of([float(hit) for hit in hits], clusters)
    effective = _effective_n(found)
    return Share(found.n, found.clusters, found.mean, *_wilson(found.mean * effective, effective))


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval (1927) of a probability; all of 0 to 1 after no trial.

    Raises:
        ValueError: there are more successes than trials, or fewer than none.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials: successes are counted from 0 to the number of trials")
    if n == 0:
        return 0.0, 1.0
    return _wilson(successes, n)


def _wilson(successes: float, n: float) -> tuple[float, float]:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1 - CONFIDENCE, method="wilson")
    # the bounds are exact there, but for rounding
    return float(low) if successes else 0.0, float(high) if successes < n else 1.0


def _effective_n(found: Estimate) -> float:
    """The number of independent outcomes that a share counts as: all of them where no two share a cluster."""
    spread = found.mean * (1 - found.mean)
    if found.n == found.clusters or not spread or found.clusters < 2:
        return found.clusters
    return min(max(spread / found.stderr**2, found.clusters), found.n) if found.stderr else found.n


def _codes(names: Sequence[Hashable], n: int) -> list[int]:
    if len(names) != n:
        raise ValueError(f"{n} scores, but {len(names)} clusters: give the cluster of each score")
    known = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return [known[name] for name in names]


def _clustered(scores: Sequence[float], codes: Sequence[int]) -> tuple[float, float, float]:
    from statsmodels.regression.linear_model import OLS  # pulls in pandas: only those who estimate wait for it

    constant = [1.0] * len(scores)
    fit = OLS([float(score) for score in scores], constant).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    low, high = fit.conf_int(alpha=1 - CONFIDENCE)[0]
    return float(fit.bse[0]), float(low), float(high)


def _without_spread(middle: float, count: int, top: float | None) -> tuple[float, float] | tuple[None, None]:
    """Scores between 0 and top have a mean of at most top x (share above 0), which Wilson bounds; so from above too."""
    if top is None or middle not in (0.0, top):
        return None, None
    low, high = wilson(count if middle else 0, count)
    return top * low, top * high


# Several comparisons at once: p-values that account for their number.


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for their number by Holm's step-down rule (1979); None stays None and is not counted."""
    # statsmodels' multipletests, which a test holds this against, collects all garbage at every call: 20 ms and more
    known = sorted((p, at) for at, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, at) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[at] = highest
    return adjusted


# Two methods on the same tasks: the mean paired difference, and what n pairs can show of it. In the scores' unit.

POWER = 0.8
RESAMPLES = 10_000

LEAST = 6
"""Fewer pairs tell no difference from chance: five of five in one direction is p = 0.06 by a sign test."""

Scores = Mapping[str, Sequence[float]]
"""Task -> the scores of its trials."""


class Paired(NamedTuple):
    """How far one method lies above another over `n` tasks.

    `low` and `high` bound the 95 % interval (see `interval`), `p` is the paired t-test's, `detectable` the least
    difference that n such tasks would show four times in five. None: too few tasks, or no spread.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    detectable: float | None


def paired(first: Scores, other: Scores) -> Paired:
    """`other` minus `first` over the tasks of both. Trials are averaged within a task, so n counts tasks.

    Raises:
        Fault: they have no task in common.
    """
    tasks = [task for task in first if task in other]
    if first and other and not tasks:
        names = f"one has {next(iter(first))!r}, the other {next(iter(other))!r}"
        raise Fault("data", f"no task in common ({names}, for instance): run both methods on the same tasks")
    before, after = ([mean(scores[task]) for task in tasks] for scores in (first, other))
    apart = [b - a for a, b in zip(before, after, strict=True)]
    low, high = interval(apart) or (None, None)
    return Paired(len(apart), mean_difference(apart), low, high, paired_p(before, after), detectable(apart))


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean paired difference by a seeded bootstrap over tasks; None below two pairs.

    Bias-corrected and accelerated (Efron 1987). It is too narrow for few pairs: at 6, one in eight misses the truth.
    """
    if len(differences) < 2:
        return None
    if len(set(differences)) == 1:  # every resample is the same: BCa has nothing to correct
        return differences[0], differences[0]
    found = stats.bootstrap(
        (np.asarray(differences),), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, rng=SEED
    ).confidence_interval
    return float(found.low), float(found.high)


def paired_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Two-sided p of the paired t-test; None below two pairs.

    Where all differences are equal, of which the t-test says nothing: 1 if they are zero, else the sign test's p.
    """
    apart = [b - a for a, b in zip(first, second, strict=True)]
    if len(apart) < 2:
        return None
    if len(set(apart)) == 1:
        return 1.0 if apart[0] == 0 else float(stats.binomtest(0, len(apart)).pvalue)
    return float(stats.ttest_rel(second, first).pvalue)


def detectable(differences: Sequence[float]) -> float | None:
    """The mean difference that this many pairs of this spread would show four times in five (two-sided t, 5 %).

    None where the pairs have no spread to go by.
    """
    from statsmodels.stats.power import TTestPower

    if len(set(differences)) < 2:
        return None
    effect = TTestPower().solve_power(nobs=len(differences), alpha=1 - CONFIDENCE, power=POWER)
    return float(effect) * stdev(differences)


def told_apart(found: tuple[float, float] | None, n: int, p: float | None = None) -> bool:
    """Whether n pairs are more than noise: enough of them, zero outside their interval, and p at most 5 %.

    Give the p that Holm adjusted: the interval alone calls one in eight equal methods different at 6 pairs.
    """
    sure = p is None or p <= 1 - CONFIDENCE
    return found is not None and n >= LEAST and not found[0] <= 0 <= found[1] and sure


def mean_difference(differences: Sequence[float]) -> float:
    """The mean; 0 of none."""
    return mean(differences) if differences else 0.0


# What several trials of each task say of reliability: do all of k succeed (pass^k).

Outcomes = Mapping[str, Sequence[bool]]
"""Task -> which of its trials succeeded."""


def pass_hat_k(outcomes: Outcomes, k: int) -> Estimate:
    """The probability, 0 to 1, that k independent trials of a task all succeed (Yao et al. 2024, tau-bench).

    With c of a task's n trials successful the share of k-subsets without a failure, C(c, k) / C(n, k), has no bias.
    The estimate is its mean over tasks, the interval is over tasks.

    Raises:
        Fault: a task has fewer than k trials.
        ValueError: k is below 1.
    """
    if k < 1:
        raise ValueError(f"k={k}: k trials of a task are drawn, so k is at least 1")
    short = [(task, len(trials)) for task, trials in outcomes.items() if len(trials) < k]
    if short:
        task, n = min(short, key=lambda found: found[1])
        told = f"{len(short)} of {len(outcomes)} tasks have fewer than {k} trials ({task} has {n})"
        raise Fault("data", f"{told}: run them again with --trials {k}, or ask for k={n}" if n else told)
    shares = [comb(sum(map(bool, trials)), k) / comb(len(trials), k) for trials in outcomes.values()]
    return mean_of(shares, top=1.0)


# Two methods on the same tasks: by how many percent one needs more or less than the other, sum by sum.

PERCENT = 100

Amounts = Mapping[str, Sequence[float]]
"""Task -> what each of its trials needed, none below 0."""


class Changed(NamedTuple):
    """The change from one method's amount to another's in percent of the first, over `n` tasks: -50 halves it.

    `low` and `high` bound the 95 % interval. None: nothing was needed at first, or there are too few tasks.
    """

    n: int
    percent: float | None
    low: float | None = None
    high: float | None = None


def changed(first: Amounts, other: Amounts) -> Changed:
    """From `first` to `other` over the tasks of both, which have as many trials in both: a ratio of means.

    The interval is a seeded bootstrap's over tasks, each drawn with both its amounts; bias-corrected and accelerated
    (Efron 1987) as that of a mean difference is, and too narrow for few pairs as that is.
    """
    tasks = [task for task in first if task in other]
    before, after = (np.array([sum(amounts[task]) for task in tasks], dtype=float) for amounts in (first, other))
    if not before.sum():
        return Changed(len(tasks), None)
    value = _percent(before, after)
    return Changed(len(tasks), float(value), *_interval(before, after, float(value)))


def _interval(before: np.ndarray, after: np.ndarray, value: float) -> tuple[float, float] | tuple[None, None]:
    if len(before) < 2 or np.count_nonzero(before) < 2:  # a resample of nothing has no ratio
        return None, None
    if np.allclose(after * before.sum(), before * after.sum(), atol=0):  # every resample is the same
        return value, value
    with np.errstate(divide="ignore", invalid="ignore"):
        found = stats.bootstrap(
            (before, after), _percent, paired=True, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, rng=SEED
        ).confidence_interval
    bounds = float(found.low), float(found.high)
    return bounds if np.isfinite(bounds).all() else (None, None)


def _percent(before: np.ndarray, after: np.ndarray, axis: int = -1) -> np.ndarray:
    earlier, later = before.sum(axis=axis), after.sum(axis=axis)
    return np.asarray(PERCENT * (later - earlier) / earlier)


# What scores of methods over tasks and trials are worth: pure functions on scipy and statsmodels.

__all__ = [
    "CONFIDENCE",
    "LEAST",
    "POWER",
    "RESAMPLES",
    "SEED",
    "Changed",
    "Estimate",
    "Paired",
    "Share",
    "changed",
    "detectable",
    "holm",
    "interval",
    "mean_difference",
    "mean_of",
    "paired",
    "paired_p",
    "pass_hat_k",
    "share_of",
    "standard_error",
    "told_apart",
    "wilson",
]


# Shares, means and ratios with 95 % intervals that know which rows share a task.

COLUMNS = ["n", "tasks", "value", "low", "high"]


class Told(NamedTuple):
    """A figure over `n` rows of so many tasks, and its interval; NaN where there are too few to tell."""

    n: int
    tasks: int
    value: float
    low: float = nan
    high: float = nan


NOTHING = Told(0, 0, nan)


def share_interval(rows: pd.DataFrame, hits: "pd.Series[bool]") -> Told:
    """The share of rows that hit, with Wilson's interval for as many independent rows as these are worth.

    Where rows share tasks that is the number that would have the clustered standard error (the design effect), at
    least the number of tasks.
    """
    return Told(*share_of(hits.astype(bool).tolist(), _tasks(rows)))


def average_of(rows: pd.DataFrame, values: "pd.Series[Any]", top: float | None = None) -> Told:
    """The mean of the values that are there, none of them below 0; `top` is the highest possible one."""
    there = values.notna()
    if not there.any():
        return NOTHING
    tasks = _tasks(rows[there])
    told = mean_of(values[there].astype(float).tolist(), tasks, top=top)
    return Told(told.n, told.clusters, told.mean, _amount(told.low), _number(told.high))


def ratio_of(rows: pd.DataFrame, top: "pd.Series[Any]", bottom: "pd.Series[Any]") -> Told:
    """Sum by sum of amounts, as in tokens per predicate; the interval is that of the linearised ratio, cut at 0."""
    above, below = top.to_numpy(dtype=float), bottom.to_numpy(dtype=float)
    if rows.empty or not below.sum():
        return NOTHING._replace(n=len(rows))
    value = float(above.sum() / below.sum())
    told = mean_of(((above - value * below) / below.mean()).tolist(), _tasks(rows))
    return Told(told.n, told.clusters, value, _amount(value + _number(told.low)), value + _number(told.high))


def grouped(rows: pd.DataFrame, by: Sequence[str], told: Callable[[pd.DataFrame], Told]) -> pd.DataFrame:
    """One line a group, in the order in which groups appear: their names, then n, tasks, value, low and high."""
    groups = rows.groupby(list(by), sort=False, dropna=False)
    lines = [(*name, *told(group)) for name, group in groups]
    return pd.DataFrame(lines, columns=[*by, *COLUMNS])


def shares(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """What part of each method's rows has each value of a column; of one method the parts add up to 1."""
    values = rows[column].drop_duplicates().sort_values()
    told = [
        (method, value, *share_interval(group, group[column] == value))
        for method, group in rows.groupby("method", sort=False)
        for value in values
    ]
    return pd.DataFrame(told, columns=["method", column, *COLUMNS])


def _tasks(rows: pd.DataFrame) -> list[str]:
    return (rows["benchmark"] + " " + rows["task"]).tolist()


def _amount(low: float | None) -> float:
    """A lower bound of what cannot be negative."""
    return _number(low) if low is None or isnan(low) else max(0.0, float(low))


def _number(value: float | None) -> float:
    return nan if value is None else float(value)
