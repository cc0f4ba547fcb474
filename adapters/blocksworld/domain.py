"""BlocksWorld in STRIPS (PlanBench's domain `blocksworld-4ops`), and PlanBench's English wording of it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from certigraph.state.records import Fault

# STRIPS: immutable states and four operators.


class Fact(NamedTuple):
    """Ground predicate (clear, handempty, holding, on or ontable) with its blocks."""

    name: str
    args: tuple[str, ...] = ()


class Move(NamedTuple):
    """Ground operator (pick-up, put-down, stack or unstack) with its blocks."""

    operator: str
    blocks: tuple[str, ...]


State = frozenset[Fact]
"""All facts that hold; every other fact is false."""

HAND_EMPTY = Fact("handempty")


def clear(x: str) -> Fact:
    """Create the fact that nothing is on x, and x is not held."""
    return Fact("clear", (x,))


def holding(x: str) -> Fact:
    """Create the fact that the hand holds x."""
    return Fact("holding", (x,))


def on(x: str, y: str) -> Fact:
    """Create the fact that block x is directly on block y."""
    return Fact("on", (x, y))


def ontable(x: str) -> Fact:
    """Create the fact that block x is on the table."""
    return Fact("ontable", (x,))


class Schema(NamedTuple):
    """Preconditions of a move, all of which it deletes, and the facts that it adds."""

    needs: tuple[Fact, ...]
    adds: tuple[Fact, ...]


@lru_cache(maxsize=4096)
def schema(move: Move) -> Schema:
    """Return the preconditions and effects of a move.

    Raises:
        ValueError: it is not a move of the domain.
    """
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
    """Return the preconditions that do not hold; empty if the move is applicable."""
    return tuple(fact for fact in schema(move).needs if fact not in state)


def apply(state: State, move: Move) -> State:
    """Return the state after a move.

    Raises:
        ValueError: a precondition does not hold.
    """
    if missing := unmet(state, move):
        raise ValueError(f"{move} is not applicable, {missing} do not hold; see unmet(state, move)")
    return state.difference(schema(move).needs).union(schema(move).adds)


def applicable(state: State) -> list[Move]:
    """Return every applicable move, in a fixed order."""
    tops = [fact.args[0] for fact in ordered(fact for fact in state if fact.name == "clear")]
    for fact in state:
        if fact.name == "holding":
            (held,) = fact.args
            return [Move("put-down", (held,)), *(Move("stack", (held, top)) for top in tops)]
    below = {fact.args[0]: fact.args[1] for fact in state if fact.name == "on"}
    return [Move("unstack", (x, below[x])) if x in below else Move("pick-up", (x,)) for x in tops]


def supports(facts: Iterable[Fact]) -> dict[str, str]:
    """Map each block to the block it is on, in the order of `ordered`; blocks on the table are left out."""
    return {fact.args[0]: fact.args[1] for fact in ordered(fact for fact in facts if fact.name == "on")}


def bottom_up(below: dict[str, str]) -> list[str]:
    """Sort the blocks of a `supports` mapping, each after the one below it.

    Raises:
        graphlib.CycleError: blocks are on top of one another in a cycle.
    """
    return list(TopologicalSorter({x: (y,) for x, y in below.items()}).static_order())


def ordered(facts: Iterable[Fact]) -> list[Fact]:
    """Sort facts in PlanBench's order: clear, hand, on, ontable; blocks a, b, ..., then longer names."""
    return sorted(facts, key=lambda fact: (fact.name, [(len(block), block) for block in fact.args]))


def slots(facts: Iterable[Fact]) -> Iterator[tuple[str, ...]]:
    """Yield the slots that facts occupy: the place of a block, the cover of a block, the hand.

    In a possible world no slot is occupied twice; a complete state occupies every slot once.
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
    """Tell whether the facts can hold together in some state."""
    facts = list(facts)
    if any(count > 1 for count in Counter(slots(set(facts))).values()):
        return False
    try:
        bottom_up(supports(facts))
    except CycleError:
        return False
    return True


# PlanBench's wording: formatting and parsing facts and moves.

COLOURS = {
    "a": "red",
    "b": "blue",
    "c": "orange",
    "d": "yellow",
    "e": "white",
    "f": "magenta",
    "g": "black",
    "h": "cyan",
    "i": "green",
    "j": "violet",
    "k": "silver",
    "l": "gold",
}
"""PlanBench's colours; it has none for later blocks, which are called "block m" or "block 13" here."""

FACTS = {
    "clear": "the {} is clear",
    "handempty": "the hand is empty",
    "holding": "the hand is currently holding {}",
    "on": "the {} is on top of the {}",
    "ontable": "the {} is on the table",
}
MOVES = {
    "pick-up": "pick up the {}",
    "put-down": "put down the {}",
    "stack": "stack the {} on top of the {}",
    "unstack": "unstack the {} from on top of the {}",
}

_LETTERS = {colour: letter for letter, colour in COLOURS.items()}
_PLAIN = r"[a-z]\d*|\d+"
_ANY_COLOUR = "|".join(_LETTERS)
_BLOCK = rf"\b((?:{_ANY_COLOUR}) block|block (?:{_PLAIN}))\b"
_TERM = rf"({_ANY_COLOUR}|{_PLAIN})"

_FACT_PATTERNS = {
    name: re.compile(text.format(_BLOCK, _BLOCK).replace("holding ", "holding (?:the )?"))
    for name, text in FACTS.items()
}
_MOVE_PATTERNS = [(name, re.compile(text.format(_BLOCK, _BLOCK))) for name, text in MOVES.items()] + [
    (name, re.compile(rf"\(?{name}" + rf" {_TERM}" * text.count("{}") + r"\)?")) for name, text in MOVES.items()
]


def block_text(block: str) -> str:
    """Format a block: `red block` for a, `block 13` for 13.

    Raises:
        Fault: ("data") the name could not be parsed again.
    """
    if block in COLOURS:
        return f"{COLOURS[block]} block"
    if not re.fullmatch(_PLAIN, block):
        raise Fault("data", f"block {block!r} has no wording; rename it to a letter, a number or both: a, 13, b13")
    return f"block {block}"


def fact_text(fact: Fact) -> str:
    """Format a fact: `the red block is on top of the blue block`."""
    return FACTS[fact.name].format(*map(block_text, fact.args))


def denial(fact: Fact) -> str:
    """Format the negation of a fact, `the red block is not clear`, which `parse_facts` does not parse as a fact."""
    return fact_text(fact).replace(" is ", " is not ", 1)


def move_text(move: Move) -> str:
    """Format a move: `unstack the red block from on top of the blue block`."""
    return MOVES[move.operator].format(*map(block_text, move.blocks))


def list_facts(facts: Iterable[Fact]) -> str:
    """Format facts in PlanBench's order, joined by commas and a final "and"."""
    texts = [fact_text(fact) for fact in ordered(facts)]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def describe(state: State) -> str:
    """Format the observation of a complete state, in one sentence."""
    return f"As observed, {list_facts(state)}."


def statement(init: Iterable[Fact], goal: Iterable[Fact]) -> str:
    """Format a problem in two sentences: its start and its goal."""
    return f"At the start, {list_facts(init)}. My goal is that {list_facts(goal)}."


def parse_facts(text: str) -> State:
    """Parse every fact phrase in a text, whatever its context; negated facts do not count."""
    return _facts(_flat(text))


@lru_cache(maxsize=1024)
def _facts(flat: str) -> State:
    # cached because several operators parse the same observation
    return frozenset(
        Fact(name, tuple(map(_block, match.groups())))
        for name, pattern in _FACT_PATTERNS.items()
        for match in pattern.finditer(flat)
    )


def parse_observed(text: str) -> State:
    """Parse the state of the last `describe` sentence in a text; empty if there is none."""
    return _last_sentence(text, r"\bas observed, ")


def parse_goal(text: str) -> State:
    """Parse the last sentence "My goal is [to have] that ..." in a text; empty if there is none."""
    return _last_sentence(text, r"\bmy goal is (?:to have )?that ")


@lru_cache(maxsize=1024)
def parse_action(text: str) -> Move | None:
    """Parse a text that is a move, in words or as PlanBench's `(stack red blue)`; None if it is none."""
    flat = _flat(text).rstrip(".")
    for operator, pattern in _MOVE_PATTERNS:
        if match := pattern.fullmatch(flat):
            return Move(operator, tuple(map(_block, match.groups())))
    return None


def _last_sentence(text: str, opening: str) -> State:
    _, *sentences = re.split(opening, _flat(text))
    return parse_facts(sentences[-1].partition(".")[0]) if sentences else frozenset()


def _flat(text: str) -> str:
    return " ".join(text.lower().split())


def _block(words: str) -> str:
    name = words.removesuffix(" block").removeprefix("block ")
    return _LETTERS.get(name, name)
