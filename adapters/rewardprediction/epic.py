"""EPIC distance between predicted and true rewards, in its closed form for rewards of states (StateFactory Eq. 3)."""

from collections.abc import Sequence
from math import sqrt
from statistics import correlation

UNCORRELATED = sqrt(0.5)
"""What a constant prediction is worth: 0.7071."""


def epic_distance(predicted: Sequence[float], true: Sequence[float]) -> float:
    """sqrt((1 - r) / 2), r being Pearson's correlation; in [0, 1], 0 for equal rewards up to scale and offset.

    r counts as 0 where either side is constant, and as 1 where both sides are the same numbers (the reference's rules).

    Raises:
        ValueError: the two are not equally long, or empty.
    """
    if len(predicted) != len(true) or not true:
        raise ValueError(f"{len(predicted)} predicted rewards for {len(true)} true ones; give one for each step")
    if list(predicted) == list(true):
        return 0.0
    if 1 in (len(set(predicted)), len(set(true))):  # correlation() would correlate the rounding errors of two constants
        return UNCORRELATED
    return sqrt(max(0.0, 1.0 - correlation(predicted, true)) / 2)
