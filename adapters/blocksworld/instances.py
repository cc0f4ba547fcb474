"""Problem instances: the record, and seeded generators that need no data."""

import random
from itertools import pairwise
from string import ascii_lowercase
from typing import Self

from pydantic import Field, model_validator

from certigraph.adapters.blocksworld.strips import (
    HAND_EMPTY,
    Fact,
    State,
    clear,
    on,
    ontable,
    ordered,
    possible,
    slots,
)
from certigraph.state.records import Record

Stacks = list[list[str]]


class Instance(Record):
    """A problem: its blocks, a complete initial state, and facts that shall hold together at the end."""

    blocks: tuple[str, ...]
    init: tuple[Fact, ...]
    goal: tuple[Fact, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        everything = {(kind, block) for kind in ("place", "cover") for block in self.blocks} | {("hand",)}
        if set(slots(self.init)) != everything or not possible(self.init):
            raise ValueError("init must say of every block where it is and what covers it, once, and of the hand too")
        if strangers := set(slots(self.goal)) - everything:
            raise ValueError(f"the goal names blocks that are not in blocks: {sorted({s[1] for s in strangers})}")
        return self

    @property
    def state(self) -> State:
        """The initial state."""
        return frozenset(self.init)

    def solved_by(self, state: State) -> bool:
        """Whether the goal holds in a state."""
        return state.issuperset(self.goal)


def random_instance(blocks: int, seed: int) -> Instance:
    """A random start and a random goal, full or partial, that does not hold at the start.

    The same arguments give the same instance everywhere. Raises ValueError below two blocks.
    """
    names = _names(blocks)
    rng = random.Random(f"{blocks}-{seed}")
    init = _state(_random_stacks(rng, names))
    while True:
        wanted = [fact for fact in _state(_random_stacks(rng, names)) if fact.name == "on"]
        goal = rng.sample(wanted, rng.randint(1, len(wanted))) if wanted else []
        if not set(goal) <= set(init):
            return Instance(blocks=names, init=tuple(init), goal=tuple(ordered(goal)))


def tower_instance(blocks: int) -> Instance:
    """All blocks on the table, to be built into one tower with the first block on top: 2 * (blocks - 1) moves."""
    names = _names(blocks)
    goal = (on(upper, lower) for upper, lower in pairwise(names))
    return Instance(blocks=names, init=tuple(_state([[name] for name in names])), goal=tuple(ordered(goal)))


def _names(count: int) -> tuple[str, ...]:
    if count < 2:
        raise ValueError(f"a goal needs two blocks or more, not {count}")
    return tuple(ascii_lowercase[i] if i < 12 else str(i + 1) for i in range(count))


def _random_stacks(rng: random.Random, blocks: tuple[str, ...]) -> Stacks:
    stacks: Stacks = []
    for block in rng.sample(blocks, len(blocks)):
        choice = rng.randrange(len(stacks) + 1)
        if choice == len(stacks):
            stacks.append([])
        stacks[choice].append(block)
    return stacks


def _state(stacks: Stacks) -> list[Fact]:
    """The facts of stacks that are listed bottom first."""
    facts = [HAND_EMPTY]
    for stack in stacks:
        facts += [ontable(stack[0]), clear(stack[-1])]
        facts += [on(upper, lower) for lower, upper in pairwise(stack)]
    return ordered(facts)
