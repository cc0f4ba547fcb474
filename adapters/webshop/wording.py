"""What an instruction says: wanted words, options, a bound of the price; and the searches that it suggests."""

import re
from typing import NamedTuple

from certigraph.adapters.retrieval.analyzer import STOPWORDS, words

_BOUND = re.compile(r",? and price lower than \$?(\d+(?:\.\d+)?) dollars\.?", re.IGNORECASE)
_OPTION = re.compile(r"(?:, and | with )((?!with\b)[a-z]+(?: (?!with\b)[a-z]+){0,2}): ")
_ASKING = "find want need looking look show buy get order place searching interested like love help"

IDLE = STOPWORDS.union(_ASKING.split())


class Wanted(NamedTuple):
    """An instruction taken apart."""

    words: tuple[str, ...]
    """What the thing is and what it is like: words in order, without those that only ask for it."""
    options: dict[str, str]
    upper: float | None
    """Dollars."""


def wanted(instruction: str) -> Wanted:
    """The parts of an instruction; written ones have options among their words."""
    bound = _BOUND.search(instruction)
    text = _BOUND.sub("", instruction)
    marks = list(_OPTION.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    options = {mark[1]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}
    rest = words(text[: marks[0].start()] if marks else text)
    kept = tuple(word for word in dict.fromkeys(rest) if word not in IDLE)
    return Wanted(kept, options, float(bound[1]) if bound else None)


def proposals(instruction: str) -> list[str]:
    """Keywords to search by, the best first: with the options, without them, and what comes last of the words."""
    asked = wanted(instruction)
    every = [*asked.words, *(word for value in asked.options.values() for word in words(value))]
    tries = (every, asked.words, asked.words[-4:], asked.words[:4])
    return list(dict.fromkeys(" ".join(dict.fromkeys(one)) for one in tries if one)) or [instruction]


def shared(instruction: str, text: str) -> str:
    """The wanted words of an instruction that a text has too, in the instruction's order; plurals count alike."""
    present = set(singular(text).split())
    return " ".join(word for word in wanted(instruction).words if singular(word) in present)


def singular(text: str) -> str:
    """The words of a text, plurals as singulars: "Two boxes of berries" is "two box of berry"."""
    return " ".join(map(_singular, words(text)))


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[: -2 if word.endswith(("shes", "ches", "xes", "sses")) else -1]
