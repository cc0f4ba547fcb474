"""Which tasks pairs are built of: drawn with a seed, and as many of each kind as of any other."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from random import Random

from certigraph.adapters.rewardprediction.domains import Domain
from certigraph.state.records import Task

Queues = dict[str, list[Task]]
"""By kind, the tasks that are left, the next one first."""


def kind_of(task: Task, domain: Domain) -> str:
    """The task's kind by its id; empty where all are of one."""
    found = re.match(domain.kind, task.id) if domain.kind else None
    return found[1] if found else ""


def queues(tasks: Sequence[Task], domain: Domain, seed: int) -> Queues:
    """All tasks in a drawn order, kinds too, the same for the same seed; without the kinds that are left out."""
    drawn, found = Random(seed), defaultdict[str, list[Task]](list)
    by_id = {task.id: task for task in tasks}
    for task_id in drawn.sample(sorted(by_id), len(by_id)):
        if (kind := kind_of(by_id[task_id], domain)) not in domain.without:
            found[kind].append(by_id[task_id])
    return found


def levelled(left: Queues, have: Mapping[str, int], missing: int) -> list[Task]:
    """Take so many tasks off the queues, always of the kind that there are fewest of; fewer where they run out.

    Args:
        left: what there is to take; shortened by what is taken.
        have: by kind, tasks that were taken before and served.
        missing: how many are wanted.
    """
    count, taken = Counter(have), list[Task]()
    while len(taken) < missing and (some := [kind for kind, queue in left.items() if queue]):
        kind = min(some, key=lambda one: count[one])
        count[kind] += 1
        taken.append(left[kind].pop(0))
    return taken
