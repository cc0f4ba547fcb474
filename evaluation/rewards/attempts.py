"""Attempts at pairs, in this process or in several: whatever goes wrong with a task is a reason to drop it."""

import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.rewardprediction.building import Demonstrated, paired
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.evaluation.report.html import shortened
from certigraph.evaluation.rewards.processes import in_processes
from certigraph.state.endings import Stopped
from certigraph.state.records import Record, Task

MOST_SECONDS = 120
"""For one task, where it has a process of its own: ALFWorld's planner may need hours and gigabytes for two objects."""

REASON = 160
"""Characters of a reason that are kept."""


class Dropped(Record):
    """A task of which no pair was built."""

    domain: str
    task: str
    reason: str


class Overdue(Exception):
    """A task took too long."""


def attempt(benchmark: str, data: str | None, seed: int, task: Task) -> Pair | Dropped:
    """The task's pair, or why there is none."""
    try:
        return paired(cast(Demonstrated, load_benchmark(benchmark, data)), task, seed)
    except Stopped as stopped:
        return _dropped(benchmark, task, str(stopped))
    except Exception as error:  # noqa: BLE001 - a world is anybody's code: its failure costs one pair, not the rest
        return _dropped(benchmark, task, f"{type(error).__name__}: {error}")


def attempts(
    benchmark: str, data: str | None, seed: int, tasks: Sequence[Task], at_once: int = 1
) -> Iterator[Pair | Dropped]:
    """The outcome of each task, as they come. A simulator may crash or hang: it gets a process of its own."""
    work = partial(attempt, benchmark, data, seed)
    if at_once == 1 and getattr(load_benchmark(benchmark, data), "instant", False):
        yield from map(work, tasks)
        return
    for task, outcome in in_processes(partial(_in_time, work), tasks, at_once):
        yield outcome if outcome is not None else _dropped(benchmark, task, "its process died")


def _in_time(work: Callable[[Task], Pair | Dropped], task: Task) -> Pair | Dropped:
    signal.signal(signal.SIGALRM, _overdue)
    signal.alarm(MOST_SECONDS)
    try:
        return work(task)
    finally:
        signal.alarm(0)


def _overdue(*_: Any) -> None:
    raise Overdue(f"not done after {MOST_SECONDS} s")


def _dropped(benchmark: str, task: Task, reason: str) -> Dropped:
    return Dropped(domain=benchmark, task=task.id, reason=shortened(" ".join(reason.split()), REASON))
