"""What TextWorld's texts tell of things: where each is, open or shut, and what was done to it."""

import re
from collections.abc import Callable, Iterable

Belief = dict[str, dict[str, str]]
"""Thing -> attribute -> value."""

YOU, RECIPE, MEAL = "you", "recipe", "meal"
HANDS, FLOOR, EATEN = "in your hands", "on the floor", "eaten up"
OPEN, CLOSED, LOCKED, UNLOCKED = "wide open", "closed", "locked", "unlocked"

MOVES = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}

DONE_TO = {
    "slice": "sliced",
    "dice": "diced",
    "chop": "chopped",
    "fry": "fried",
    "roast": "roasted",
    "grill": "grilled",
}
"""Verbs of recipes and what a thing is after them."""

ROOM = re.compile(r"-= (.+?) =-")
CARRYING = re.compile(r"you are carrying:? (.+?)\.?(?:\n\n|$)", re.S)
PREPARED = re.compile(rf"\b({'|'.join([*DONE_TO.values(), 'burned', 'raw'])}) ")
PARTS = re.compile(r", | and ")
ARTICLE = re.compile(r"^(?:an?|the|some) ")


def observed(belief: Belief, action: str, text: str) -> Belief:
    """The belief after an action and what the world answered; the belief given is left as it is."""
    known = {thing: dict(has) for thing, has in belief.items()}
    said = text.lower()
    _walked(known, action.lower(), said)
    for pattern, note in SENTENCES:
        for match in pattern.finditer(said):
            note(known, *match.groups())
    if "ingredients:" in said and "directions:" in said:
        known[RECIPE] = {"text": text[said.index("ingredients:") :].partition("\n\n-=")[0].strip()}
    if found := CARRYING.search(said):
        _listed(known, found[1], HANDS)
    return known


def route(belief: Belief) -> tuple[int, int]:
    """Where you are, in rooms east and north of where you began."""
    east, north = belief.get(YOU, {}).get("route", "0 east, 0 north").split(", ")
    return int(east.split()[0]), int(north.split()[0])


def _walked(known: Belief, action: str, said: str) -> None:
    header = ROOM.match(said.strip())
    if not header:
        return
    way = action.removeprefix("go ").strip()
    steps = MOVES.get(way) or next((step for name, step in MOVES.items() if name[0] == way), (0, 0))
    east, north = route(known)
    known[YOU] = {"room": header[1], "route": f"{east + steps[0]} east, {north + steps[1]} north"}


def _put(place: str) -> Callable[..., None]:
    """A note that a thing is somewhere; the place may name another thing."""

    def note(known: Belief, thing: str, *other: str) -> None:
        _of(known, thing)["location"] = place.format(*map(_name, other))

    return note


def _set(attribute: str, value: str) -> Callable[..., None]:
    def note(known: Belief, thing: str, *inside: str | None) -> None:
        _of(known, thing)[attribute] = value
        if value == OPEN:
            _of(known, thing)["lock"] = UNLOCKED
        for found in filter(None, inside):
            _listed(known, found, f"in the {_name(thing)}")

    return note


def _contains(place: str) -> Callable[..., None]:
    def note(known: Belief, holder: str, things: str) -> None:
        _listed(known, things, f"{place} the {_name(holder)}")

    return note


def _done(known: Belief, how: str, thing: str) -> None:
    _of(known, thing)[_work(DONE_TO.get(how, how))] = DONE_TO.get(how, how)


def _prepared(known: Belief) -> None:
    _of(known, MEAL)["location"] = HANDS


def _listed(known: Belief, things: str, place: str) -> None:
    """Note a list of things: `a raw chicken leg, a knife and some milk`."""
    if things.startswith("nothing"):
        return
    for text in PARTS.split(things):
        has = _of(known, PREPARED.sub("", f"{text} "))
        has["location"] = place
        has |= {_work(how): how for how in PREPARED.findall(f"{text} ")}
        has.setdefault("cut", "whole")


def _work(how: str) -> str:
    return "cut" if how in ("sliced", "diced", "chopped") else "cooked"


def _of(known: Belief, thing: str) -> dict[str, str]:
    return known.setdefault(_name(thing), {})


def _name(text: str) -> str:
    return ARTICLE.sub("", " ".join(text.split())).removesuffix(" (closed)")


THING = r"([\w' -]{1,80}?)"

_SENTENCES: Iterable[tuple[str, Callable[..., None]]] = (
    (rf"you unlock (?:the )?{THING}\.", _set("lock", UNLOCKED)),
    (rf"you lock (?:the )?{THING}\.", _set("lock", LOCKED)),
    (rf"you open (?:the )?{THING}(?:, revealing ([^.]+))?\.", _set("openness", OPEN)),
    (rf"you close (?:the )?{THING}\.", _set("openness", CLOSED)),
    (rf"you (?:can see|see|make out|notice) an? opened {THING}[.,]", _set("openness", OPEN)),
    (rf"\ba closed {THING}(?: here| nearby| close by| right[^.]{{0,80}})?[.,]", _set("openness", CLOSED)),
    (rf"\ba locked {THING}(?: here| nearby| close by| right[^.]{{0,80}})?[.,]", _set("lock", LOCKED)),
    (rf"\bthe {THING} contains ([^.]+)\.", _contains("in")),
    (rf"\bon the {THING} (?:you (?:can )?(?:see|make out)|is|are) ([^.]+)\.", _contains("on")),
    (rf"you (?:take|pick up|move) (?:the )?{THING} (?:from|to the inventory)", _put(HANDS)),
    (rf"you drop (?:the )?{THING} on the", _put(FLOOR)),
    (rf"there is an? {THING} on the floor", _put(FLOOR)),
    (rf"you put (?:the )?{THING} on (?:the )?{THING}\.", _put("on the {0}")),
    (rf"you (?:put|insert) (?:the )?{THING} into (?:the )?{THING}\.", _put("in the {0}")),
    (rf"you eat (?:the )?{THING}\.", _put(EATEN)),
    (rf"you (fried|roasted|grilled|burned) (?:the )?{THING}\.", _done),
    (rf"you (slice|dice|chop) (?:the )?{THING}\.", _done),
    (r"adding the meal to your inventory", _prepared),
)
SENTENCES = [(re.compile(text), note) for text, note in _SENTENCES]
