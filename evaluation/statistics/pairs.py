"""Two methods on the same tasks: the mean paired difference, and what n pairs can show of it. In the scores' unit."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
from scipy import stats

from certigraph.evaluation.statistics.estimates import CONFIDENCE
from certigraph.state.endings import Fault

POWER = 0.8
RESAMPLES = 10_000
SEED = 0

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
