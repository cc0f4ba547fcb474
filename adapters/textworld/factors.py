"""TextWorld's text as factored states."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from certigraph.state.rewards import FactoredState, as_mapping, factored

# What TextWorld's objectives ask for: each instruction of their prose as a wish; cooking's come from the cookbook.

PLACED = r"(?: (?:in|within|inside) the [\w -]+)?"
"""In which room; no part of a name."""

ENSURED = r"(?:ensure|assure|sure|so|doublecheck|see|check) (?:that )?the"

COMPASS = r"(?P<thing>north|south|east|west)"

PATTERNS: tuple[tuple[str, str], ...] = (
    ("unlock", rf"insert the (?P<other>.+?) into the (?P<thing>.+?){PLACED}'s lock to unlock it"),
    ("unlock", rf"unlock the (?P<thing>.+?){PLACED}(?: (?:with|using) the (?P<other>.+))?"),
    ("unlock", rf"{ENSURED} (?P<thing>.+?){PLACED} is unlocked(?: with the (?P<other>.+))?"),
    ("lock", rf"\block the (?P<thing>.+?){PLACED}(?: with the (?P<other>.+))?"),
    ("lock", rf"{ENSURED} (?P<thing>.+?){PLACED} is locked(?: with the (?P<other>.+))?"),
    ("open", rf"open the (?P<thing>.+?){PLACED}"),
    ("open", rf"{ENSURED} (?P<thing>.+?){PLACED} is (?:opened|open|wide open|ajar)"),
    ("close", rf"close the (?P<thing>.+?){PLACED}"),
    ("close", rf"{ENSURED} (?P<thing>.+?){PLACED} is (?:closed|shut)"),
    ("drop", r"(?:place|drop|ditch|throw|toss|deposit|put) the (?P<thing>.+?) on the (?:floor|ground).*"),
    ("put", rf"(?:put|place|sit|rest) the (?P<thing>.+?) on the (?P<other>.+?){PLACED}"),
    ("insert", rf"(?:insert|put|place|deposit) the (?P<thing>.+?) (?:into|inside|in) the (?P<other>.+?){PLACED}"),
    (
        "take",
        r"(?:take|retrieve|recover|pick[ -]up|lift) the (?P<thing>.+?)"
        rf"(?: (?:from|in|that's in) the (?P<other>.+?){PLACED})?",
    ),
    ("eat", r"eat the (?P<thing>.+?)"),
    ("go", rf"(?:go|head|venture|travel|move|trip)(?: to the)? {COMPASS}"),
    ("go", rf"through the {COMPASS} .+"),
)

WISHES = [(kind, re.compile(rf"(?:.*\b)?{pattern}")) for kind, pattern in PATTERNS]

PIECES = re.compile(r"[.!?,]\s+|[.!?,]$|\s+and (?=(?:place|put|insert|drop|eat|take|open|unlock|close|lock|use)\b)")

SUBORDINATE = ("after ", "having ", "once ", "if ", "with ", "that ")

IT = re.compile(r"(?<!to )\b(put|place|insert|drop|eat|take|open|unlock|close|lock) it\b")

LONGEST = 300
"""Characters of an instruction; TextWorld's have a hundred, and looking through one takes time with their cube."""

INSTRUCTION = re.compile(r"(?P<how>slice|dice|chop|fry|roast|grill) the (?P<thing>.+)")


class Wish(NamedTuple):
    """One thing that the objective asks for: what to do, with what, and with which other thing."""

    kind: str
    thing: str
    other: str = ""


@lru_cache(maxsize=1_024)
def wishes_in(objective: str) -> tuple[Wish, ...]:
    """The wishes of a quest in their order; `it` stands for the thing before. Empty for what says none."""
    found: list[Wish] = []
    for piece in PIECES.split(" ".join(objective.split())):
        wish = _wish(piece.strip().lower().rstrip("."), found[-1].thing if found else "")
        if wish and (wish.kind == "go" or wish not in found):
            found.append(wish)
    return tuple(found)


def asks_to_cook(objective: str) -> bool:
    """Whether the wishes are in a cookbook."""
    return "cookbook" in objective.lower()


def recipe_wishes(recipe: str) -> tuple[Wish, ...]:
    """What a recipe asks for: every ingredient, each thing done to it, the meal.

    Args:
        recipe: as the cookbook has it: "Ingredients:", then a line each, "Directions:", then a line each.
    """
    listed, _, directions = recipe.partition("Directions:")
    ingredients = [line.strip().lower() for line in listed.partition("Ingredients:")[2].splitlines() if line.strip()]
    done = [Wish(m["how"], m["thing"].strip().lower()) for m in INSTRUCTION.finditer(directions)]
    return tuple(_dish(ingredients, done))


def _dish(ingredients: list[str], done: list[Wish]) -> Iterator[Wish]:
    yield Wish("read", "cookbook")
    for thing in ingredients:
        yield Wish("take", thing)
        yield from (wish for wish in done if wish.thing == thing)
    yield from (Wish("prepare", "meal"), Wish("eat", "meal"))


def _wish(piece: str, before: str) -> Wish | None:
    if piece.startswith(SUBORDINATE) or len(piece) > LONGEST:
        return None
    text = IT.sub(rf"\1 the {before}", piece) if before else piece
    for kind, pattern in WISHES:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            return Wish(kind, parts["thing"], parts.get("other") or "")
    return None


# What TextWorld's texts tell of things: where each is, open or shut, and what was done to it.

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


# TextWorld's text as factored states: things, and what the objective asks for as states of them.

UNKNOWN_DISH = (
    Wish("read", "cookbook"),
    Wish("take", "ingredient"),
    Wish("cook", "ingredient"),
    Wish("prepare", MEAL),
    Wish("eat", MEAL),
)
"""What any recipe will ask for, before it is read."""

STATUS = "status"
"""Attribute of what is asked for: whether it has come about."""


class TextWorldFactors:
    """Keeps what was read of each thing, for a text tells of few; and how far what is asked for has come about.

    Written by hand for TextWorld's grammar of sentences; the paper has a language model extract. The objective's own
    instructions, or the recipe's, are its milestones: each is a thing of the goal state with a status, and counts as
    come about also where something that is asked for after it has. A goal that asks for nothing it knows is empty.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The things known, and what is asked for with its status."""
        before = {name: has for name, has in as_mapping(state).items() if STATUS not in has}
        known = observed(before, action, observation)
        wishes = _wishes(goal, known)
        reached = _reached(wishes, known)
        asked = {_factor_name(wishes, n): {STATUS: _told(wish, n < reached)} for n, wish in enumerate(wishes)}
        return factored({**known, **asked})

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """What is asked for, come about; of a dish, what is known of its recipe."""
        wishes = _wishes(goal, as_mapping(state))
        return factored({_factor_name(wishes, n): {STATUS: _told(wish, True)} for n, wish in enumerate(wishes)})


def _wishes(goal: str, known: Belief) -> tuple[Wish, ...]:
    if not asks_to_cook(goal):
        return wishes_in(goal)
    recipe = known.get(RECIPE, {}).get("text", "")
    return tuple(w for w in recipe_wishes(recipe) if _open(w, known)) if recipe else UNKNOWN_DISH


def _open(wish: Wish, known: Belief) -> bool:
    """Whether a recipe's direction asks for anything: what came cut needs no knife."""
    return wish.kind not in ("slice", "dice", "chop") or "cut" in known.get(wish.thing, {})


def _reached(wishes: Sequence[Wish], known: Belief) -> int:
    """How many wishes have come about: up to the last one that holds now."""
    return max((n for n, _ in enumerate(wishes, 1) if _holds(wishes[:n], known)), default=0)


def _holds(wishes: Sequence[Wish], known: Belief) -> bool:
    """Whether the last of these wishes holds."""
    wish = wishes[-1]
    has = known.get(wish.thing, {})
    match wish.kind:
        case "go":
            return route(known) == _destination(wishes) and _arrived(wishes, known)
        case "read":
            return RECIPE in known
        case "open" | "close":
            return has.get("openness") == {"open": OPEN, "close": CLOSED}[wish.kind]
        case "unlock" | "lock":
            return has.get("lock") == {"unlock": UNLOCKED, "lock": LOCKED}[wish.kind]
        case kind if kind in DONE_TO:
            return DONE_TO[kind] in has.values()
        case _:
            return has.get("location") == _place(wish)


def _arrived(wishes: Sequence[Wish], known: Belief) -> bool:
    """Whether being there says that one came this way: not where the way leads back, and its errands are not done."""
    passed = {_destination(wishes[:n]) for n in range(len(wishes))}
    errands = (wishes[:n] for n, wish in enumerate(wishes, 1) if wish.kind != "go")
    return _destination(wishes) not in passed or all(_holds(errand, known) for errand in errands)


def _destination(wishes: Sequence[Wish]) -> tuple[int, int]:
    steps = [MOVES[wish.thing] for wish in wishes if wish.kind == "go"]
    return sum(east for east, _ in steps), sum(north for _, north in steps)


def _place(wish: Wish) -> str:
    """Where a wish wants its thing."""
    places = {"take": HANDS, "prepare": HANDS, "drop": FLOOR, "eat": EATEN}
    return places.get(wish.kind) or f"{'on' if wish.kind == 'put' else 'in'} the {wish.other}"


def _factor_name(wishes: Sequence[Wish], place: int) -> str:
    wish = wishes[place]
    nth = sum(other == wish for other in wishes[:place])
    return f"{wish.kind} {wish.thing}" + (f" ({nth + 1})" if nth else "")


def _told(wish: Wish, reached: bool) -> str:
    return f"{wish.thing}: {wish.kind} done" if reached else f"{wish.thing}: not yet"
