"""How far supervised rewards carry: EPIC distance by domain trained on and domain rated (StateFactory, Table 1)."""

from collections.abc import Callable, Sequence
from statistics import fmean

from certigraph.adapters.reward_heads import Heads
from certigraph.adapters.rewardprediction.epic import epic_distance
from certigraph.evaluation.rewardheads.samples import Sample
from certigraph.evaluation.rewardheads.training import FOLDS, train_heads
from certigraph.state.records import Record

ALL = "all"


class Transfer(Record):
    """Mean pooled EPIC distance, by what a head was trained on and what it rated; no head rated a task it saw."""

    domains: tuple[str, ...]
    trained: tuple[str, ...]
    """The domains, and `all` of them together where there are several."""
    distances: tuple[tuple[float, ...], ...]
    """A row for each of `trained`, a column for each of `domains`."""

    def overall(self, trained: str) -> float:
        """The mean over the domains rated."""
        return fmean(self.distances[self.trained.index(trained)])


def transfer(
    samples: Sequence[Sample],
    encoder: str,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    told: Callable[[str], None] = lambda line: None,
) -> Transfer:
    """Train on each domain alone and on all together, and rate every domain by each.

    Raises:
        Fault: ("data") a domain has too few tasks to train on.
    """
    domains = tuple(sorted({one.domain for one in samples}))
    trained = (*domains, ALL) if len(domains) > 1 else domains
    rows = []
    for name in trained:
        told(f"training on {name}")
        seen = [one for one in samples if name in (ALL, one.domain)]
        heads = train_heads(seen, encoder, folds=folds, seed=seed, told=lambda line: None)
        rows.append(tuple(distance([one for one in samples if one.domain == rated], heads) for rated in domains))
    return Transfer(domains=domains, trained=trained, distances=tuple(rows))


def distance(samples: Sequence[Sample], heads: Heads) -> float:
    """Mean over tasks of the EPIC distance pooled over a task's recordings."""
    return fmean(epic_distance(_rated(one, heads), one.rewards) for one in samples)


def _rated(one: Sample, heads: Heads) -> list[float]:
    return [float(reward) for reward in heads.of(one.task).rewards(one.features.astype("float32"))]
