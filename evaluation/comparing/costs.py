"""What methods need a run, and by how much that differs from what the first one needs, paired over tasks."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from certigraph.evaluation.comparing.rows import Row, by_task
from certigraph.evaluation.statistics import changed, interval, mean_difference
from certigraph.state.records import Record

AMOUNTS = {
    "output_tokens": "output tokens",
    "prompt_tokens": "prompt tokens",
    "calls": "calls",
    "steps": "world steps",
}
"""What is counted of a run: fields of Row, and what tables call them."""


ByTask = Mapping[str, Sequence[float]]
"""Task -> what its trials needed."""


class Need(Record):
    """How much of one amount a method needs a run, over n tasks, and how that differs from the first method's.

    `difference` is in the amount's unit, trials of a task averaged first; `percent` is the change of the sums, -50
    where the method needs half. Bounds are of 95 % intervals, both a bootstrap's over tasks. None of them for the
    first method itself, and where there is nothing to tell them by.
    """

    method: str
    against: str
    amount: str
    n: int
    mean: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    percent: float | None = None
    percent_low: float | None = None
    percent_high: float | None = None


def needs_of(rows: Mapping[str, Sequence[Row]]) -> tuple[Need, ...]:
    """Every amount of every method, given the rows by method, the first one the reference; none of no rows."""
    return tuple(need for amount in AMOUNTS if any(rows.values()) for need in _needs(rows, amount))


def _needs(rows: Mapping[str, Sequence[Row]], amount: str) -> Iterator[Need]:
    found = {name: by_task(mine, amount) for name, mine in rows.items()}
    first = next(iter(found))
    for name, mine in found.items():
        alone = name == first or not mine or not found[first]
        need = Need(method=name, against=first, amount=amount, n=len(mine), mean=mean_difference(_means(mine)))
        yield need if alone else need.model_copy(update=_beside(found[first], mine))


def _beside(first: ByTask, other: ByTask) -> dict[str, float | None]:
    apart = [after - before for before, after in zip(_means(first), _means(other), strict=True)]
    low, high = interval(apart) or (None, None)
    found = changed(first, other)
    bounds = {"percent": found.percent, "percent_low": found.low, "percent_high": found.high}
    return {"difference": mean_difference(apart), "low": low, "high": high, **bounds}


def _means(found: ByTask) -> list[float]:
    return [mean(found[task]) for task in sorted(found)]
