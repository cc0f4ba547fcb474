"""BlocksWorld as STRIPS: immutable states and the four operators of PlanBench's domain `blocksworld-4ops`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple


class Fact(NamedTuple):
    """A ground predicate: clear, handempty, holding, on or ontable, and the blocks it is about."""

    name: str
    args: tuple[str, ...] = ()


class Move(NamedTuple):
    """A ground operator: pick-up, put-down, stack or unstack, and its blocks."""

    operator: str
    blocks: tuple[str, ...]


State = frozenset[Fact]
"""All facts that hold; what is not in it is false."""

HAND_EMPTY = Fact("handempty")


def clear(x: str) -> Fact:
    """Nothing is on x, and x is not in the hand."""
    return Fact("clear", (x,))


def holding(x: str) -> Fact:
    """The hand holds x."""
    return Fact("holding", (x,))


def on(x: str, y: str) -> Fact:
    """The block x is directly on top of the block y."""
    return Fact("on", (x, y))


def ontable(x: str) -> Fact:
    """The block x is on the table."""
    return Fact("ontable", (x,))


class Schema(NamedTuple):
    """A move's preconditions, all of which it makes false, and what it makes true."""

    needs: tuple[Fact, ...]
    adds: tuple[Fact, ...]


@lru_cache(maxsize=4096)
def schema(move: Move) -> Schema:
    """What a move needs and does. Raises ValueError for what is no move."""
    match move:
        case Move("pick-up", (x,)):
            return Schema(needs=(clear(x), ontable(x), HAND_EMPTY), adds=(holding(x),))
        case Move("put-down", (x,)):
            return Schema(needs=(holding(x),), adds=(ontable(x), clear(x), HAND_EMPTY))
        case Move("stack", (x, y)):
            return Schema(needs=(holding(x), clear(y)), adds=(on(x, y), clear(x), HAND_EMPTY))
        case Move("unstack", (x, y)):
            return Schema(needs=(on(x, y), clear(x), HAND_EMPTY), adds=(holding(x), clear(y)))
    raise ValueError(f"{move} is none of pick-up(x), put-down(x), stack(x, y), unstack(x, y)")


def unmet(state: State, move: Move) -> tuple[Fact, ...]:
    """The preconditions that do not hold; empty when the move is applicable."""
    return tuple(fact for fact in schema(move).needs if fact not in state)


def apply(state: State, move: Move) -> State:
    """The state after the move. Raises ValueError when a precondition does not hold."""
    if missing := unmet(state, move):
        raise ValueError(f"{move} is not applicable, {missing} do not hold; see unmet(state, move)")
    return state.difference(schema(move).needs).union(schema(move).adds)


def applicable(state: State) -> list[Move]:
    """Every move whose preconditions hold, in a fixed order."""
    tops = [fact.args[0] for fact in ordered(fact for fact in state if fact.name == "clear")]
    for fact in state:
        if fact.name == "holding":
            (held,) = fact.args
            return [Move("put-down", (held,)), *(Move("stack", (held, top)) for top in tops)]
    below = {fact.args[0]: fact.args[1] for fact in state if fact.name == "on"}
    return [Move("unstack", (x, below[x])) if x in below else Move("pick-up", (x,)) for x in tops]


def supports(facts: Iterable[Fact]) -> dict[str, str]:
    """Block -> the block it is on, in the order of `ordered`; blocks on the table are left out."""
    return {fact.args[0]: fact.args[1] for fact in ordered(fact for fact in facts if fact.name == "on")}


def bottom_up(below: dict[str, str]) -> list[str]:
    """The blocks of a `supports` mapping, each after the one below it. Raises graphlib.CycleError."""
    return list(TopologicalSorter({x: (y,) for x, y in below.items()}).static_order())


def ordered(facts: Iterable[Fact]) -> list[Fact]:
    """PlanBench's order: clear, hand, on, ontable; blocks a, b, ..., then longer names."""
    return sorted(facts, key=lambda fact: (fact.name, [(len(block), block) for block in fact.args]))


def slots(facts: Iterable[Fact]) -> Iterator[tuple[str, ...]]:
    """What the facts occupy: the place of a block, what covers it, the hand.

    In a possible world nothing is occupied twice; a complete state occupies everything once.
    """
    for fact in facts:
        match fact:
            case Fact("on", (x, y)):
                yield from (("place", x), ("cover", y))
            case Fact("ontable", (x,)):
                yield ("place", x)
            case Fact("clear", (x,)):
                yield ("cover", x)
            case Fact("holding", (x,)):
                yield from (("place", x), ("cover", x), ("hand",))
            case Fact("handempty", ()):
                yield ("hand",)
            case _:
                raise ValueError(f"{fact} is none of clear(x), handempty(), holding(x), on(x, y), ontable(x)")


def possible(facts: Iterable[Fact]) -> bool:
    """Whether some state can make all the facts true together."""
    facts = list(facts)
    if any(count > 1 for count in Counter(slots(set(facts))).values()):
        return False
    try:
        bottom_up(supports(facts))
    except CycleError:
        return False
    return True
