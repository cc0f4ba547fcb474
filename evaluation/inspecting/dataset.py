"""A benchmark's tasks as inspect's samples."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, islice, zip_longest

from inspect_ai.dataset import MemoryDataset, Sample

from certigraph.state.endings import Fault
from certigraph.state.records import Task

STRATA = ("level", "days", "task")
"""Constants over whose values a stratified sample is spread, where a benchmark's tasks have them."""


def dataset(name: str, tasks: Sequence[Task]) -> MemoryDataset:
    """One sample a task; its id is the task's.

    Raises:
        Fault: ("data") an id has a NUL: its sample would be lost, for the names in inspect's logs end there.
    """
    if cut := [task.id for task in tasks if "\0" in task.id]:
        raise Fault("data", f"inspect's logs cannot hold the task {cut[0]!r}: give it an id without NUL")
    samples = [Sample(id=task.id, input=task.goal, metadata=dict(task.constants)) for task in tasks]
    return MemoryDataset(samples, name=name)


def stratified(tasks: Sequence[Task], n: int) -> list[Task]:
    """`n` tasks, as many of each level, length and kind as there are, in the list's order; always the same ones."""
    groups = defaultdict(list)
    for task in tasks:
        groups[tuple(str(task.constants.get(name)) for name in STRATA)].append(task)
    rounds = chain.from_iterable(zip_longest(*(groups[key] for key in sorted(groups))))
    chosen = {task.id for task in islice(filter(None, rounds), n)}
    return [task for task in tasks if task.id in chosen]
