"""The wordings of conditions that Propose is asked to prefer, and what ScienceWorld's own words settle about them.

A condition in any other words is the model's to judge; nothing here is needed for a plan to be carried out.
"""

import re
from typing import Literal, NamedTuple

from certigraph.adapters.matching import tokens
from certigraph.state.records import Observation

Kind = Literal["be", "found", "focus", "have", "made", "placed"]

_FORMS: tuple[tuple[Kind, str], ...] = (
    ("be", r"the agent is (?:in|at) (?:the )?(?P<place>.+?)"),
    ("found", r"the location of (?:the |an? )?(?P<thing>.+?) is known"),
    ("focus", r"(?:the |an? )?(?P<thing>.+?) is in focus"),
    ("have", r"the inventory contains (?:the |an? )?(?P<thing>.+?)"),
    ("made", r"(?:the |an? )?(?P<thing>.+?) has been made"),
    ("placed", r"(?:the |an? )?(?P<thing>.+?) is (?:in|on) (?:the |an? )?(?P<place>.+?)"),
)
_READ = tuple((kind, re.compile(f"{form}\\.?", re.IGNORECASE)) for kind, form in _FORMS)

_FOCUSED = re.compile(r"You focus on the (.+)\.")
_MOVED = re.compile(r"You move the (?P<thing>.+) to the (?P<place>.+?)\.")

LONGEST = 1_000
"""Characters of a condition in one of the wordings; to look for them takes time with the square of a text's length."""

ANYTHING = tokens("thing object substance item living non-living animal plant")
"""Words that name a kind and no thing in particular: what is of the kind, the world's names do not tell."""


class Condition(NamedTuple):
    """A condition in one of the known wordings."""

    kind: Kind
    thing: str
    place: str


def read(text: str) -> Condition | None:
    """The condition that a text states; None where the wording is not a known one."""
    for kind, form in _READ if len(text) <= LONGEST else ():
        if found := form.fullmatch(text.strip()):
            parts = found.groupdict()
            return Condition(kind, parts.get("thing") or "", parts.get("place") or "")
    return None


def settled(text: str, seen: Observation) -> bool | None:
    """Whether the world's answer shows that a condition holds; None where a model has to judge."""
    condition = read(text)
    if condition is None:
        return None
    if condition.kind == "be":
        return names(condition.place, str(seen.data.get("room", "")))
    if condition.kind == "found":
        return bool(seen.data.get("new_room")) if vague(condition.thing) else _seen(condition.thing, seen)
    if condition.kind == "made":
        return _seen(condition.thing, seen)
    if condition.kind == "focus":
        return bool(_FOCUSED.match(seen.text))
    return _moved(condition, seen)


def _moved(condition: Condition, seen: Observation) -> bool | None:
    moved = _MOVED.match(seen.text)
    if moved is None:
        return False if seen.data.get("result") == "failed" else None
    place = "inventory" if condition.kind == "have" else condition.place
    alike = _alike(condition.thing, moved["thing"]), _alike(place, moved["place"])
    return all(alike) if None not in alike else False if False in alike else None


def _alike(wanted: str, found: str) -> bool | None:
    """Whether two descriptions mean the same; None where they share words and differ in others, as two boxes do."""
    there = tokens(found)
    if vague(wanted) or any(tokens(one) <= there or there <= tokens(one) for one in wanted.split(" or ")):
        return True
    return None if names(wanted, found) else False


def names(wanted: str, found: str) -> bool:
    """Whether what was found may be what was wanted: they share a word, or no thing in particular was wanted."""
    return vague(wanted) or bool((tokens(wanted) - ANYTHING) & tokens(found))


def vague(thing: str) -> bool:
    """Whether a description names a kind only, so that nothing in the world's words can tell it."""
    return tokens(thing) <= ANYTHING


def _seen(thing: str, seen: Observation) -> bool:
    return tokens(thing) <= tokens(f"{seen.text} {seen.data.get('look', '')}")
