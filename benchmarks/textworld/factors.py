"""Rules that extract factored states (objects with attributes) from TextWorld's texts.

The steps of a quest are milestones in these states. `TextWorldFactors` is written by hand for TextWorld's grammar of
sentences; in the StateFactory paper a language model extracts the states.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from certigraph.state.rewards import FactoredState, to_factored, to_mapping

# Steps of a quest: the instructions in its objective, or for cooking those in the cookbook.

ROOM_PATTERN = r"(?: (?:in|within|inside) the [\w -]+)?"
"""Pattern of the room that may follow the name of a thing, such as "in the kitchen"; it is not part of the name."""

ENSURE_PATTERN = r"(?:ensure|assure|sure|so|doublecheck|see|check) (?:that )?the"

DIRECTION_PATTERN = r"(?P<thing>north|south|east|west)"

STEP_PATTERNS: tuple[tuple[str, str], ...] = (
    ("unlock", rf"insert the (?P<other>.+?) into the (?P<thing>.+?){ROOM_PATTERN}'s lock to unlock it"),
    ("unlock", rf"unlock the (?P<thing>.+?){ROOM_PATTERN}(?: (?:with|using) the (?P<other>.+))?"),
    ("unlock", rf"{ENSURE_PATTERN} (?P<thing>.+?){ROOM_PATTERN} is unlocked(?: with the (?P<other>.+))?"),
    ("lock", rf"\block the (?P<thing>.+?){ROOM_PATTERN}(?: with the (?P<other>.+))?"),
    ("lock", rf"{ENSURE_PATTERN} (?P<thing>.+?){ROOM_PATTERN} is locked(?: with the (?P<other>.+))?"),
    ("open", rf"open the (?P<thing>.+?){ROOM_PATTERN}"),
    ("open", rf"{ENSURE_PATTERN} (?P<thing>.+?){ROOM_PATTERN} is (?:opened|open|wide open|ajar)"),
    ("close", rf"close the (?P<thing>.+?){ROOM_PATTERN}"),
    ("close", rf"{ENSURE_PATTERN} (?P<thing>.+?){ROOM_PATTERN} is (?:closed|shut)"),
    ("drop", r"(?:place|drop|ditch|throw|toss|deposit|put) the (?P<thing>.+?) on the (?:floor|ground).*"),
    ("put", rf"(?:put|place|sit|rest) the (?P<thing>.+?) on the (?P<other>.+?){ROOM_PATTERN}"),
    ("insert", rf"(?:insert|put|place|deposit) the (?P<thing>.+?) (?:into|inside|in) the (?P<other>.+?){ROOM_PATTERN}"),
    (
        "take",
        r"(?:take|retrieve|recover|pick[ -]up|lift) the (?P<thing>.+?)"
        rf"(?: (?:from|in|that's in) the (?P<other>.+?){ROOM_PATTERN})?",
    ),
    ("eat", r"eat the (?P<thing>.+?)"),
    ("go", rf"(?:go|head|venture|travel|move|trip)(?: to the)? {DIRECTION_PATTERN}"),
    ("go", rf"through the {DIRECTION_PATTERN} .+"),
)

COMPILED_PATTERNS = [(kind, re.compile(rf"(?:.*\b)?{pattern}")) for kind, pattern in STEP_PATTERNS]

PIECE_SEPARATOR = re.compile(
    r"[.!?,]\s+|[.!?,]$|\s+and (?=(?:place|put|insert|drop|eat|take|open|unlock|close|lock|use)\b)"
)

# Beginnings of clauses that repeat another instruction.
SUBORDINATE = ("after ", "having ", "once ", "if ", "with ", "that ")

IT_PATTERN = re.compile(r"(?<!to )\b(put|place|insert|drop|eat|take|open|unlock|close|lock) it\b")

MAX_INSTRUCTION_CHARS = 300
"""Maximum number of characters of an instruction. TextWorld's have about a hundred; matching takes cubic time."""

INSTRUCTION = re.compile(r"(?P<how>slice|dice|chop|fry|roast|grill) the (?P<thing>.+)")


class QuestStep(NamedTuple):
    """Step of a quest: what to do, with which thing, and with which other thing."""

    kind: str
    thing: str
    other: str = ""


@lru_cache(maxsize=1_024)
def parse_objective(objective: str) -> tuple[QuestStep, ...]:
    """Parse the steps of a quest from its objective, in order; "it" refers to the thing of the previous step.

    The result is empty if the objective contains no known instruction.
    """
    steps: list[QuestStep] = []
    for piece in PIECE_SEPARATOR.split(" ".join(objective.split())):
        step = _parse_step(piece.strip().lower().rstrip("."), steps[-1].thing if steps else "")
        if step and (step.kind == "go" or step not in steps):
            steps.append(step)
    return tuple(steps)


def is_cooking(objective: str) -> bool:
    """Return whether an objective is that of a cooking game, whose steps are in a cookbook."""
    return "cookbook" in objective.lower()


def parse_recipe(recipe: str) -> tuple[QuestStep, ...]:
    """Parse the steps of a recipe: take every ingredient, cut or cook it, then prepare and eat the meal.

    Args:
        recipe: Text of the cookbook: "Ingredients:" and "Directions:", each followed by its lines.
    """
    listed, _, directions = recipe.partition("Directions:")
    ingredients = [line.strip().lower() for line in listed.partition("Ingredients:")[2].splitlines() if line.strip()]
    work = [QuestStep(m["how"], m["thing"].strip().lower()) for m in INSTRUCTION.finditer(directions)]
    return tuple(_recipe_steps(ingredients, work))


def _recipe_steps(ingredients: list[str], work: list[QuestStep]) -> Iterator[QuestStep]:
    yield QuestStep("read", "cookbook")
    for thing in ingredients:
        yield QuestStep("take", thing)
        yield from (wish for wish in work if wish.thing == thing)
    yield from (QuestStep("prepare", "meal"), QuestStep("eat", "meal"))


def _parse_step(piece: str, before: str) -> QuestStep | None:
    if piece.startswith(SUBORDINATE) or len(piece) > MAX_INSTRUCTION_CHARS:
        return None
    text = IT_PATTERN.sub(lambda found: f"{found[1]} the {before}", piece) if before else piece
    for kind, pattern in COMPILED_PATTERNS:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            return QuestStep(kind, parts["thing"], parts.get("other") or "")
    return None


# Facts from texts: where each thing is, whether it is open, and what was done to it.

KnownThings = dict[str, dict[str, str]]
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


def update_known(belief: KnownThings, action: str, text: str) -> KnownThings:
    """Return the facts known after an action and its observation `text`; the given `belief` is not changed."""
    known = {thing: dict(attributes) for thing, attributes in belief.items()}
    lower_text = text.lower()
    _note_route(known, action.lower(), lower_text)
    for pattern, note in SENTENCES:
        for match in pattern.finditer(lower_text):
            note(known, *match.groups())
    if "ingredients:" in lower_text and "directions:" in lower_text:
        known[RECIPE] = {"text": text[lower_text.index("ingredients:") :].partition("\n\n-=")[0].strip()}
    if carried := CARRYING.search(lower_text):
        _note_list(known, carried[1], HANDS)
    return known


def route_of(belief: KnownThings) -> tuple[int, int]:
    """Return the position of the agent, in rooms east and north of the start."""
    east, north = belief.get(YOU, {}).get("route", "0 east, 0 north").split(", ")
    return int(east.split()[0]), int(north.split()[0])


def _note_route(known: KnownThings, action: str, text: str) -> None:
    header = ROOM.match(text.strip())
    if not header:
        return
    way = action.removeprefix("go ").strip()
    steps = MOVES.get(way) or next((step for name, step in MOVES.items() if name[0] == way), (0, 0))
    east, north = route_of(known)
    known[YOU] = {"room": header[1], "route": f"{east + steps[0]} east, {north + steps[1]} north"}


def _location_rule(place: str) -> Callable[..., None]:
    # Rule that sets the location of a thing; the place may name another thing.

    def note(known: KnownThings, thing: str, *other: str) -> None:
        _attributes_of(known, thing)["location"] = place.format(*map(_normalise_name, other))

    return note


def _attribute_rule(attribute: str, value: str) -> Callable[..., None]:
    def note(known: KnownThings, thing: str, *inside: str | None) -> None:
        _attributes_of(known, thing)[attribute] = value
        if value == OPEN:
            _attributes_of(known, thing)["lock"] = UNLOCKED
        for things in filter(None, inside):
            _note_list(known, things, f"in the {_normalise_name(thing)}")

    return note


def _contents_rule(place: str) -> Callable[..., None]:
    def note(known: KnownThings, holder: str, things: str) -> None:
        _note_list(known, things, f"{place} the {_normalise_name(holder)}")

    return note


def _note_work(known: KnownThings, how: str, thing: str) -> None:
    _attributes_of(known, thing)[_work_attribute(DONE_TO.get(how, how))] = DONE_TO.get(how, how)


def _note_meal(known: KnownThings) -> None:
    _attributes_of(known, MEAL)["location"] = HANDS


def _note_list(known: KnownThings, things: str, place: str) -> None:
    # Adds the things of a list such as `a raw chicken leg, a knife and some milk`.
    if things.startswith("nothing"):
        return
    for text in PARTS.split(things):
        attributes = _attributes_of(known, PREPARED.sub("", f"{text} "))
        attributes["location"] = place
        attributes |= {_work_attribute(how): how for how in PREPARED.findall(f"{text} ")}
        attributes.setdefault("cut", "whole")


def _work_attribute(how: str) -> str:
    return "cut" if how in ("sliced", "diced", "chopped") else "cooked"


def _attributes_of(known: KnownThings, thing: str) -> dict[str, str]:
    return known.setdefault(_normalise_name(thing), {})


def _normalise_name(text: str) -> str:
    return ARTICLE.sub("", " ".join(text.split())).removesuffix(" (closed)")


THING = r"([\w' -]{1,80}?)"

_SENTENCES: Iterable[tuple[str, Callable[..., None]]] = (
    (rf"you unlock (?:the )?{THING}\.", _attribute_rule("lock", UNLOCKED)),
    (rf"you lock (?:the )?{THING}\.", _attribute_rule("lock", LOCKED)),
    (rf"you open (?:the )?{THING}(?:, revealing ([^.]+))?\.", _attribute_rule("openness", OPEN)),
    (rf"you close (?:the )?{THING}\.", _attribute_rule("openness", CLOSED)),
    (rf"you (?:can see|see|make out|notice) an? opened {THING}[.,]", _attribute_rule("openness", OPEN)),
    (rf"\ba closed {THING}(?: here| nearby| close by| right[^.]{{0,80}})?[.,]", _attribute_rule("openness", CLOSED)),
    (rf"\ba locked {THING}(?: here| nearby| close by| right[^.]{{0,80}})?[.,]", _attribute_rule("lock", LOCKED)),
    (rf"\bthe {THING} contains ([^.]+)\.", _contents_rule("in")),
    (rf"\bon the {THING} (?:you (?:can )?(?:see|make out)|is|are) ([^.]+)\.", _contents_rule("on")),
    (rf"you (?:take|pick up|move) (?:the )?{THING} (?:from|to the inventory)", _location_rule(HANDS)),
    (rf"you drop (?:the )?{THING} on the", _location_rule(FLOOR)),
    (rf"there is an? {THING} on the floor", _location_rule(FLOOR)),
    (rf"you put (?:the )?{THING} on (?:the )?{THING}\.", _location_rule("on the {0}")),
    (rf"you (?:put|insert) (?:the )?{THING} into (?:the )?{THING}\.", _location_rule("in the {0}")),
    (rf"you eat (?:the )?{THING}\.", _location_rule(EATEN)),
    (rf"you (fried|roasted|grilled|burned) (?:the )?{THING}\.", _note_work),
    (rf"you (slice|dice|chop) (?:the )?{THING}\.", _note_work),
    (r"adding the meal to your inventory", _note_meal),
)
SENTENCES = [(re.compile(text), note) for text, note in _SENTENCES]


# The extractor: things, and the steps of the quest with their status.

UNKNOWN_DISH = (
    QuestStep("read", "cookbook"),
    QuestStep("take", "ingredient"),
    QuestStep("cook", "ingredient"),
    QuestStep("prepare", MEAL),
    QuestStep("eat", MEAL),
)
"""Steps of a cooking quest before its recipe is read."""

STATUS = "status"
"""Attribute of a step: whether it is done."""


class TextWorldFactors:
    """Extractor of factored states. A text mentions few things, so a state accumulates the facts of all texts so far.

    The instructions of the objective, or of the recipe, are milestones. Each is an object of the state with a status,
    and also counts as done if a later instruction is done. A goal without known instructions gives an empty goal state.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return the known things, and the steps of the quest with their status."""
        before = {name: attributes for name, attributes in to_mapping(state).items() if STATUS not in attributes}
        known = update_known(before, action, observation)
        steps = _quest_steps(goal, known)
        reached = _count_reached(steps, known)
        statuses = {_factor_name(steps, n): {STATUS: _format_status(step, n < reached)} for n, step in enumerate(steps)}
        return to_factored({**known, **statuses})

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return the goal state: all steps of the quest are done. A recipe's steps are known once it has been read."""
        steps = _quest_steps(goal, to_mapping(state))
        return to_factored(
            {_factor_name(steps, n): {STATUS: _format_status(step, True)} for n, step in enumerate(steps)}
        )


def _quest_steps(goal: str, known: KnownThings) -> tuple[QuestStep, ...]:
    if not is_cooking(goal):
        return parse_objective(goal)
    recipe = known.get(RECIPE, {}).get("text", "")
    return tuple(w for w in parse_recipe(recipe) if _is_necessary(w, known)) if recipe else UNKNOWN_DISH


def _is_necessary(step: QuestStep, known: KnownThings) -> bool:
    # Whether a direction of a recipe is necessary: an ingredient that was found cut needs no knife.
    return step.kind not in ("slice", "dice", "chop") or "cut" in known.get(step.thing, {})


def _count_reached(steps: Sequence[QuestStep], known: KnownThings) -> int:
    # Number of steps done: all up to the last one that holds now.
    return max((n for n, _ in enumerate(steps, 1) if _is_done(steps[:n], known)), default=0)


def _is_done(steps: Sequence[QuestStep], known: KnownThings) -> bool:
    # Whether the last of these steps holds.
    step = steps[-1]
    attributes = known.get(step.thing, {})
    match step.kind:
        case "go":
            return route_of(known) == _destination(steps) and _has_arrived(steps, known)
        case "read":
            return RECIPE in known
        case "open" | "close":
            return attributes.get("openness") == {"open": OPEN, "close": CLOSED}[step.kind]
        case "unlock" | "lock":
            return attributes.get("lock") == {"unlock": UNLOCKED, "lock": LOCKED}[step.kind]
        case kind if kind in DONE_TO:
            return DONE_TO[kind] in attributes.values()
        case _:
            return attributes.get("location") == _required_place(step)


def _has_arrived(wishes: Sequence[QuestStep], known: KnownThings) -> bool:
    # Whether being at the destination shows that the agent arrived by this route. If the route passes the place more
    # than once, the steps on the way must be done too.
    passed = {_destination(wishes[:n]) for n in range(len(wishes))}
    errands = (wishes[:n] for n, wish in enumerate(wishes, 1) if wish.kind != "go")
    return _destination(wishes) not in passed or all(_is_done(errand, known) for errand in errands)


def _destination(wishes: Sequence[QuestStep]) -> tuple[int, int]:
    steps = [MOVES[wish.thing] for wish in wishes if wish.kind == "go"]
    return sum(east for east, _ in steps), sum(north for _, north in steps)


def _required_place(step: QuestStep) -> str:
    # The place where a step requires its thing.
    places = {"take": HANDS, "prepare": HANDS, "drop": FLOOR, "eat": EATEN}
    return places.get(step.kind) or f"{'on' if step.kind == 'put' else 'in'} the {step.other}"


def _factor_name(steps: Sequence[QuestStep], place: int) -> str:
    step = steps[place]
    nth = sum(other == step for other in steps[:place])
    return f"{step.kind} {step.thing}" + (f" ({nth + 1})" if nth else "")


def _format_status(step: QuestStep, reached: bool) -> str:
    return f"{step.thing}: {step.kind} done" if reached else f"{step.thing}: not yet"
