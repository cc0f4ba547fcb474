"""ALFWorld's six kinds of goals, read from their templates."""

import re
from typing import NamedTuple

PLACES = {"heat": "microwave", "clean": "sinkbasin", "cool": "fridge"}
"""Where a thing is treated."""

OPENING = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""The kinds of places that have a door."""

_TREATED = {"hot": "heat", "clean": "clean", "cool": "cool", "cold": "cool"}

_FORMS = tuple(
    re.compile(form.replace("THING", "(?P<thing>[a-z]+)").replace("IN_PLACE", "(?:in/on|in|on) (?P<place>[a-z]+)"))
    for form in (
        "(?:examine|look at) (?:the |an? )?THING (?:with|under) (?:the |an? )?(?P<lamp>[a-z]+)",
        "(?:put|find) (?P<two>two) THING (?:and put them )?IN_PLACE",
        "(?P<verb>heat|clean|cool) (?:some|an?) THING and put it IN_PLACE",
        "put (?:some|an?) (?:(?P<quality>hot|clean|cool|cold) )?THING IN_PLACE",
    )
)


class Goal(NamedTuple):
    """What is wanted: things of a kind, treated if a treatment is named, in a kind of place or by a kind of lamp."""

    thing: str
    number: int = 1
    treatment: str = ""
    """heat, clean, cool, or none."""
    place: str = ""
    lamp: str = ""


def read_goal(text: str) -> Goal | None:
    """The goal that a text states; None where it is none of ALFWorld's templates."""
    found = next((match for form in _FORMS if (match := form.search(text.lower()))), None)
    if found is None:
        return None
    parts = found.groupdict(default="")
    treatment = parts.get("verb") or _TREATED.get(parts.get("quality", ""), "")
    return Goal(
        thing=parts["thing"],
        number=2 if parts.get("two") else 1,
        treatment=treatment,
        place=parts.get("place", ""),
        lamp=parts.get("lamp", ""),
    )
