"""PlanBench's wording of BlocksWorld, both ways: facts and moves to English and back."""

import re
from collections.abc import Iterable
from functools import lru_cache

from certigraph.adapters.blocksworld.strips import Fact, Move, State, ordered
from certigraph.state.endings import Fault

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
"""PlanBench's colours; it has none for later blocks, which read "block m" or "block 13" here."""

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
    """`red block` for a, `block 13` for 13. Raises Fault("data") for a name that could not be read back."""
    if block in COLOURS:
        return f"{COLOURS[block]} block"
    if not re.fullmatch(_PLAIN, block):
        raise Fault("data", f"block {block!r} has no wording; rename it to a letter, a number or both: a, 13, b13")
    return f"block {block}"


def fact_text(fact: Fact) -> str:
    """`the red block is on top of the blue block`."""
    return FACTS[fact.name].format(*map(block_text, fact.args))


def denial(fact: Fact) -> str:
    """`the red block is not clear`: says that the fact does not hold, and `parse_facts` does not take it for one."""
    return fact_text(fact).replace(" is ", " is not ", 1)


def move_text(move: Move) -> str:
    """`unstack the red block from on top of the blue block`."""
    return MOVES[move.operator].format(*map(block_text, move.blocks))


def list_facts(facts: Iterable[Fact]) -> str:
    """The facts in PlanBench's order, joined by commas and a final "and"."""
    texts = [fact_text(fact) for fact in ordered(facts)]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def describe(state: State) -> str:
    """The observation of a whole state, in one sentence."""
    return f"As observed, {list_facts(state)}."


def statement(init: Iterable[Fact], goal: Iterable[Fact]) -> str:
    """A problem in two sentences: how it starts and what is wanted."""
    return f"At the start, {list_facts(init)}. My goal is that {list_facts(goal)}."


def parse_facts(text: str) -> State:
    """Every fact phrase anywhere in a text, whoever asserts it; denials do not count."""
    return _facts(_flat(text))


@lru_cache(maxsize=1024)
def _facts(flat: str) -> State:
    # one observation is read by every operator that sees it
    return frozenset(
        Fact(name, tuple(map(_block, match.groups())))
        for name, pattern in _FACT_PATTERNS.items()
        for match in pattern.finditer(flat)
    )


def parse_observed(text: str) -> State:
    """The state of the last `describe` sentence in a text; empty when there is none."""
    return _last_sentence(text, r"\bas observed, ")


def parse_goal(text: str) -> State:
    """The facts of the last sentence "My goal is [to have] that ..." in a text; empty when there is none."""
    return _last_sentence(text, r"\bmy goal is (?:to have )?that ")


@lru_cache(maxsize=1024)
def parse_action(text: str) -> Move | None:
    """The move that a whole text names, in words or as PlanBench's `(stack red blue)`; None when it names none."""
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
