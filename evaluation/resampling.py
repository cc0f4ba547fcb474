"""Intervals of any figures by resampling what they are computed from, with the standard library alone."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import quantiles
from typing import TypeVar

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
