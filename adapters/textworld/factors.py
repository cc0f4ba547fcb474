"""TextWorld's factored states, extracted from its texts by rules, with the steps of its quests as milestones.

`TextWorldFactors` is written by hand for TextWorld's grammar of sentences; in the StateFactory paper a language model
extracts the states.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from certigraph.state.rewards import FactoredState, as_mapping, factored

# Steps of a quest: the instructions in its objective, or for cooking those in the cookbook.

PLACED = r"(?: (?:in|within|inside) the [\w -]+)?"
"""Pattern of the room, which is no part of a name."""

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

# Beginnings of clauses that repeat another instruction.
SUBORDINATE = ("after ", "having ", "once ", "if ", "with ", "that ")

IT = re.compile(r"(?<!to )\b(put|place|insert|drop|eat|take|open|unlock|close|lock) it\b")

LONGEST = 300
"""Maximum number of characters of an instruction. TextWorld's have about a hundred; matching takes cubic time."""

INSTRUCTION = re.compile(r"(?P<how>slice|dice|chop|fry|roast|grill) the (?P<thing>.+)")


class Wish(NamedTuple):
    """Step of a quest: what to do, with which thing, and with which other thing."""

    kind: str
    thing: str
    other: str = ""


@lru_cache(maxsize=1_024)
def wishes_in(objective: str) -> tuple[Wish, ...]:
    """Parse the steps of an objective in order; `it` refers to the previous thing. Empty if there are none."""
    steps: list[Wish] = []
    for piece in PIECES.split(" ".join(objective.split())):
        step = _wish(piece.strip().lower().rstrip("."), steps[-1].thing if steps else "")
        if step and (step.kind == "go" or step not in steps):
            steps.append(step)
    return tuple(steps)


def asks_to_cook(objective: str) -> bool:
    """Tell whether the steps of a quest are in a cookbook."""
    return "cookbook" in objective.lower()


def recipe_wishes(recipe: str) -> tuple[Wish, ...]:
    """Parse the steps of a recipe: every ingredient, the work on it, and the meal.

    Args:
        recipe: Text of the cookbook: "Ingredients:" and "Directions:", each followed by its lines.
    """
    listed, _, directions = recipe.partition("Directions:")
    ingredients = [line.strip().lower() for line in listed.partition("Ingredients:")[2].splitlines() if line.strip()]
    work = [Wish(m["how"], m["thing"].strip().lower()) for m in INSTRUCTION.finditer(directions)]
    return tuple(_dish(ingredients, work))


def _dish(ingredients: list[str], work: list[Wish]) -> Iterator[Wish]:
    yield Wish("read", "cookbook")
    for thing in ingredients:
        yield Wish("take", thing)
        yield from (wish for wish in work if wish.thing == thing)
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


# Facts from texts: where each thing is, whether it is open, and what was done to it.

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
"""Verbs of recipes, and the state of a thing after them."""

ROOM = re.compile(r"-= (.+?) =-")
CARRYING = re.compile(r"you are carrying:? (.+?)\.?(?:\n\n|$)", re.S)
PREPARED = re.compile(rf"\b({'|'.join([*DONE_TO.values(), 'burned', 'raw'])}) ")
PARTS = re.compile(r", | and ")
ARTICLE = re.compile(r"^(?:an?|the|some) ")


def observed(belief: Belief, action: str, text: str) -> Belief:
    """Return the belief after an action and its observation; the given belief is not changed."""
    known = {thing: dict(attributes) for thing, attributes in belief.items()}
    lower_text = text.lower()
    _walked(known, action.lower(), lower_text)
    for pattern, note in SENTENCES:
        for match in pattern.finditer(lower_text):
            note(known, *match.groups())
    if "ingredients:" in lower_text and "directions:" in lower_text:
        known[RECIPE] = {"text": text[lower_text.index("ingredients:") :].partition("\n\n-=")[0].strip()}
    if carried := CARRYING.search(lower_text):
        _listed(known, carried[1], HANDS)
    return known


def route(belief: Belief) -> tuple[int, int]:
    """Return the position of the agent, in rooms east and north of the start."""
    east, north = belief.get(YOU, {}).get("route", "0 east, 0 north").split(", ")
    return int(east.split()[0]), int(north.split()[0])


def _walked(known: Belief, action: str, text: str) -> None:
    header = ROOM.match(text.strip())
    if not header:
        return
    way = action.removeprefix("go ").strip()
    steps = MOVES.get(way) or next((step for name, step in MOVES.items() if name[0] == way), (0, 0))
    east, north = route(known)
    known[YOU] = {"room": header[1], "route": f"{east + steps[0]} east, {north + steps[1]} north"}


def _put(place: str) -> Callable[..., None]:
    # Rule that sets the location of a thing; the place may name another thing.

    def note(known: Belief, thing: str, *other: str) -> None:
        _of(known, thing)["location"] = place.format(*map(_name, other))

    return note


def _set(attribute: str, value: str) -> Callable[..., None]:
    def note(known: Belief, thing: str, *inside: str | None) -> None:
        _of(known, thing)[attribute] = value
        if value == OPEN:
            _of(known, thing)["lock"] = UNLOCKED
        for things in filter(None, inside):
            _listed(known, things, f"in the {_name(thing)}")

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
    # Adds the things of a list such as `a raw chicken leg, a knife and some milk`.
    if things.startswith("nothing"):
        return
    for text in PARTS.split(things):
        attributes = _of(known, PREPARED.sub("", f"{text} "))
        attributes["location"] = place
        attributes |= {_work(how): how for how in PREPARED.findall(f"{text} ")}
        attributes.setdefault("cut", "whole")


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


# The extractor: things, and the steps of the quest with their status.

UNKNOWN_DISH = (
    Wish("read", "cookbook"),
    Wish("take", "ingredient"),
    Wish("cook", "ingredient"),
    Wish("prepare", MEAL),
    Wish("eat", MEAL),
)
"""Steps of a recipe that is not read yet."""

STATUS = "status"
"""Attribute of a step: whether it is done."""


class TextWorldFactors:
    """Extractor of factored states. A text mentions few things, so the facts of all texts so far are kept.

    The instructions of the objective, or of the recipe, are milestones: each is an entity of the goal state with a
    status, and counts as done also if a later one is. A goal without known instructions gives an empty state.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return the known things, and the steps of the quest with their status."""
        before = {name: attributes for name, attributes in as_mapping(state).items() if STATUS not in attributes}
        known = observed(before, action, observation)
        steps = _wishes(goal, known)
        reached = _reached(steps, known)
        statuses = {_factor_name(steps, n): {STATUS: _told(step, n < reached)} for n, step in enumerate(steps)}
        return factored({**known, **statuses})

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return all steps of the quest as done; for a dish, those known from its recipe."""
        steps = _wishes(goal, as_mapping(state))
        return factored({_factor_name(steps, n): {STATUS: _told(step, True)} for n, step in enumerate(steps)})


def _wishes(goal: str, known: Belief) -> tuple[Wish, ...]:
    if not asks_to_cook(goal):
        return wishes_in(goal)
    recipe = known.get(RECIPE, {}).get("text", "")
    return tuple(w for w in recipe_wishes(recipe) if _open(w, known)) if recipe else UNKNOWN_DISH


def _open(step: Wish, known: Belief) -> bool:
    # Whether a direction of a recipe is necessary: an ingredient that was found cut needs no knife.
    return step.kind not in ("slice", "dice", "chop") or "cut" in known.get(step.thing, {})


def _reached(steps: Sequence[Wish], known: Belief) -> int:
    # Number of steps done: all up to the last one that holds now.
    return max((n for n, _ in enumerate(steps, 1) if _holds(steps[:n], known)), default=0)


def _holds(steps: Sequence[Wish], known: Belief) -> bool:
    # Whether the last of these steps holds.
    step = steps[-1]
    attributes = known.get(step.thing, {})
    match step.kind:
        case "go":
            return route(known) == _destination(steps) and _arrived(steps, known)
        case "read":
            return RECIPE in known
        case "open" | "close":
            return attributes.get("openness") == {"open": OPEN, "close": CLOSED}[step.kind]
        case "unlock" | "lock":
            return attributes.get("lock") == {"unlock": UNLOCKED, "lock": LOCKED}[step.kind]
        case kind if kind in DONE_TO:
            return DONE_TO[kind] in attributes.values()
        case _:
            return attributes.get("location") == _place(step)


def _arrived(wishes: Sequence[Wish], known: Belief) -> bool:
    # Whether being at the destination shows that the agent arrived by this route. If the route passes the place more
    # than once, the steps on the way must be done too.
    passed = {_destination(wishes[:n]) for n in range(len(wishes))}
    errands = (wishes[:n] for n, wish in enumerate(wishes, 1) if wish.kind != "go")
    return _destination(wishes) not in passed or all(_holds(errand, known) for errand in errands)


def _destination(wishes: Sequence[Wish]) -> tuple[int, int]:
    steps = [MOVES[wish.thing] for wish in wishes if wish.kind == "go"]
    return sum(east for east, _ in steps), sum(north for _, north in steps)


def _place(step: Wish) -> str:
    # The place where a step requires its thing.
    places = {"take": HANDS, "prepare": HANDS, "drop": FLOOR, "eat": EATEN}
    return places.get(step.kind) or f"{'on' if step.kind == 'put' else 'in'} the {step.other}"


def _factor_name(steps: Sequence[Wish], place: int) -> str:
    step = steps[place]
    nth = sum(other == step for other in steps[:place])
    return f"{step.kind} {step.thing}" + (f" ({nth + 1})" if nth else "")


def _told(step: Wish, reached: bool) -> str:
    return f"{step.thing}: {step.kind} done" if reached else f"{step.thing}: not yet"
