"""Conditions of a plan in known wordings, and the rules that decide some of them by the world's replies alone.

A rule decides a condition only by identity: of a room, or of a thing and a place that the condition names in exactly
the world's words. Everything else is undecided and goes to a model. What is decided comes with the part of the reply
that decides it.
"""

import re
from typing import Literal, NamedTuple

from certigraph.adapters.matching import tokens
from certigraph.state.records import Observation

ROOMS = (
    "art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway", "kitchen", "living room", "outside",
    "workshop",
)  # fmt: skip
"""All rooms of the house."""

# Wordings, which the prompt of Propose recommends. Plans do not depend on them: other wordings are left to the model.

ConditionKind = Literal["be", "found", "focus", "have", "made", "placed"]

_WORDINGS: tuple[tuple[ConditionKind, str], ...] = (
    ("be", r"the agent is (?:in|at) (?:the )?(?P<place>.+?)"),
    ("found", r"the location of (?:the |an? )?(?P<thing>.+?) is known"),
    ("focus", r"(?:the |an? )?(?P<thing>.+?) is in focus"),
    ("have", r"the inventory contains (?:the |an? )?(?P<thing>.+?)"),
    ("made", r"(?:the |an? )?(?P<thing>.+?) has been made"),
    ("placed", r"(?:the |an? )?(?P<thing>.+?) is (?:in|on) (?:the |an? )?(?P<place>.+?)"),
)
_PATTERNS = tuple((kind, re.compile(f"{wording}\\.?", re.IGNORECASE)) for kind, wording in _WORDINGS)

MAX_CONDITION_CHARS = 1_000
"""Maximum number of characters of a condition to parse; the patterns take quadratic time in a text's length."""

GENERIC_WORDS = tokens("thing object substance item living non-living animal plant")
"""Words that name a kind, not a particular thing; the names in the world do not show what belongs to a kind."""


class WordedCondition(NamedTuple):
    """Condition in one of the known wordings."""

    kind: ConditionKind
    thing: str
    place: str


def parse_condition(text: str) -> WordedCondition | None:
    """Parse the condition that a text states; None if the wording is unknown."""
    for kind, pattern in _PATTERNS if len(text) <= MAX_CONDITION_CHARS else ():
        if match := pattern.fullmatch(text.strip()):
            parts = match.groupdict()
            return WordedCondition(kind, parts.get("thing") or "", parts.get("place") or "")
    return None


def may_mean(wanted: str, name: str) -> bool:
    """Return whether a thing in the world may be the wanted one: they share a word, or the wanted one is vague."""
    return is_vague(wanted) or bool((tokens(wanted) - GENERIC_WORDS) & tokens(name))


def is_vague(thing: str) -> bool:
    """Return whether a description names only a kind, which the world's replies cannot confirm."""
    return tokens(thing) <= GENERIC_WORDS


# Rules.


class Decision(NamedTuple):
    """Decision of a rule on one condition."""

    holds: bool
    quote: str
    """Part of the world's reply that decides it."""


_FOCUSED = re.compile(r"You focus on the (?P<thing>.+)\.")
_MOVED = re.compile(r"You move the (?P<thing>.+) to the (?P<place>.+?)\.")
_INVENTORY = "In your inventory, you see:"
"""Beginning of the list of what the agent carries."""
_DESCRIPTION = ("This room is called", "This outside location is called")
"""Beginnings of a room's description, which lists things that are in sight and nothing else."""


def decide_condition(text: str, observation: Observation, view: str = "") -> Decision | None:
    """Decide a condition by the world's reply to the last action and by its view; None if a model has to judge.

    Args:
        text: the condition.
        observation: the reply to the last action.
        view: what the world shows after it, as the environment's method `view` returns it; empty if it is not known.
    """
    condition = parse_condition(text)
    if condition is None:
        return None
    match condition.kind:
        case "be":
            return _decide_room(condition.place, observation)
        case "focus":
            focused = _FOCUSED.fullmatch(observation.text.strip())
            return _hold_if_same([(condition.thing, focused["thing"])], focused[0]) if focused else None
        case "have" | "placed":
            place = "inventory" if condition.kind == "have" else condition.place
            moved = _MOVED.fullmatch(observation.text.strip())
            pairs = [(condition.thing, moved["thing"]), (place, moved["place"])] if moved else []
            by_reply = _hold_if_same(pairs, moved[0]) if moved else None
            return by_reply or (_find_carried(condition.thing, view) if condition.kind == "have" else None)
        case "found":
            return _decide_sight(condition.thing, observation, view)
        case _:
            return None


def _decide_room(place: str, observation: Observation) -> Decision | None:
    # The world itself reports the room, so that being elsewhere is decided too.
    room = str(observation.data.get("room", ""))
    if _normalise(place) not in ROOMS or room not in ROOMS:
        return None
    return Decision(_normalise(place) == room, f"the agent is in the {room}")


def _hold_if_same(pairs: list[tuple[str, str]], quote: str) -> Decision | None:
    # Equal names are the same thing; other names may be, which is not a matter of words.
    return Decision(True, quote) if all(_normalise(wanted) == name for wanted, name in pairs) else None


def _decide_sight(thing: str, observation: Observation, view: str) -> Decision | None:
    # A description of the room lists the thing under exactly this name, as in "a metal pot (containing nothing)".
    described = [text for text in (observation.text, view) if text.startswith(_DESCRIPTION)]
    lines = "\n".join([*described, str(observation.data.get("look", ""))]).splitlines()
    return next((Decision(True, " ".join(line.split())) for line in lines if _lists(line, thing)), None)


def _find_carried(thing: str, view: str) -> Decision | None:
    # The inventory lists the thing itself, not only something that contains it.
    _, _, inventory = view.partition(_INVENTORY)
    carried = (line.strip() for line in inventory.splitlines()[1:])
    return next(
        (Decision(True, f"{_INVENTORY} {line}") for line in carried if _lists(line, thing, at_start=True)), None
    )


def _lists(line: str, thing: str, *, at_start: bool = False) -> bool:
    listed = re.compile(rf"(?:an?|a substance called) {re.escape(_normalise(thing))}(?= \(|[.,)]|$)", re.IGNORECASE)
    return bool(listed.match(line) if at_start else listed.search(line))


def _normalise(name: str) -> str:
    return " ".join(name.lower().split())
