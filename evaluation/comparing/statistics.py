"""Paired statistics of two methods on the same tasks. Pure functions of scores, in the scores' own unit."""

import math
from collections.abc import Sequence
from statistics import mean, stdev

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
POWER = 0.8
RESAMPLES = 10_000
SEED = 0

LEAST = 6
"""Fewer pairs tell no difference from chance: five of five in one direction is p = 0.06 by a sign test."""


def standard_error(scores: Sequence[float]) -> float:
    """Of the mean; 0 for fewer than two scores, which show no spread."""
    return stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else 0.0


def interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean paired difference by a seeded bootstrap over tasks (BCa); None below two pairs."""
    if len(differences) < 2:
        return None
    if len(set(differences)) == 1:  # every resample is the same: BCa has nothing to correct
        return differences[0], differences[0]
    found = stats.bootstrap(
        (np.asarray(differences),), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, rng=SEED
    ).confidence_interval
    return float(found.low), float(found.high)


def paired_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Two-sided p of the paired t-test; None where all differences are equal or there are fewer than two."""
    if len({b - a for a, b in zip(first, second, strict=True)}) < 2:
        return None
    return float(stats.ttest_rel(second, first).pvalue)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for their number by Holm's step-down rule; None stays None."""
    known = sorted((p, at) for at, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, at) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[at] = highest
    return adjusted


def detectable(differences: Sequence[float]) -> float | None:
    """The mean difference that this many pairs of this spread would show four times in five (two-sided, 5 %).

    None where the pairs have no spread to go by.
    """
    free = len(differences) - 1
    if len(set(differences)) < 2:
        return None
    quantiles = stats.t.ppf(1 - (1 - CONFIDENCE) / 2, free) + stats.t.ppf(POWER, free)
    return float(quantiles * standard_error(differences))


def told_apart(found: tuple[float, float] | None, n: int) -> bool:
    """Whether n pairs with this interval are more than noise: enough of them, and zero is outside."""
    return found is not None and n >= LEAST and not found[0] <= 0 <= found[1]


def mean_difference(differences: Sequence[float]) -> float:
    """The mean; 0 of none."""
    return mean(differences) if differences else 0.0
