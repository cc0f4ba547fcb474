"""Several methods against one: all differences at once, with p-values that account for their number."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from certigraph.evaluation.statistics.pairs import Scores, paired
from certigraph.state.endings import Fault, UnknownName

NAMED = 3
"""Tasks that a refusal names; the rest is counted."""


class Difference(NamedTuple):
    """How far `method` lies above `against`: the fields of Paired, and p by Holm over all methods compared."""

    method: str
    against: str
    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    detectable: float | None


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


def differences_between(scores: Mapping[str, Scores], against: str, *, strict: bool = True) -> list[Difference]:
    """Every other method's difference to `against`, in the order of `scores`, over the tasks that all methods share.

    Args:
        scores: Method -> task -> the scores of its trials.
        against: The method that the others are compared with.
        strict: Refuse methods that were run on different tasks; otherwise the tasks that one lacks are left out.

    Raises:
        UnknownName: no such method.
        Fault: methods were run on different tasks.
    """
    if against not in scores:
        raise UnknownName(f"no method {against!r} among the scores; there are {', '.join(scores) or 'none'}")
    if strict:
        _refuse_other_tasks(scores, against)
    shared = [task for task in scores[against] if all(task in mine for mine in scores.values())]
    alike = {method: {task: mine[task] for task in shared} for method, mine in scores.items()}
    found = {method: paired(alike[against], mine) for method, mine in alike.items() if method != against}
    adjusted = holm([pair.p for pair in found.values()])
    return [
        Difference(method=method, against=against, p_adjusted=p, **pair._asdict())
        for (method, pair), p in zip(found.items(), adjusted, strict=True)
    ]


def _refuse_other_tasks(scores: Mapping[str, Scores], against: str) -> None:
    for method, mine in scores.items():
        alone = {
            against: [task for task in scores[against] if task not in mine],
            method: [task for task in mine if task not in scores[against]],
        }
        told = "; ".join(f"{who} alone has {_named(tasks)}" for who, tasks in alone.items() if tasks)
        if told:
            fix = "run both on the same tasks, or compare those that all share: differences_between(..., strict=False)"
            raise Fault("data", f"{against} and {method} were run on different tasks ({told}): {fix}")


def _named(tasks: Sequence[str]) -> str:
    rest = f" and {len(tasks) - NAMED} more" if len(tasks) > NAMED else ""
    return ", ".join(tasks[:NAMED]) + rest
