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

ConditionKind = Literal["be", "found", "focus", "have", "made", "off", "on", "placed"]

_WORDINGS: tuple[tuple[ConditionKind, str], ...] = (
    ("be", r"the agent is (?:in|at) (?:the )?(?P<place>.+?)"),
    ("found", r"the location of (?:the |an? )?(?P<thing>.+?) is known"),
    ("focus", r"(?:the |an? )?(?P<thing>.+?) is in focus"),
    ("have", r"the inventory contains (?:the |an? )?(?P<thing>.+?)"),
    ("made", r"(?:the |an? )?(?P<thing>.+?) has been made"),
    ("on", r"(?:the )?(?P<thing>.+?) is (?:turned on|switched on|activated|on)"),
    ("off", r"(?:the )?(?P<thing>.+?) is (?:turned off|switched off|deactivated|off)"),
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
_CONTENTS = re.compile(r" ?\([^()]*\)")
"""Pattern of what a listed thing contains in turn."""
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
    if condition is None or condition.kind == "made":
        return None
    match condition.kind:
        case "be":
            return _decide_room(condition, observation)
        case "found":
            return _decide_sight(condition, observation, view)
        case "focus":
            return _decide_focus(condition, observation)
        case "have" | "placed":
            return _decide_place(condition, observation, view)
        case "on" | "off":
            return _decide_switch(condition, view)


def _decide_room(condition: WordedCondition, observation: Observation) -> Decision | None:
    # The world itself reports the room, so that being elsewhere is decided too.
    place, room = _normalise(condition.place), str(observation.data.get("room", ""))
    if place not in ROOMS or room not in ROOMS:
        return None
    return Decision(place == room, f"the agent is in the {room}")


def _decide_focus(condition: WordedCondition, observation: Observation) -> Decision | None:
    focused = _FOCUSED.fullmatch(observation.text.strip())
    return _hold_if_same([(condition.thing, focused["thing"])], focused[0]) if focused else None


def _decide_place(condition: WordedCondition, observation: Observation, view: str) -> Decision | None:
    place = "inventory" if condition.kind == "have" else condition.place
    moved = _MOVED.fullmatch(observation.text.strip())
    pairs = [(condition.thing, moved["thing"]), (place, moved["place"])] if moved else []
    by_reply = _hold_if_same(pairs, moved[0]) if moved else None
    by_view = _find_carried if condition.kind == "have" else _find_placed
    return by_reply or by_view(condition, view)


def _hold_if_same(pairs: list[tuple[str, str]], quote: str) -> Decision | None:
    # Equal names are the same thing; other names may be, which is not a matter of words.
    return Decision(True, quote) if all(_normalise(wanted) == name for wanted, name in pairs) else None


def _decide_sight(condition: WordedCondition, observation: Observation, view: str) -> Decision | None:
    # A description of the room lists the thing under exactly this name, as in "a metal pot (containing nothing)".
    described = [text for text in (observation.text, view) if text.startswith(_DESCRIPTION)]
    lines = "\n".join([*described, str(observation.data.get("look", ""))]).splitlines()
    return next((Decision(True, " ".join(line.split())) for line in lines if _lists(line, condition.thing)), None)


def _find_carried(condition: WordedCondition, view: str) -> Decision | None:
    # The inventory lists the thing itself, not only something that contains it.
    carried = (line.strip() for line in view.partition(_INVENTORY)[2].splitlines()[1:])
    listed = (line for line in carried if _lists(line, condition.thing, at_start=True))
    return next((Decision(True, f"{_INVENTORY} {line}") for line in listed), None)


def _find_placed(condition: WordedCondition, view: str) -> Decision | None:
    # "In the sink is: a metal pot (containing a substance called water).": the pot is in the sink, water in the pot.
    place = re.escape(_normalise(condition.place))
    listing = re.compile(rf"\b(?:in|on) the {place} is: (?P<things>.+)", re.IGNORECASE)
    contents = re.compile(rf"\ban? {place} \(containing (?P<things>[^()]+)\)", re.IGNORECASE)
    for line in view.splitlines() if view.startswith(_DESCRIPTION) else ():
        listed = [_drop_contents(found["things"]) for found in listing.finditer(line)]
        listed += [found["things"] for found in contents.finditer(line)]
        if any(_lists(things, condition.thing) for things in listed):
            return Decision(True, " ".join(line.split()))
    return None


def _drop_contents(things: str) -> str:
    while (outer := _CONTENTS.sub("", things)) != things:
        things = outer
    return things


def _decide_switch(condition: WordedCondition, view: str) -> Decision | None:
    # The view says of each device whether it is on; of several with one name it is not clear which is meant.
    name = re.escape(_normalise(condition.thing))
    states = re.findall(
        rf"\b(an? {name}, which is (turned on|activated|turned off|deactivated))\b", view, re.IGNORECASE
    )
    if len(states) != 1:
        return None
    words, state = states[0]
    return Decision((state in ("turned on", "activated")) == (condition.kind == "on"), words)


def _lists(text: str, thing: str, *, at_start: bool = False) -> bool:
    # A name without an article, as "unknown substance B", is listed on a line of its own.
    name, end = re.escape(_normalise(thing)), r"(?= \(|[.,)]|$)"
    at_line_start = re.compile(rf"\s*(?:an? |a substance called )?{name}{end}", re.IGNORECASE)
    within = re.compile(rf"\b(?:an?|a substance called) {name}{end}", re.IGNORECASE)
    return bool(at_line_start.match(text) or (not at_start and within.search(text)))


def _normalise(name: str) -> str:
    return " ".join(name.lower().split())
