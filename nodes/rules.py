"""What the rules of earlier episodes speak of: verbs and things that a text names, and whether an action is among them.

STEP's Evaluator holds actions against rules. Words are compared by their stems, and verbs by what they mean.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from certigraph.adapters.matching import tokens

VERBS = (
    "go, walk, travel, teleport, enter, leave, visit, return, explore, move to, move into, move through, move around",
    "look, examine, inspect, observe, check, view, read, search, explore, inventory",
    "look around",
    "wait, idle, pause",
    "focus",
    "pick, take, get, grab, collect, fetch",
    "put down, drop, release",
    "move, put, place, transfer, insert, bring, carry",
    "pour",
    "mix, stir, combine",
    "dunk, dip, immerse",
    "activate, turn on, switch on, turn, start",
    "deactivate, turn off, switch off, turn, stop",
    "open",
    "close, shut",
    "connect, attach, plug",
    "disconnect, detach, unplug",
    "use, operate, apply",
    "eat, consume, taste",
    "drink",
    "cut, slice, chop, dice",
    "stack",
    "unstack",
    "click, press, push",
)
"""Verbs of actions. Those in a line are one verb, which its first one names."""

IDLE_VERBS = frozenset(("go", "look", "look around", "wait"))
"""Verbs of actions that change no thing."""

SEPARATOR = re.compile(
    r"[,;()\[\]]|\b(?:and|or|to|into|onto|in|inside|on|at|of|for|from|with|without|by|before|after|while|when"
    r"|through|up|down|off)\b"
)
"""What parts the verbs and things of a text."""

VAGUE_WORDS = tokens("agent you thing object item anything everything something around again repeatedly")
"""Stems of words that name no thing."""

AUXILIARY = re.compile(r"\s*\b(?:do|does|did|may|might|should|must|will|would|can|could|is|are|was|were)\s*$", re.I)
"""What stands between the subject of a rule and its NOT."""


class Wording(NamedTuple):
    """What a text names: verbs, by their first synonym, and things, each by the stems of its words."""

    verbs: frozenset[str]
    things: tuple[frozenset[str], ...]


def is_named_by(rule: str, action: str) -> bool:
    """Return whether a rule speaks of an action, so that the Evaluator has to look at it.

    A rule with a verb speaks of actions with that verb, and if it names things too, on one of these. Using a thing is
    every action on it that is more than looking or moving around. A rule without a verb that actions have speaks of all
    actions on the things that it names.

    Args:
        rule: insight of the form "X DOES NOT CONTRIBUTE to Y".
        action: text of the action.
    """
    subject, _, predicate = rule.partition(" NOT ")
    wordings = (read_wording(AUXILIARY.sub("", subject)), read_wording(predicate))
    verbs, things = next((one for one in wordings if any(one)), wordings[0])
    taken = read_wording(action, is_action=True)
    if verbs:
        used = "use" in verbs and not taken.verbs & IDLE_VERBS
        if not used and not verbs & taken.verbs:
            return False
        if not things or "wait" in taken.verbs:
            return True
    return any(named <= thing or thing <= named for named in things for thing in taken.things)


@lru_cache(maxsize=4_096)
def read_wording(text: str, *, is_action: bool = False) -> Wording:
    """Read the verbs and things that a text names.

    Args:
        text: what a rule speaks of, or an action.
        is_action: whether it is an action, which begins with its verb and has no other.
    """
    parts = SEPARATOR.split(text.lower())
    separators = [*SEPARATOR.findall(text.lower()), ""]
    verbs, things = set[str](), list[frozenset[str]]()
    for number, (part, separator) in enumerate(zip(parts, separators, strict=True)):
        words = re.findall(r"[a-z]+|\d+", part)
        may_begin = words and (number == 0 or not is_action)
        found, length = _find_verb(words, separator) if may_begin else (frozenset(), 0)
        if may_begin and not found and (is_action or (words[0].endswith("ing") and words[1:])):
            length = 1  # a verb that is in no list
        verbs |= found
        things.append(tokens(" ".join(words[length:])) - VAGUE_WORDS)
    named = tuple(filter(None, things))
    return Wording(frozenset(verbs), named or ((tokens(text),) if is_action else ()))


def _find_verb(words: Sequence[str], separator: str) -> tuple[frozenset[str], int]:
    """Return the names of the verb with which words begin, and how many of the words it takes; none if there is none.

    Args:
        words: the words.
        separator: the word after them, which may belong to the verb: turn on.
    """
    first, *rest = words
    known, stem = _verb_names(), next(iter(tokens(first)), first)
    if found := known.get((stem, rest[0] if rest else separator)):
        return found, 2 if rest else 1
    return known.get((stem, ""), frozenset()), 1


@cache
def _verb_names() -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the names of verbs, each by the stem of its first word and its second word, which may be empty."""
    names = defaultdict[tuple[str, str], set[str]](set)
    for line in VERBS:
        name, *others = line.split(", ")
        for verb in (name, *others):
            first, _, second = verb.partition(" ")
            names[next(iter(tokens(first))), second].add(name)
    return {verb: frozenset(found) for verb, found in names.items()}
