"""Quality against tokens, and which conditions of a harness no other one beats in both (CGDP, figure 2)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from certigraph.evaluation.studying.arms import OFF, ON, SHADOW

COLUMNS = ["harness", "variant", "memory", "gate", "n", "tokens", "score", "frontier"]


class Point(NamedTuple):
    """A condition: mean tokens and mean score (0 to 100) a run."""

    tokens: float
    score: float


def pareto(episodes: pd.DataFrame) -> pd.DataFrame:
    """A line a condition, natural (`gate` off) and gated; of a shadow both, the gated one blended.

    `frontier` marks those that no other condition beats in score or tokens without losing in the other, of the same
    harness and variant; natural and gated ones have a frontier each.
    """
    found = pd.DataFrame(list(_points(episodes)), columns=COLUMNS[:-1])
    best: set[object] = set()
    for _, rows in found.groupby(["harness", "variant", "gate"], sort=False):
        points = [Point(tokens, score) for tokens, score in zip(rows["tokens"], rows["score"], strict=True)]
        best |= {at for at, kept in zip(rows.index, frontier(points), strict=True) if kept}
    return found.assign(frontier=[at in best for at in found.index])


def frontier(points: Sequence[Point]) -> list[bool]:
    """Which points are beaten by none: at least as good in both and better in one."""
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(one: Point, other: Point) -> bool:
    return one.score >= other.score and one.tokens <= other.tokens and one != other


def _points(episodes: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    by = ["harness", "variant", "memory", "gate"]
    for (harness, variant, memory, gate), rows in episodes.groupby(by, sort=False):
        natural = (len(rows), float(rows["tokens"].mean()), float(rows["score"].mean()))
        yield harness, variant, memory, ON if gate == ON else OFF, *natural
        if gate == SHADOW:
            blended = (len(rows), float(rows["blended_tokens"].mean()), float(rows["blended_score"].mean()))
            yield harness, variant, memory, ON, *blended
