"""Which goals make a split."""

from collections.abc import Mapping
from random import Random

from certigraph.adapters.webshop.goals import SHUFFLE, Goal
from certigraph.state.endings import UnknownName

USUAL, WRITTEN = "instructions", "written"

PLACES = {"test": (0, 500), "dev": (500, 1500), "train": (1500, None)}
"""In the shuffled list of templated goals, as WebShop's own is cut (recalled; its order is another)."""


def selected(goals: Mapping[str, Goal], written: Mapping[str, Goal], split: str) -> dict[str, Goal]:
    """The goals of a split by id. Raises UnknownName for one that is not there or is empty, naming the others."""
    splits = {USUAL: _firsts(goals), WRITTEN: dict(written)}
    splits |= {name: dict(list(goals.items())[start:end]) for name, (start, end) in PLACES.items()}
    if not splits.get(split):
        known = ", ".join(name for name, members in splits.items() if members)
        raise UnknownName(f"no split {split!r}; known are {known}")
    return splits[split]


def _firsts(goals: Mapping[str, Goal]) -> dict[str, Goal]:
    """The first goal of each product. Shuffled anew: products of many goals would else come first."""
    first = {goal.asin: id_ for id_, goal in reversed(list(goals.items()))}
    ids = sorted(first.values())
    Random(SHUFFLE).shuffle(ids)
    return {id_: goals[id_] for id_ in ids}
