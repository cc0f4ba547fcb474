"""The best pairing of what was predicted with what is right. scipy would be a heavy dependency for lists this short."""

from collections.abc import Callable, Sequence
from typing import TypeVar

P = TypeVar("P")
G = TypeVar("G")

Gains = Sequence[Sequence[float]]

ROUNDING = 1e-12
"""A gain below this is a difference of rounding: going after it might never end."""


def aligned(predicted: Sequence[P], gold: Sequence[G], gain: Callable[[P, G], float]) -> float:
    """The mean gain of the best one-to-one pairing over the longer list; what finds no partner gains 0."""
    if not predicted or not gold:
        return 0.0
    gains = [[gain(one, right) for one in predicted] for right in gold]
    partners = best_partners(gains)
    return sum(gains[row][column] for row, column in sorted(partners.items())) / max(len(predicted), len(gold))


def best_partners(gains: Gains) -> dict[int, int]:
    """The columns of rows, each in one pair, with the largest sum of gains (none negative); O(rows^3 x columns).

    Rows come in one after the other, each along the path of moves that gains most; rows and columns change places
    where there are more rows.
    """
    if len(gains) > len(gains[0]):
        return {row: column for column, row in best_partners(list(zip(*gains, strict=True))).items()}
    held: dict[int, int] = {}
    for row in range(len(gains)):
        _let_in(row, gains, held)
    return {row: column for column, row in held.items()}


def _let_in(row: int, gains: Gains, held: dict[int, int]) -> None:
    """Give a row a column; rows that hold one (`held`: columns to rows) move where that gains most in all."""
    reached, before = list(gains[row]), dict[int, int]()
    moved = True
    while moved:
        moved = False
        for column, holder in held.items():
            left = reached[column] - gains[holder][column]
            for other, gain in enumerate(gains[holder]):
                if left + gain > reached[other] + ROUNDING:
                    reached[other], before[other], moved = left + gain, column, True
    column = max((free for free in range(len(reached)) if free not in held), key=reached.__getitem__)
    while column in before:
        held[column] = held[before[column]]
        column = before[column]
    held[column] = row
