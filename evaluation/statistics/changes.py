"""Two methods on the same tasks: by how many percent one needs more or less than the other, sum by sum."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from certigraph.evaluation.statistics.estimates import CONFIDENCE
from certigraph.evaluation.statistics.pairs import RESAMPLES, SEED

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
