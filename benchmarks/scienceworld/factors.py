"""Rules that extract factored states (objects with attributes) from ScienceWorld's texts, and states tasks require.

`ScienceWorldFactors` is written by hand for the simulator's sentences and its thirty tasks. In the StateFactory paper a
language model extracts the states. "Focus" is an action of ScienceWorld by which the agent indicates the thing that a
task is about.
"""

import re
from collections.abc import Callable, Container

from certigraph.state.rewards import FactoredState, to_factored, to_mapping

# Facts from observations: rooms, things taken, focus, power and wires.

KnownFacts = dict[str, dict[str, str]]
"""Object -> attribute -> value. Events stay recorded: a thing that was taken once remains marked as taken."""

AGENT, MAP, FOCUS, HEAT, RECIPE = "agent", "map", "focus", "temperature", "recipe"

HEATS = (20, 50, 80, 100, 150, 200, 300, 500, 800, 1200, 1700, 2300)
"""Temperatures in degrees Celsius that count as steps of warming."""

_ROOM = re.compile(r"This (?:room|outside location) is called the (.+?)\.")
_POWERED = re.compile(r"\ban? ([\w ]{1,60}?), which is (?:turned )?(on|off)\b", re.IGNORECASE)
_RUNS = {"on": "running", "activated": "running", "off": "idle", "deactivated": "idle"}


def add_observation(known: KnownFacts, action: str, observation: str, sought: Container[str]) -> None:
    """Add to `known` the facts that follow from an action and its observation.

    Of the devices that a room's description lists, only those in `sought` and those already known are added.
    """
    for form, tell in _FACT_RULES:
        for match in form.finditer(observation):
            tell(known, action, match)
    if room := _ROOM.match(observation):
        _note_room(known, room[1])
        for device, power in _POWERED.findall(observation):
            if device in known or device in sought:
                attributes_of(known, device)["power"] = _RUNS[power]


def attributes_of(known: KnownFacts, identity: str) -> dict[str, str]:
    """Return the attributes of an object; an unknown object is added to `known` first."""
    return known.setdefault(identity, {})


def shorten_plane(plane: str) -> str:
    """Shorten the name of an inclined plane: `inclined plane with a steel surface` -> `steel plane`."""
    return f"{plane.removesuffix(' surface').split(' with a ')[-1].split()[-1].lower()} plane"


def _note_room(known: KnownFacts, room: str) -> None:
    attributes_of(known, AGENT)["location"] = room
    attributes_of(known, room)["visit"] = "visited"
    attributes_of(known, MAP)[room] = "visited"
    for attributes in known.values():
        if attributes.get("holder") == AGENT:
            attributes["room"] = room


def _note_move(known: KnownFacts, action: str, match: re.Match[str]) -> None:
    thing, place = attributes_of(known, match[1]), match[2]
    if place == "inventory":
        thing.update(hand="taken", holder=AGENT)
        return
    thing.pop("holder", None)
    thing.update(place=place)
    attributes_of(known, place)["contents"] = "filled"
    if plane := re.search(r" to (inclined plane.*)", action):
        attributes_of(known, shorten_plane(plane[1]))["block"] = "placed"


def _note_focus(known: KnownFacts, action: str, match: re.Match[str]) -> None:
    attributes_of(known, match[1])["focus"] = "focused"
    stage, history = re.search(r"in the (\w+) stage", action), attributes_of(known, FOCUS)
    history[f"{len(history) + 1}"] = f"{match[1]} {stage[1]}" if stage else match[1]


def _note_opening(known: KnownFacts, action: str, match: re.Match[str]) -> None:
    if room := re.fullmatch(r"open door to (.+)", action):
        attributes_of(known, room[1])["door"] = "open"
        attributes_of(known, MAP)[f"door to {room[1]}"] = "open"
    elif match[1] != "door":
        attributes_of(known, match[1])["lid"] = "open"


def _note_connection(known: KnownFacts, action: str, match: re.Match[str]) -> None:
    # Each end gets the kind of thing that it leads to; which wire it is does not matter.
    for end, thing, other in ((match[1], match[2], match[4]), (match[3], match[4], match[2])):
        if not thing.endswith("wire"):
            attributes_of(known, thing)[end] = "wire" if other.endswith("wire") else other


def _note_temperature(known: KnownFacts, action: str, match: re.Match[str]) -> None:
    degrees = int(match[1])
    attributes_of(known, "thermometer")["reading"] = "measured"
    attributes_of(known, HEAT).update({f"past {heat}": "reached" for heat in HEATS if degrees > heat}, degrees=match[1])


def _note_slide(known: KnownFacts, action: str, match: re.Match[str]) -> None:
    tenths = int(match[2] or 100) // 10
    attributes_of(known, shorten_plane(match[1])).update(
        {f"{tenth} tenths": "passed" for tenth in range(1, tenths + 1)}
    )


def _note_pouring(known: KnownFacts, action: str, match: re.Match[str]) -> None:
    attributes_of(known, match[1])["poured"] = "wet"
    for paint in re.findall(r"cup containing ([\w-]+ paint)", action.partition(" in ")[0]):
        attributes_of(known, paint)["mixture"] = "poured"


FactRule = Callable[[KnownFacts, str, "re.Match[str]"], None]
_FACT_RULES: tuple[tuple[re.Pattern[str], FactRule], ...] = (
    (re.compile(r"^You move (?:through .+? )?to the (.+?)\."), lambda known, _, match: _note_room(known, match[1])),
    (re.compile(r"You move the (.+?) to the (.+?)\."), _note_move),
    (re.compile(r"You focus on the (.+?)\."), _note_focus),
    (re.compile(r"^The (.+?) is (?:now|already) open\."), _note_opening),
    (
        re.compile(r"^The (.+?) is now (activated|deactivated)\."),
        lambda known, _, match: attributes_of(known, match[1]).update(power=_RUNS[match[2]]),
    ),
    (re.compile(r"^(\w+(?: \d)?) on (.+?) is now connected to (\w+(?: \d)?) on (.+)"), _note_connection),
    (re.compile(r"measures a temperature of (-?\d+) degrees"), _note_temperature),
    (re.compile(r"^an (inclined plane.*?), with: .*? (?:approximately (\d+)% down|at the bottom of)"), _note_slide),
    (
        re.compile(r"mix to produce (.+?)\."),
        lambda known, _, match: attributes_of(known, match[1]).update(mixture="made"),
    ),
    (re.compile(r"^You pour the contents of the .+? into the (.+?)\."), _note_pouring),
    (
        re.compile(r"To make .+?, you need to mix (.+?)\."),
        lambda known, _, match: attributes_of(known, RECIPE).update(reading="known", parts=match[1]),
    ),
    (
        re.compile(r"^a substance called (.+)$"),
        lambda known, _, match: attributes_of(known, match[1]).update(look="seen"),
    ),
)


# General knowledge about the things in the tasks: animals and their life spans, power sources, mixtures of paints.

LIFE_SPANS = {
    "giant tortoise": 150, "tortoise": 150, "turtle": 60, "crocodile": 70, "elephant": 65, "parrot": 60,
    "alligator": 50, "brown bear": 25, "wolf": 14, "beaver": 14, "frog": 10, "toad": 10, "dove": 9, "blue jay": 7,
    "chameleon": 6, "chipmunk": 3, "hedgehog": 4, "rabbit": 8, "mouse": 2, "bee": 0.3, "spider": 1, "ant": 0.5,
    "butterfly": 0.1, "moth": 0.1, "dragonfly": 0.1, "tadpole": 10, "caterpillar": 0.1,
}  # fmt: skip
"""Approximate life span of an animal in years."""

POWER_SOURCES = {
    "a renewable": ("solar panel", "wind generator"),
    "a nonrenewable": ("gas generator", "nuclear generator"),
    "": ("battery", "solar panel", "wind generator", "gas generator", "nuclear generator"),
}
"""Power sources by the kind that a task requires."""

PLANTS = ("tree", "plant", "seed", "flower", "sapling")

MIXED_PAINTS = {
    "orange": ("red", "yellow"),
    "green": ("blue", "yellow"),
    "violet": ("red", "blue"),
    "purple": ("red", "blue"),
}


def animal_in(name: str) -> str:
    """Return the animal in a thing's name, at any stage of life: `baby wolf` -> `wolf`; empty if there is none."""
    return max((species for species in LIFE_SPANS if species in name), key=len, default="")


def is_kind(name: str, kind: str) -> bool:
    """Return whether a thing is of a kind: an animal, a plant, a living or a non-living thing."""
    beast, plant = bool(animal_in(name)), any(word in name.split() for word in PLANTS)
    return {"animal": beast, "plant": plant, "living thing": beast or plant}.get(kind, not (beast or plant))


_SHOWN = re.compile(r"\ban? ([\w' -]+?)(?= \(|[.,;:)]|$)", re.MULTILINE)
"""Pattern of a thing's name in a view."""


def find_kind(kind: str, view: str) -> str:
    """Return the first thing that a view lists of a kind; empty if it lists none, or nothing is known of the kind."""
    known = (("animal", LIFE_SPANS), ("plant", PLANTS), ("living thing", (*LIFE_SPANS, *PLANTS)))
    words = next((names for name, names in known if name == kind), None)
    if words is None:
        return ""
    member = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    return next((name for name in _SHOWN.findall(view) if member.search(name)), "")


# Parts of required states that several tasks share.

RequiredStates = dict[str, dict[str, str]]
"""Object -> attribute -> required value."""

MIN_STATES = 6
"""Minimum number of states that are required of a process with an unknown end, such as searching or warming up."""


def require_exploration(known: KnownFacts, found: bool) -> RequiredStates:
    """Require exploration: the rooms visited and doors opened so far and, unless the thing is `found`, some more."""
    ways = require_progress(known.get(MAP, {}), "elsewhere", "visited", found)
    return {MAP: ways} if ways else {}


def require_progress(reached: dict[str, str], name: str, value: str, ended: bool) -> dict[str, str]:
    """Return the states `reached` and, unless the process has `ended`, further ones with numbered `name` and `value`.

    There is at least one further state, and there are at least `MIN_STATES` states in total.
    """
    missing = 0 if ended else max(1, MIN_STATES - len(reached))
    return {**reached, **{f"{name} {number}": value for number in range(1, missing + 1)}}


def require_visit(known: KnownFacts, room: str) -> RequiredStates:
    """Require a visit to a room and its door open; only the visit if the agent arrived in another way."""
    attributes = known.get(room, {})
    return {
        room: {"visit": "visited"} | ({} if "visit" in attributes and "door" not in attributes else {"door": "open"})
    }


def focus_history(known: KnownFacts) -> list[str]:
    """Return the things that the agent has focused on, in order."""
    return list(known.get(FOCUS, {}).values())


def require_focus(known: KnownFacts, accept: Callable[[str], bool], otherwise: str) -> RequiredStates:
    """Require focus on a thing for which `accept` is True: the first one so far, else the placeholder `otherwise`."""
    return {next((name for name in focus_history(known) if accept(name)), otherwise): {"focus": "focused"}}


def require_wires(*ends: str) -> dict[str, str]:
    """Require a wire at each of the named ends, such as "anode" and "cathode"."""
    return dict.fromkeys(ends, "wire")


def merge_requirements(*parts: RequiredStates) -> RequiredStates:
    """Merge required states; attributes that several parts require of one object are joined."""
    result: RequiredStates = {}
    for part in parts:
        for identity, attributes in part.items():
            result[identity] = {**result.get(identity, {}), **attributes}
    return result


# Required states of tasks about living things: finding and moving, life stages and life spans, growing.


def require_find(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require that a thing of the named kind is in focus, taken to the room of a box, and put into the box."""
    kind, box, room = match.groups()
    [thing] = focus = require_focus(known, lambda name: is_kind(name, kind), kind)
    carried = next(
        (name for name, attributes in known.items() if "hand" in attributes and _is_carried_as(name, thing)), thing
    )
    return merge_requirements(
        require_exploration(known, thing != kind), focus, {carried: {"hand": "taken", "room": room, "place": box}}
    )


def _is_carried_as(carried: str, thing: str) -> bool:
    # A plant is carried in its pot, and what is focused on as a `baby wolf` is called a wolf when it is carried.
    return bool(set(carried.split()) & set(thing.split())) or "flower pot" in carried


def require_stages(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require focus on the life stages of the named living thing, one after another."""
    count, name = int(match[1] or 4), match[2].split()[0]
    past = [thing for thing in focus_history(known) if name in thing][:count]
    done = {f"{number}": thing for number, thing in enumerate(past, 1)}
    ahead = {f"{number}": "next stage of life" for number in range(len(past) + 1, count + 1)}
    return require_visit(known, "outside") | {FOCUS: done | ahead}


def require_life_spans(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require focus on the known animal with the longest life span, the shortest, or both."""
    animals = sorted({animal_in(name) for name in known} - {""}, key=LIFE_SPANS.__getitem__)
    extremes = {"longest": animals[-1:], "shortest": animals[:1]}
    requested = dict.fromkeys(re.findall(r"(longest|shortest) life span", match.string))
    return merge_requirements(
        require_visit(known, "outside"),
        *(_require_one_of(known, extremes[extreme], f"{extreme} life") for extreme in requested),
    )


def _require_one_of(known: KnownFacts, animals: list[str], otherwise: str) -> RequiredStates:
    return require_focus(known, lambda name: animal_in(name) in animals, otherwise)


def require_growing(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require a seed planted in a watered pot, and focus on the seed or on the plant that grows from it."""
    plant = match[1].removesuffix(" plant")
    grown = {plant: {"focus": "focused"}} if plant == match[1] else {f"{plant} seed": {"focus": "focused"}}
    return merge_requirements(require_visit(known, "kitchen"), _require_planting(plant, known), grown)


def require_inheritance(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require a seed of the named plant in a watered pot, and focus on an answer box."""
    box = require_focus(known, lambda name: name.endswith("box"), "answer box")
    return merge_requirements(_require_planting(match[1], known), box)


def _require_planting(plant: str, known: KnownFacts) -> RequiredStates:
    # The pot is the one that the seed was put into, or any flower pot before that.
    place = known.get(f"{plant} seed", {}).get("place", "")
    pot = place if "flower pot" in place else "flower pot"
    return merge_requirements(
        require_visit(known, "greenhouse"), {f"{plant} seed": {"place": pot}, pot: {"poured": "wet"}}
    )


# Required states of tasks about matter: heat and cold, mixtures, circuits, inclined planes.

COLD = ("freezer", "fridge")
HOT = ("stove", "furnace", "oven", "hot plate", "fire pit")


def require_change(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require that a substance is found, in focus, and in a hot or cold device until it looks different."""
    verb, stuff = match.groups()
    changed = any(
        "look" in attributes and name != stuff and _is_form_of(name, stuff) for name, attributes in known.items()
    )
    where = {"freeze": COLD, "boil": HOT, "melt": HOT}.get(verb, HOT + COLD)
    device = next(
        (name for name, attributes in known.items() if "contents" in attributes and name.endswith(where)), where[0]
    )
    cold = device.endswith(COLD)
    works = {"contents": "filled"} | ({} if cold else {"power": "running"})
    heat = {} if cold else require_warming(known, changed)
    return merge_requirements(
        require_exploration(known, stuff in known), {stuff: {"focus": "focused"}}, {device: works}, heat
    )


def _is_form_of(name: str, stuff: str) -> bool:
    return stuff in name or (stuff == "water" and name in ("steam", "ice"))


def require_warming(known: KnownFacts, ended: bool) -> RequiredStates:
    """Require the temperatures passed so far and, unless warming has `ended`, higher ones; the last one is unknown."""
    reached = {name: value for name, value in known.get(HEAT, {}).items() if value == "reached"}
    heats = require_progress(reached, "hotter", "reached", ended)
    return {HEAT: heats} if heats else {}


def require_measurement(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require a thermometer (in hand and in focus), a measurement of the substance (in focus), and an answer box."""
    quantity, stuff, room = match.groups()
    tool = {"thermometer": {"hand": "taken", "focus": "focused", "reading": "measured"}}
    required = merge_requirements(require_exploration(known, "thermometer" in known), require_visit(known, room), tool)
    if quantity == "temperature":
        thing = {"hand": "taken", "focus": "focused", "place": _answer_box(match.string, known)}
        return merge_requirements(required, {stuff: thing})
    answer = require_focus(known, lambda name: name.endswith("box"), "answer box")
    return merge_requirements(
        required, {stuff: {"focus": "focused"}}, require_warming(known, "answer box" not in answer), answer
    )


def _answer_box(goal: str, known: KnownFacts) -> str:
    # The answer box for the measured temperature.
    match, degrees = _BOXES.search(goal), known.get(HEAT, {}).get("degrees")
    if match is None or degrees is None:
        return "answer box"
    return match[2] if float(degrees) > float(match[1]) else match[3]


_BOXES = re.compile(r"above ([-\d.]+) .*?(\w+ box).*? below .*?(\w+ box)")


def require_paint(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require a mixed paint that is made and in focus: of a secondary colour, or of a tertiary one made with it."""
    colour = match[1]
    between = [part for part in colour.split("-") if "-" in colour and part in MIXED_PAINTS]
    parts = [part for name in [*between, colour] for part in MIXED_PAINTS.get(name, name.split("-"))]
    poured = {f"{part} paint": {"mixture": "poured"} for part in parts if part not in between}
    mixed = {f"{name} paint": {"mixture": "made", "focus": "focused"} for name in [*between, colour]}
    return merge_requirements(require_visit(known, "art studio"), poured, mixed)


def require_mixture(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require the recipe to be read, its ingredients taken, and the product mixed and in focus."""
    parts = known.get(RECIPE, {}).get("parts", "ingredient").split(", ")
    ingredients = {part: {"hand": "taken"} for part in parts if part != "water"}
    water = {"sink": {"power": "idle"}} if "water" in parts else {}
    read = {RECIPE: {"hand": "taken", "reading": "known"}}
    return merge_requirements(
        require_visit(known, "kitchen"), read, ingredients, water, {match[1]: {"mixture": "made", "focus": "focused"}}
    )


def require_conduction(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require a thing in focus, wired between a battery and an indicator, then put into the answer box."""
    stuff, room, conducts, resists = match.groups()
    indicator = next(
        (name for name, attributes in known.items() if "wire" in attributes.values() and name.endswith("bulb")),
        "light bulb",
    )
    box = conducts if known.get(indicator, {}).get("power") == "running" else resists
    thing = {"hand": "taken", "focus": "focused", **require_wires("terminal 1", "terminal 2"), "place": box}
    poles = require_wires("anode", "cathode")
    return merge_requirements(require_visit(known, room), {stuff: thing, "battery": poles, indicator: poles})


def require_power(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require a part in focus that is wired to a power source."""
    part, kind, poles = match[1], match[2] or "", require_wires("anode", "cathode")
    source = next(
        (name for name in POWER_SOURCES[kind] if "wire" in known.get(name, {}).values()), POWER_SOURCES[kind][0]
    )
    return merge_requirements(require_visit(known, "workshop"), {part: {"focus": "focused", **poles}, source: poles})


def require_planes(match: re.Match[str], known: KnownFacts) -> RequiredStates:
    """Require a block to slide down both planes with the stopwatch running, then focus on the plane asked for."""
    names = [shorten_plane(name) for name in match.groups()]
    tried = [name for name in known if name in names and "block" in known[name]]
    answers = [name for name in focus_history(known) if name.startswith("inclined plane") and len(tried) > 1]
    finished = names if answers else tried[:-1]
    slid = {name: _require_slide(known.get(name, {}), name in finished) for name in names}
    answer = {FOCUS: {"1": next(iter(answers), "plane that answers")}}
    return merge_requirements(
        require_visit(known, "workshop"), {"stopwatch": {"hand": "taken", "power": "running"}}, slid, answer
    )


def _require_slide(attributes: dict[str, str], finished: bool) -> dict[str, str]:
    # The block moves further down a plane until the other plane is tried.
    return require_progress({"block": "placed", **attributes}, "further", "passed", finished)


# Tasks by their wording.

RequirementRule = Callable[["re.Match[str]", KnownFacts], RequiredStates]


def required_states(goal: str, known: KnownFacts) -> RequiredStates:
    """Return the states that a task requires, given the known facts; empty if its wording is unknown."""
    for form, make in _TASKS:
        if match := form.search(goal):
            return make(match, known)
    return {}


def named_things(goal: str) -> tuple[str, ...]:
    """Return the things, rooms and boxes that a task's text names; empty if its wording is unknown."""
    return next((match.groups() for form, _ in _TASKS if (match := form.search(goal))), ())


_TASKS: tuple[tuple[re.Pattern[str], RequirementRule], ...] = (
    (re.compile(r"find a\(n\) (.+?)\..*move it to the (\w+ box) in the ([\w ]+)\."), require_find),
    (re.compile(r"focus on the (\d )?life stages of the (.+?)(?: plant)?, starting"), require_stages),
    (re.compile(r"the animal with the (longest|shortest) life span"), require_life_spans),
    (re.compile(r"to grow an? (.+?)(?: from seed)?\."), require_growing),
    (re.compile(r"recessive trait in the (.+?) plant"), require_inheritance),
    (re.compile(r"to (boil|melt|freeze|change the state of matter of) (.+?)\."), require_change),
    (re.compile(r"the (temperature|melting point) of (.+?), which is located around the (.+?)\."), require_measurement),
    (re.compile(r"create (\S+) paint"), require_paint),
    (re.compile(r"create the substance '(.+?)'"), require_mixture),
    (
        re.compile(
            r"if (.+?) is electrically conductive\. The .+? is located around the (.+?)\."
            r".*? place it in the (\w+ box)\..*? place it in the (\w+ box)\."
        ),
        require_conduction,
    ),
    (re.compile(r"turn on the (.+?)(?: by powering it using (a (?:non)?renewable) power source)?\."), require_power),
    (re.compile(r"two inclined planes \((.+?), (.+?)\)"), require_planes),
)


# The extractor.


class ScienceWorldFactors:
    """Extractor of factored states. An observation shows little of the world, so a state accumulates all facts.

    The required states are milestones that a task names or that every agent has to reach, some from general knowledge
    (life spans, paints). The simulator's solutions are not read. A task in an unknown wording requires nothing.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return the previous state with the facts that an observation adds."""
        known = to_mapping(state)
        add_observation(known, action, observation, named_things(goal))
        return to_factored(known)

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return the states that the task requires of the objects known by now; `before` if there is no goal."""
        return to_factored(required_states(goal, to_mapping(state))) if goal else before
