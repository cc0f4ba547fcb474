"""BlocksWorld in STRIPS (PlanBench's domain `blocksworld-4ops`), and PlanBench's English wording of it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from certigraph.state.endings import Fault

# STRIPS: immutable states and four operators.


class BlockFact(NamedTuple):
    """Ground predicate (clear, handempty, holding, on or ontable) with its blocks."""

    name: str
    args: tuple[str, ...] = ()


class BlockMove(NamedTuple):
    """Ground operator (pick-up, put-down, stack or unstack) with its blocks."""

    operator: str
    blocks: tuple[str, ...]


BlocksState = frozenset[BlockFact]
"""All facts that hold; every other fact is false."""

HAND_EMPTY = BlockFact("handempty")


def clear(x: str) -> BlockFact:
    """Create the fact that nothing is on x, and x is not held."""
    return BlockFact("clear", (x,))


def holding(x: str) -> BlockFact:
    """Create the fact that the hand holds x."""
    return BlockFact("holding", (x,))


def on(x: str, y: str) -> BlockFact:
    """Create the fact that block x is directly on block y."""
    return BlockFact("on", (x, y))


def ontable(x: str) -> BlockFact:
    """Create the fact that block x is on the table."""
    return BlockFact("ontable", (x,))


class MoveSchema(NamedTuple):
    """Preconditions and effects of a move. The facts `needs` are required and then deleted, the facts `adds` added."""

    needs: tuple[BlockFact, ...]
    adds: tuple[BlockFact, ...]


@lru_cache(maxsize=4096)
def schema_of(move: BlockMove) -> MoveSchema:
    """Return the preconditions and effects of a move.

    Raises:
        ValueError: `move` is not a move of the domain.
    """
    match move:
        case BlockMove("pick-up", (x,)):
            return MoveSchema(needs=(clear(x), ontable(x), HAND_EMPTY), adds=(holding(x),))
        case BlockMove("put-down", (x,)):
            return MoveSchema(needs=(holding(x),), adds=(ontable(x), clear(x), HAND_EMPTY))
        case BlockMove("stack", (x, y)):
            return MoveSchema(needs=(holding(x), clear(y)), adds=(on(x, y), clear(x), HAND_EMPTY))
        case BlockMove("unstack", (x, y)):
            return MoveSchema(needs=(on(x, y), clear(x), HAND_EMPTY), adds=(holding(x), clear(y)))
    raise ValueError(f"{move} is none of pick-up(x), put-down(x), stack(x, y), unstack(x, y)")


def unmet_preconditions(state: BlocksState, move: BlockMove) -> tuple[BlockFact, ...]:
    """Return the preconditions of a move that do not hold in a state; empty if the move is applicable."""
    return tuple(fact for fact in schema_of(move).needs if fact not in state)


def apply_move(state: BlocksState, move: BlockMove) -> BlocksState:
    """Return the state after a move.

    Raises:
        ValueError: a precondition does not hold.
    """
    if missing := unmet_preconditions(state, move):
        raise ValueError(f"{move} is not applicable, {missing} do not hold; see unmet_preconditions(state, move)")
    return state.difference(schema_of(move).needs).union(schema_of(move).adds)


def applicable_moves(state: BlocksState) -> list[BlockMove]:
    """Return every applicable move, in a fixed order."""
    tops = [fact.args[0] for fact in sort_facts(fact for fact in state if fact.name == "clear")]
    for fact in state:
        if fact.name == "holding":
            (held,) = fact.args
            return [BlockMove("put-down", (held,)), *(BlockMove("stack", (held, top)) for top in tops)]
    below = {fact.args[0]: fact.args[1] for fact in state if fact.name == "on"}
    return [BlockMove("unstack", (x, below[x])) if x in below else BlockMove("pick-up", (x,)) for x in tops]


def supports_of(facts: Iterable[BlockFact]) -> dict[str, str]:
    """Map each block to the block it is on, in the order of `sort_facts`; blocks on the table are left out."""
    return {fact.args[0]: fact.args[1] for fact in sort_facts(fact for fact in facts if fact.name == "on")}


def sort_bottom_up(below: dict[str, str]) -> list[str]:
    """Sort the blocks of a `supports_of` mapping, each after the one below it.

    Raises:
        graphlib.CycleError: blocks are on top of one another in a cycle.
    """
    return list(TopologicalSorter({x: (y,) for x, y in below.items()}).static_order())


def sort_facts(facts: Iterable[BlockFact]) -> list[BlockFact]:
    """Sort facts in PlanBench's order: clear, hand, on, ontable; blocks a, b, ..., then longer names."""
    return sorted(facts, key=lambda fact: (fact.name, [(len(block), block) for block in fact.args]))


def occupied_slots(facts: Iterable[BlockFact]) -> Iterator[tuple[str, ...]]:
    """Yield the slots that facts occupy: the place of a block, the cover of a block, the hand.

    In a possible state no slot is occupied twice; a complete state occupies every slot exactly once.
    """
    for fact in facts:
        match fact:
            case BlockFact("on", (x, y)):
                yield from (("place", x), ("cover", y))
            case BlockFact("ontable", (x,)):
                yield ("place", x)
            case BlockFact("clear", (x,)):
                yield ("cover", x)
            case BlockFact("holding", (x,)):
                yield from (("place", x), ("cover", x), ("hand",))
            case BlockFact("handempty", ()):
                yield ("hand",)
            case _:
                raise ValueError(f"{fact} is none of clear(x), handempty(), holding(x), on(x, y), ontable(x)")


def is_possible(facts: Iterable[BlockFact]) -> bool:
    """Return whether the facts can hold together in some state."""
    facts = list(facts)
    if any(count > 1 for count in Counter(occupied_slots(set(facts))).values()):
        return False
    try:
        sort_bottom_up(supports_of(facts))
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
_CONDITION_OPENING = re.compile(r"^(?:at the start, [^.]*\. )?my goal is (?:to have )?that ")
_CONJUNCTION = re.compile(r",? and |, ")
_MOVE_PATTERNS = [(name, re.compile(text.format(_BLOCK, _BLOCK))) for name, text in MOVES.items()] + [
    (name, re.compile(rf"\(?{name}" + rf" {_TERM}" * text.count("{}") + r"\)?")) for name, text in MOVES.items()
]


def format_block(block: str) -> str:
    """Format a block: `red block` for a, `block 13` for 13.

    Raises:
        Fault: ("data") the name has no wording that could be parsed back.
    """
    if block in COLOURS:
        return f"{COLOURS[block]} block"
    if not re.fullmatch(_PLAIN, block):
        raise Fault("data", f"block {block!r} has no wording; rename it to a letter, a number or both: a, 13, b13")
    return f"block {block}"


def format_fact(fact: BlockFact) -> str:
    """Format a fact: `the red block is on top of the blue block`."""
    return FACTS[fact.name].format(*map(format_block, fact.args))


def deny_fact(fact: BlockFact) -> str:
    """Format the negation of a fact, `the red block is not clear`, which `parse_facts` does not parse as a fact."""
    return format_fact(fact).replace(" is ", " is not ", 1)


def format_move(move: BlockMove) -> str:
    """Format a move: `unstack the red block from on top of the blue block`."""
    return MOVES[move.operator].format(*map(format_block, move.blocks))


def format_facts(facts: Iterable[BlockFact]) -> str:
    """Format facts in PlanBench's order, joined by commas and a final "and"."""
    texts = [format_fact(fact) for fact in sort_facts(facts)]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def describe_state(state: BlocksState) -> str:
    """Format the observation of a complete state, in one sentence."""
    return f"As observed, {format_facts(state)}."


def state_problem(init: Iterable[BlockFact], goal: Iterable[BlockFact]) -> str:
    """Format a problem in two sentences: its start and its goal."""
    return f"At the start, {format_facts(init)}. My goal is that {format_facts(goal)}."


def parse_facts(text: str) -> BlocksState:
    """Parse every fact phrase in a text, whatever its context; negated facts do not count."""
    return _parse_cached_facts(_normalise_text(text))


@lru_cache(maxsize=1024)
def _parse_cached_facts(flat: str) -> BlocksState:
    # cached because several operators parse the same observation
    return frozenset(
        BlockFact(name, tuple(map(_parse_block, match.groups())))
        for name, pattern in _FACT_PATTERNS.items()
        for match in pattern.finditer(flat)
    )


def parse_condition(text: str) -> BlocksState | None:
    """Parse a condition that claims facts and nothing else, joined by commas and "and"; None for any other wording.

    `parse_facts` finds a fact also in "it is not true that the red block is clear": a verdict must not rest on that.
    """
    flat = _normalise_text(text).rstrip(". ")
    parts = _CONJUNCTION.split(_CONDITION_OPENING.sub("", flat))
    facts = [fact for part in parts if (fact := _parse_fact(part))]
    return frozenset(facts) if len(facts) == len(parts) else None


def decide_condition(text: str, state: BlocksState) -> bool | None:
    """Return whether a condition holds in a state; None if its wording is not exactly that of facts."""
    facts = parse_condition(text)
    return None if facts is None else facts <= state


def parse_observed(text: str) -> BlocksState:
    """Parse the state of the last `describe_state` sentence in a text; empty if there is none."""
    return _last_sentence(text, r"\bas observed, ")


def parse_goal(text: str) -> BlocksState:
    """Parse the last sentence "My goal is [to have] that ..." in a text; empty if there is none."""
    return _last_sentence(text, r"\bmy goal is (?:to have )?that ")


@lru_cache(maxsize=1024)
def parse_action(text: str) -> BlockMove | None:
    """Parse a move, given in words or as in PlanBench's `(stack red blue)`; None if the text is not a move."""
    flat = _normalise_text(text).rstrip(".")
    for operator, pattern in _MOVE_PATTERNS:
        if match := pattern.fullmatch(flat):
            return BlockMove(operator, tuple(map(_parse_block, match.groups())))
    return None


def _parse_fact(phrase: str) -> BlockFact | None:
    matches = ((name, pattern.fullmatch(phrase)) for name, pattern in _FACT_PATTERNS.items())
    return next((BlockFact(name, tuple(map(_parse_block, match.groups()))) for name, match in matches if match), None)


def _last_sentence(text: str, opening: str) -> BlocksState:
    _, *sentences = re.split(opening, _normalise_text(text))
    return parse_facts(sentences[-1].partition(".")[0]) if sentences else frozenset()


def _normalise_text(text: str) -> str:
    return " ".join(text.lower().split())


def _parse_block(words: str) -> str:
    name = words.removesuffix(" block").removeprefix("block ")
    return _LETTERS.get(name, name)
