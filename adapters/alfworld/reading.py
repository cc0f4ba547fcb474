"""What ALFWorld's replies tell of the world, in the wordings of both its releases ("put X in/on Y", "move X to Y")."""

import re
from collections.abc import Callable

Told = dict[str, dict[str, str]]
"""Attributes by thing, which a reply changes in place."""

AGENT, HAND = "agent", "in hand"

NAME = r"([a-z]+ \d+)"

TREATED = {"heat": "hot", "clean": "clean", "cool": "cool"}


def reading(told: Told, action: str, observation: str) -> None:
    """Note what a reply tells."""
    gone = re.match(rf"go to {NAME}", action)
    if gone and "You arrive at" in observation:
        told.setdefault(AGENT, {})["location"] = gone[1]
    for pattern, note in _PATTERNS:
        for found in pattern.finditer(observation):
            note(told, found)


def things_in(text: str) -> list[str]:
    """The things that a list such as "a egg 2, and a spoon 1" names."""
    return re.findall(NAME, text)


def kind(name: str) -> str:
    """What a thing or place is: the apple of apple 2."""
    return name.partition(" ")[0]


def _seen(told: Told, found: re.Match[str]) -> None:
    place, listed = found[1] or found[2], found[3]
    for name, has in told.items():
        if has.get("location") == place and name != AGENT:
            has["location"] = "unknown"
    for name in things_in(listed):
        told.setdefault(name, {})["location"] = place


def _moved(told: Told, found: re.Match[str]) -> None:
    told.setdefault(found[1], {})["location"] = found[2]
    told.setdefault(AGENT, {})["holding"] = "nothing"


def _taken(told: Told, found: re.Match[str]) -> None:
    told.setdefault(found[1], {})["location"] = HAND
    told.setdefault(AGENT, {})["holding"] = found[1]


def _treated(told: Told, found: re.Match[str]) -> None:
    has = told.setdefault(found[2], {})
    if found[1] == "clean":
        has["cleanliness"] = TREATED["clean"]
    else:
        has["temperature"] = TREATED[found[1]]


def _door(value: str) -> Callable[[Told, re.Match[str]], None]:
    def noted(told: Told, found: re.Match[str]) -> None:
        told.setdefault(next(filter(None, found.groups())), {})["door"] = value

    return noted


def _switched(told: Told, found: re.Match[str]) -> None:
    told.setdefault(found[2], {})["light"] = found[1]


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[Told, re.Match[str]], None]], ...] = (
    (re.compile(rf"[Tt]he {NAME} is closed\.|You close the {NAME}\."), _door("shut")),
    (re.compile(rf"[Tt]he {NAME} is open\."), _door("open")),
    (re.compile(rf"(?:On the {NAME}|The {NAME} is open\. In it), you see ([^.]*)\."), _seen),
    (re.compile(rf"You pick up the {NAME}"), _taken),
    (re.compile(rf"You (?:put|move) the {NAME} (?:in/on|to) the {NAME}"), _moved),
    (re.compile(rf"You (heat|clean|cool) the {NAME} using"), _treated),
    (re.compile(rf"You turn (on|off) the {NAME}"), _switched),
)
