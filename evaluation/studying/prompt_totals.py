"""What whole episodes cost as they grow: calls, tokens read and tokens written, by method."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from certigraph.evaluation.studying.prompt_sizes import Size


class Total(NamedTuple):
    """One episode of a task that takes `rooms` world steps."""

    kind: str
    rooms: int
    method: str
    calls: int
    read: int
    written: int


TOTAL_HEADS = ("task", "steps", "method", "calls", "prompt tokens", "output tokens")


def totals_of(sizes: Sequence[Size]) -> list[Total]:
    """The sums of every episode, by task and length, the methods in the order in which they were given."""
    methods = list(dict.fromkeys(size.method for size in sizes))
    ordered = sorted(sizes, key=lambda size: (size.kind, size.rooms, methods.index(size.method)))
    return list(_totals(ordered))


def total_cells(total: Total) -> tuple[str, ...]:
    """An episode as text, in the order of TOTAL_HEADS."""
    return total.kind, str(total.rooms), total.method, str(total.calls), f"{total.read:,}", f"{total.written:,}"


def _totals(ordered: Sequence[Size]) -> Iterator[Total]:
    for where, found in groupby(ordered, key=lambda size: (size.kind, size.rooms, size.method)):
        calls = list(found)
        yield Total(*where, len(calls), sum(call.tokens for call in calls), sum(call.written for call in calls))
