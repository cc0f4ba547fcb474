"""How long a task is, known before any run: what scores are set against (SDP, section 4.1)."""

from collections.abc import Callable
from math import nan
from typing import NamedTuple

from certigraph.adapters.scienceworld.tasks import FAMILIES
from certigraph.state.records import Task

GROUPS = {"short": 1.0, "medium": 2.0, "long": 3.0}
"""SwiftSage's groups of ScienceWorld's tasks, by the mean length of their gold paths."""


class Horizon(NamedTuple):
    """A length to order tasks by, and what to call it."""

    length: float
    name: str


UNKNOWN = Horizon(nan, "unknown")


def horizon_of(task: Task, planned: int | None) -> Horizon:
    """The length of a task by its constants; else the number of predicates planned, where there is a plan."""
    measure = MEASURES.get(task.benchmark.partition(":")[0], _unknown)
    try:
        found = measure(task)
    except (KeyError, TypeError, ValueError):  # constants of a user's own making
        found = UNKNOWN
    return Horizon(planned, f"{planned} planned") if found is UNKNOWN and planned else found


def _days(task: Task) -> Horizon:
    days = float(str(task.constants["days"]))
    return Horizon(days, f"{days:g} days")


def _blocks(task: Task) -> Horizon:
    blocks = task.constants["blocks"]
    count = len(blocks) if isinstance(blocks, (list, tuple)) else int(str(blocks))
    return Horizon(count, f"{count} blocks")


def _gold(task: Task) -> Horizon:
    group = FAMILIES[str(task.constants["task"])].group
    return Horizon(GROUPS[group], f"{group} gold path")


def _unknown(task: Task) -> Horizon:
    return UNKNOWN


MEASURES: dict[str, Callable[[Task], Horizon]] = {"travelplanner": _days, "blocksworld": _blocks, "scienceworld": _gold}
