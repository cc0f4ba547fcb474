"""`certigraph rewards build`: pairs of a domain, as many as published, in a folder that can be gone on with."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.rewardprediction.domains import PUBLISHED, Domain
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.evaluation.rewards.attempts import Dropped, attempts
from certigraph.evaluation.rewards.keeping import (
    Count,
    dropped_in,
    keep,
    pairs_in,
    reasons,
    settle,
    sort_pairs,
    write_count,
)
from certigraph.evaluation.rewards.sampling import kind_of, levelled, queues
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task

Outcome = Pair | Dropped

Told = Callable[[Count], None]
"""Called after each attempt with the domain's count so far."""


class Asked(NamedTuple):
    """What is to be built of a domain."""

    domain: str
    seed: int = 0
    pairs: int = 0
    """0: as many as published; of a domain that is not, as there are tasks."""
    splits: tuple[str, ...] = ()
    """None: those that the paper drew from, as near as the benchmark has them."""
    data: str | None = None


def build(asked: Asked, folder: Path, *, at_once: int = 1, told: Told | None = None) -> Count:
    """Build what is left of a domain. Of the same tasks and seed the same file comes out, whatever interrupted it.

    A benchmark that lacks its data has a count that says so: it does not keep other domains from being built.

    Raises:
        UnknownName: no such benchmark or split, or one that shows no demonstrations.
        Fault: the folder was begun otherwise.
    """
    domain = _domain(asked)
    count = Count(domain=asked.domain, seed=asked.seed, splits=domain.splits, published=_published(asked))
    try:
        tasks = _tasks(asked, domain)
    except Fault as fault:
        return count.model_copy(update={"failed": str(fault)})
    count = count.model_copy(update={"wanted": asked.pairs or domain.pairs or len(tasks)})
    settle(folder, count)
    found: list[Outcome] = []
    kinds = {task.id: kind_of(task, domain) for task in tasks}
    for outcome in _outcomes(asked, folder, queues(tasks, domain, asked.seed), kinds, count.wanted, at_once):
        found.append(outcome)
        count = _counted(count, found, kinds)
        if told:
            told(count)
    sort_pairs(folder, asked.domain, _pairs(found))
    write_count(folder, count)
    return count


def _outcomes(
    asked: Asked, folder: Path, left: dict[str, list[Task]], kinds: dict[str, str], wanted: int, at_once: int
) -> Iterator[Outcome]:
    """As many tasks as are wanted, then as many as were dropped, until there are enough pairs or no more tasks.

    What the folder has of them is not built again.
    """
    known: dict[str, Outcome] = {pair.task: pair for pair in pairs_in(folder, asked.domain)}
    known |= {one.task: one for one in dropped_in(folder, asked.domain)}
    have = Counter[str]()
    while batch := levelled(left, have, wanted - have.total()):
        new = [task for task in batch if task.id not in known]
        for outcome in attempts(asked.domain, asked.data, asked.seed, new, at_once):
            keep(folder, outcome)
            known[outcome.task] = outcome
            yield outcome
        yield from (known[task.id] for task in batch if task not in new)
        have.update(kinds[task.id] for task in batch if isinstance(known[task.id], Pair))


def _domain(asked: Asked) -> Domain:
    known = PUBLISHED.get(asked.domain, Domain(0))
    return known._replace(splits=asked.splits or known.splits)


def _published(asked: Asked) -> int | None:
    known = PUBLISHED.get(asked.domain)
    return known.pairs if known else None


def _tasks(asked: Asked, domain: Domain) -> list[Task]:
    benchmark = load_benchmark(asked.domain, asked.data)
    usable(benchmark)
    if not hasattr(benchmark, "demonstration"):
        raise UnknownName(
            f"{asked.domain} shows no demonstrations, of which pairs are built; {', '.join(PUBLISHED)} do"
        )
    return [task for split in domain.splits for task in benchmark.tasks(split)]


def _counted(count: Count, found: Sequence[Outcome], kinds: dict[str, str]) -> Count:
    built = _pairs(found)
    spread = dict(sorted(Counter(kinds[pair.task] for pair in built).items()))
    dropped = reasons([one for one in found if isinstance(one, Dropped)])
    return count.model_copy(update={"built": len(built), "kinds": spread, "dropped": dropped})


def _pairs(found: Sequence[Outcome]) -> list[Pair]:
    return [one for one in found if isinstance(one, Pair)]


def chosen_domains(names: Sequence[str]) -> tuple[str, ...]:
    """The domains that are asked for, each once; all published ones where none is."""
    return tuple(dict.fromkeys(names)) or tuple(PUBLISHED)
