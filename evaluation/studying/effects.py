"""What differs between arms, paired over tasks (CGDP, tables 8, 15, 16, 20 to 22)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from certigraph.evaluation.comparing.summary import Difference, difference_of
from certigraph.evaluation.statistics import holm
from certigraph.evaluation.studying.arms import FREEFORM, LOBOTOMIZED, NATIVE, ON, STRUCTURED, Arm

MEMORY_PAIRS = (
    (STRUCTURED, NATIVE),
    (FREEFORM, NATIVE),
    (STRUCTURED, LOBOTOMIZED),
    (FREEFORM, LOBOTOMIZED),
    (LOBOTOMIZED, NATIVE),
    (FREEFORM, STRUCTURED),
)
"""Which condition is set against which."""

FIGURES = ("n", "difference", "low", "high", "p", "p_holm", "detectable")
COLUMNS = ["family", "measure", "left", "right", *FIGURES, "words"]


class Pair(NamedTuple):
    """Two arms that differ in one thing, which names the family of tests that they belong to."""

    family: str
    left: Arm
    right: Arm


def pairs_of(arms: Sequence[Arm]) -> Iterator[Pair]:
    """All pairs of arms that the study compares: by memory, by a real gate, by an ablation's setting."""
    for left in arms:
        for right in arms:
            if left._replace(memory=right.memory) == right and (left.memory, right.memory) in MEMORY_PAIRS:
                yield Pair("memory", left, right)
            elif left._replace(gate=right.gate) == right and left.gate == ON and right.gate != ON:
                yield Pair("gate", left, right)
            elif left._replace(variant="") == right and left.variant:
                yield Pair("setting", left, right)


def effects(episodes: pd.DataFrame, measures: Sequence[str] = ("score", "tokens")) -> pd.DataFrame:
    """A line a pair and measure: left minus right over the tasks of both, in the measure's unit.

    `p` is the paired t-test's, `p_holm` Holm's over all pairs of the family in that measure; `low` and `high` bound
    the 95 % interval, a bootstrap's over tasks; `detectable` is the least difference so many tasks would show.
    """
    arms = _arms(episodes)
    found = [line for measure in measures for line in _family_wise(episodes, list(pairs_of(arms)), measure)]
    return pd.DataFrame(found, columns=COLUMNS)


def effects_by_hops(episodes: pd.DataFrame) -> pd.DataFrame:
    """The same of scores for questions of each number of hops; a family is that of one number."""
    by_hops = episodes.dropna(subset=["hops"]).groupby("hops")
    found = [effects(rows, ["score"]).assign(hops=hops) for hops, rows in by_hops]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=[*COLUMNS, "hops"])


def difference(left: Mapping[str, Sequence[float]], right: Mapping[str, Sequence[float]]) -> Difference:
    """Left minus right over the tasks of both; of no common task, one over none."""
    common = left.keys() & right.keys()
    return difference_of("left", "right", left if common else {}, right if common else {})


def by_task(rows: pd.DataFrame, column: str) -> dict[str, list[float]]:
    """The values of each task's runs."""
    return {str(task): values.astype(float).tolist() for task, values in rows.groupby("task", sort=False)[column]}


def adjusted(found: Sequence[Difference]) -> list[Difference]:
    """One family of tests: each with its p by Holm's rule."""
    values = holm([difference.p for difference in found])
    return [one.model_copy(update={"p_adjusted": p}) for one, p in zip(found, values, strict=True)]


def _family_wise(episodes: pd.DataFrame, pairs: Sequence[Pair], measure: str) -> Iterator[dict[str, object]]:
    rows = {name: by_task(mine, measure) for name, mine in episodes.groupby("method", sort=False)}
    for family in dict.fromkeys(pair.family for pair in pairs):
        mine = [pair for pair in pairs if pair.family == family]
        found = adjusted([difference(rows[pair.left.name], rows[pair.right.name]) for pair in mine])
        for pair, one in zip(mine, found, strict=True):
            named = one.model_copy(update={"method": pair.left.name, "against": pair.right.name})
            yield {"family": family, "measure": measure, **_told(named)}


def _told(found: Difference) -> dict[str, object]:
    plain = found.model_dump(include={"n", "low", "high", "p", "detectable"})
    named = {"left": found.method, "right": found.against, "difference": found.mean}
    return {**named, **plain, "p_holm": found.p_adjusted, "words": found.words}


def _arms(episodes: pd.DataFrame) -> list[Arm]:
    lines = episodes[["harness", "memory", "gate", "variant"]].drop_duplicates().itertuples(index=False)
    return [Arm(*map(str, line)) for line in lines]
