"""ScienceWorld's factored states, extracted from its texts by rules, and the states that its tasks require.

`ScienceWorldFactors` is written by hand for the simulator's sentences and its thirty tasks; in the StateFactory paper a
language model extracts the states.
"""

import re
from collections.abc import Callable, Container

from certigraph.state.rewards import FactoredState, as_mapping, factored

# Facts from observations: rooms, things taken, focus, power and wires.

Known = dict[str, dict[str, str]]
"""Identity -> attribute -> value. Events are kept: a thing that was taken once stays marked as taken."""

AGENT, MAP, FOCUS, HEAT, RECIPE = "agent", "map", "focus", "temperature", "recipe"

HEATS = (20, 50, 80, 100, 150, 200, 300, 500, 800, 1200, 1700, 2300)
"""Temperatures in degrees Celsius that count as steps of warming."""

_ROOM = re.compile(r"This (?:room|outside location) is called the (.+?)\.")
_POWERED = re.compile(r"\ban? ([\w ]{1,60}?), which is (?:turned )?(on|off)\b", re.IGNORECASE)
_RUNS = {"on": "running", "activated": "running", "off": "idle", "deactivated": "idle"}


def seen(known: Known, action: str, observation: str, sought: Container[str]) -> None:
    """Add the facts of a step; of the devices listed in a room, only those sought and those already known."""
    for form, tell in _TOLD:
        for match in form.finditer(observation):
            tell(known, action, match)
    if room := _ROOM.match(observation):
        _entered(known, room[1])
        for device, power in _POWERED.findall(observation):
            if device in known or device in sought:
                of(known, device)["power"] = _RUNS[power]


def of(known: Known, identity: str) -> dict[str, str]:
    """Return the attributes of a thing; an unknown thing is added."""
    return known.setdefault(identity, {})


def label(plane: str) -> str:
    """Shorten the name of an inclined plane: `inclined plane with a steel surface` -> `steel plane`."""
    return f"{plane.removesuffix(' surface').split(' with a ')[-1].split()[-1].lower()} plane"


def _entered(known: Known, room: str) -> None:
    of(known, AGENT)["location"] = room
    of(known, room)["visit"] = "visited"
    of(known, MAP)[room] = "visited"
    for attributes in known.values():
        if attributes.get("holder") == AGENT:
            attributes["room"] = room


def _moved(known: Known, action: str, match: re.Match[str]) -> None:
    thing, place = of(known, match[1]), match[2]
    if place == "inventory":
        thing.update(hand="taken", holder=AGENT)
        return
    thing.pop("holder", None)
    thing.update(place=place)
    of(known, place)["contents"] = "filled"
    if plane := re.search(r" to (inclined plane.*)", action):
        of(known, label(plane[1]))["block"] = "placed"


def _focused(known: Known, action: str, match: re.Match[str]) -> None:
    of(known, match[1])["focus"] = "focused"
    stage, history = re.search(r"in the (\w+) stage", action), of(known, FOCUS)
    history[f"{len(history) + 1}"] = f"{match[1]} {stage[1]}" if stage else match[1]


def _opened(known: Known, action: str, match: re.Match[str]) -> None:
    if room := re.fullmatch(r"open door to (.+)", action):
        of(known, room[1])["door"] = "open"
        of(known, MAP)[f"door to {room[1]}"] = "open"
    elif match[1] != "door":
        of(known, match[1])["lid"] = "open"


def _connected(known: Known, action: str, match: re.Match[str]) -> None:
    # Each end gets the kind of thing that it leads to; which wire it is does not matter.
    for end, thing, other in ((match[1], match[2], match[4]), (match[3], match[4], match[2])):
        if not thing.endswith("wire"):
            of(known, thing)[end] = "wire" if other.endswith("wire") else other


def _measured(known: Known, action: str, match: re.Match[str]) -> None:
    degrees = int(match[1])
    of(known, "thermometer")["reading"] = "measured"
    of(known, HEAT).update({f"past {heat}": "reached" for heat in HEATS if degrees > heat}, degrees=match[1])


def _slid(known: Known, action: str, match: re.Match[str]) -> None:
    tenths = int(match[2] or 100) // 10
    of(known, label(match[1])).update({f"{tenth} tenths": "passed" for tenth in range(1, tenths + 1)})


def _poured(known: Known, action: str, match: re.Match[str]) -> None:
    of(known, match[1])["poured"] = "wet"
    for paint in re.findall(r"cup containing ([\w-]+ paint)", action.partition(" in ")[0]):
        of(known, paint)["mixture"] = "poured"


Tell = Callable[[Known, str, "re.Match[str]"], None]
_TOLD: tuple[tuple[re.Pattern[str], Tell], ...] = (
    (re.compile(r"^You move (?:through .+? )?to the (.+?)\."), lambda known, _, match: _entered(known, match[1])),
    (re.compile(r"You move the (.+?) to the (.+?)\."), _moved),
    (re.compile(r"You focus on the (.+?)\."), _focused),
    (re.compile(r"^The (.+?) is (?:now|already) open\."), _opened),
    (
        re.compile(r"^The (.+?) is now (activated|deactivated)\."),
        lambda known, _, match: of(known, match[1]).update(power=_RUNS[match[2]]),
    ),
    (re.compile(r"^(\w+(?: \d)?) on (.+?) is now connected to (\w+(?: \d)?) on (.+)"), _connected),
    (re.compile(r"measures a temperature of (-?\d+) degrees"), _measured),
    (re.compile(r"^an (inclined plane.*?), with: .*? (?:approximately (\d+)% down|at the bottom of)"), _slid),
    (re.compile(r"mix to produce (.+?)\."), lambda known, _, match: of(known, match[1]).update(mixture="made")),
    (re.compile(r"^You pour the contents of the .+? into the (.+?)\."), _poured),
    (
        re.compile(r"To make .+?, you need to mix (.+?)\."),
        lambda known, _, match: of(known, RECIPE).update(reading="known", parts=match[1]),
    ),
    (re.compile(r"^a substance called (.+)$"), lambda known, _, match: of(known, match[1]).update(look="seen")),
)


# General knowledge about the things in the tasks: animals and their life spans, power sources, mixtures of paints.

LIFE_SPANS = {
    "giant tortoise": 150, "tortoise": 150, "turtle": 60, "crocodile": 70, "elephant": 65, "parrot": 60,
    "alligator": 50, "brown bear": 25, "wolf": 14, "beaver": 14, "frog": 10, "toad": 10, "dove": 9, "blue jay": 7,
    "chameleon": 6, "chipmunk": 3, "hedgehog": 4, "rabbit": 8, "mouse": 2, "bee": 0.3, "spider": 1, "ant": 0.5,
    "butterfly": 0.1, "moth": 0.1, "dragonfly": 0.1, "tadpole": 10, "caterpillar": 0.1,
}  # fmt: skip
"""Approximate life span of an animal in years."""

SOURCES = {
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


def animal(name: str) -> str:
    """Return the animal in a thing's name, at any stage of life: `baby wolf` -> `wolf`; empty if there is none."""
    return max((species for species in LIFE_SPANS if species in name), key=len, default="")


def is_kind(name: str, kind: str) -> bool:
    """Tell whether a thing is of a kind: an animal, a plant, a living or a non-living thing."""
    beast, plant = bool(animal(name)), any(word in name.split() for word in PLANTS)
    return {"animal": beast, "plant": plant, "living thing": beast or plant}.get(kind, not (beast or plant))


# Parts of required states that several tasks share.

Wanted = dict[str, dict[str, str]]
"""Identity -> attribute -> required value."""

LEAST = 6
"""Minimum number of states of a process without a known end: a search, warming up."""


def explored(known: Known, found: bool) -> Wanted:
    """Require exploring: the ways taken so far and, until the sought thing is found, some more."""
    ways = unended(known.get(MAP, {}), "elsewhere", "visited", found)
    return {MAP: ways} if ways else {}


def unended(reached: dict[str, str], name: str, value: str, ended: bool) -> dict[str, str]:
    """Return the states reached and, until the process ends, further ones: at least 1, at least `LEAST` in total."""
    missing = 0 if ended else max(1, LEAST - len(reached))
    return {**reached, **{f"{name} {number}": value for number in range(1, missing + 1)}}


def entered(known: Known, room: str) -> Wanted:
    """Require visiting a room through its open door, unless the agent arrived in another way."""
    attributes = known.get(room, {})
    return {
        room: {"visit": "visited"} | ({} if "visit" in attributes and "door" not in attributes else {"door": "open"})
    }


def focuses(known: Known) -> list[str]:
    """Return what the agent has focused on, in order."""
    return list(known.get(FOCUS, {}).values())


def focused(known: Known, accept: Callable[[str], bool], otherwise: str) -> Wanted:
    """Require focus on an accepted thing: the first one focused on, or else the placeholder `otherwise`."""
    return {next((name for name in focuses(known) if accept(name)), otherwise): {"focus": "focused"}}


def wired(*ends: str) -> dict[str, str]:
    """Require that ends lead to a wire."""
    return dict.fromkeys(ends, "wire")


def merged(*parts: Wanted) -> Wanted:
    """Merge requirements; those of several parts about one thing are joined."""
    result: Wanted = {}
    for part in parts:
        for identity, attributes in part.items():
            result[identity] = {**result.get(identity, {}), **attributes}
    return result


# Required states of tasks about living things: finding and moving, life stages and life spans, growing.


def find(match: re.Match[str], known: Known) -> Wanted:
    """Require a thing of a kind: in focus, taken to the room of a box, and put into the box."""
    kind, box, room = match.groups()
    [thing] = focus = focused(known, lambda name: is_kind(name, kind), kind)
    carried = next((name for name, attributes in known.items() if "hand" in attributes and _holds(name, thing)), thing)
    return merged(explored(known, thing != kind), focus, {carried: {"hand": "taken", "room": room, "place": box}})


def _holds(carried: str, thing: str) -> bool:
    # A plant is carried in its pot, and what is focused on as a `baby wolf` is called a wolf when it is carried.
    return bool(set(carried.split()) & set(thing.split())) or "flower pot" in carried


def stages(match: re.Match[str], known: Known) -> Wanted:
    """Require focus on the life stages, one after another."""
    count, name = int(match[1] or 4), match[2].split()[0]
    past = [thing for thing in focuses(known) if name in thing][:count]
    done = {f"{number}": thing for number, thing in enumerate(past, 1)}
    ahead = {f"{number}": "next stage of life" for number in range(len(past) + 1, count + 1)}
    return entered(known, "outside") | {FOCUS: done | ahead}


def life_spans(match: re.Match[str], known: Known) -> Wanted:
    """Require focus on the known animal with the longest life span, the shortest, or both."""
    animals = sorted({animal(name) for name in known} - {""}, key=LIFE_SPANS.__getitem__)
    extremes = {"longest": animals[-1:], "shortest": animals[:1]}
    requested = dict.fromkeys(re.findall(r"(longest|shortest) life span", match.string))
    return merged(
        entered(known, "outside"), *(_one_of(known, extremes[extreme], f"{extreme} life") for extreme in requested)
    )


def _one_of(known: Known, animals: list[str], otherwise: str) -> Wanted:
    return focused(known, lambda name: animal(name) in animals, otherwise)


def grow(match: re.Match[str], known: Known) -> Wanted:
    """Require a seed planted in a watered pot, and focus on the seed or on the plant that grows from it."""
    plant = match[1].removesuffix(" plant")
    grown = {plant: {"focus": "focused"}} if plant == match[1] else {f"{plant} seed": {"focus": "focused"}}
    return merged(entered(known, "kitchen"), _planted(plant, known), grown)


def inherit(match: re.Match[str], known: Known) -> Wanted:
    """Require plants of a kind, planted and watered, and focus on the answer box."""
    box = focused(known, lambda name: name.endswith("box"), "answer box")
    return merged(_planted(match[1], known), box)


def _planted(plant: str, known: Known) -> Wanted:
    # The pot is the one that the seed was put into, or any flower pot before that.
    place = known.get(f"{plant} seed", {}).get("place", "")
    pot = place if "flower pot" in place else "flower pot"
    return merged(entered(known, "greenhouse"), {f"{plant} seed": {"place": pot}, pot: {"poured": "wet"}})


# Required states of tasks about matter: heat and cold, mixtures, circuits, inclined planes.

COLD = ("freezer", "fridge")
HOT = ("stove", "furnace", "oven", "hot plate", "fire pit")


def change(match: re.Match[str], known: Known) -> Wanted:
    """Require a substance: found, in focus, and in a hot or cold device until it looks different."""
    verb, stuff = match.groups()
    changed = any("look" in attributes and name != stuff and _is_of(name, stuff) for name, attributes in known.items())
    where = {"freeze": COLD, "boil": HOT, "melt": HOT}.get(verb, HOT + COLD)
    device = next(
        (name for name, attributes in known.items() if "contents" in attributes and name.endswith(where)), where[0]
    )
    cold = device.endswith(COLD)
    works = {"contents": "filled"} | ({} if cold else {"power": "running"})
    heat = {} if cold else warmed(known, changed)
    return merged(explored(known, stuff in known), {stuff: {"focus": "focused"}}, {device: works}, heat)


def _is_of(name: str, stuff: str) -> bool:
    return stuff in name or (stuff == "water" and name in ("steam", "ice"))


def warmed(known: Known, ended: bool) -> Wanted:
    """Require rising temperatures; the final temperature is unknown."""
    reached = {name: value for name, value in known.get(HEAT, {}).items() if value == "reached"}
    heats = unended(reached, "hotter", "reached", ended)
    return {HEAT: heats} if heats else {}


def measure(match: re.Match[str], known: Known) -> Wanted:
    """Require a thermometer in hand and in focus, a measurement of the substance in focus, and the answer box."""
    quantity, stuff, room = match.groups()
    tool = {"thermometer": {"hand": "taken", "focus": "focused", "reading": "measured"}}
    required = merged(explored(known, "thermometer" in known), entered(known, room), tool)
    if quantity == "temperature":
        thing = {"hand": "taken", "focus": "focused", "place": _by_degrees(match.string, known)}
        return merged(required, {stuff: thing})
    answer = focused(known, lambda name: name.endswith("box"), "answer box")
    return merged(required, {stuff: {"focus": "focused"}}, warmed(known, "answer box" not in answer), answer)


def _by_degrees(goal: str, known: Known) -> str:
    # The answer box for the measured temperature.
    match, degrees = _BOXES.search(goal), known.get(HEAT, {}).get("degrees")
    if match is None or degrees is None:
        return "answer box"
    return match[2] if float(degrees) > float(match[1]) else match[3]


_BOXES = re.compile(r"above ([-\d.]+) .*?(\w+ box).*? below .*?(\w+ box)")


def paint(match: re.Match[str], known: Known) -> Wanted:
    """Require mixed paints in focus: a secondary colour of two paints, or a tertiary one made with it."""
    colour = match[1]
    between = [part for part in colour.split("-") if "-" in colour and part in MIXED_PAINTS]
    parts = [part for name in [*between, colour] for part in MIXED_PAINTS.get(name, name.split("-"))]
    poured = {f"{part} paint": {"mixture": "poured"} for part in parts if part not in between}
    mixed = {f"{name} paint": {"mixture": "made", "focus": "focused"} for name in [*between, colour]}
    return merged(entered(known, "art studio"), poured, mixed)


def mix(match: re.Match[str], known: Known) -> Wanted:
    """Require the recipe to be read, its parts taken, and the product mixed and in focus."""
    parts = known.get(RECIPE, {}).get("parts", "ingredient").split(", ")
    ingredients = {part: {"hand": "taken"} for part in parts if part != "water"}
    water = {"sink": {"power": "idle"}} if "water" in parts else {}
    read = {RECIPE: {"hand": "taken", "reading": "known"}}
    return merged(
        entered(known, "kitchen"), read, ingredients, water, {match[1]: {"mixture": "made", "focus": "focused"}}
    )


def conduct(match: re.Match[str], known: Known) -> Wanted:
    """Require a thing in focus, wired between a battery and an indicator, then put into the answer box."""
    stuff, room, conducts, resists = match.groups()
    indicator = next(
        (name for name, attributes in known.items() if "wire" in attributes.values() and name.endswith("bulb")),
        "light bulb",
    )
    box = conducts if known.get(indicator, {}).get("power") == "running" else resists
    thing = {"hand": "taken", "focus": "focused", **wired("terminal 1", "terminal 2"), "place": box}
    poles = wired("anode", "cathode")
    return merged(entered(known, room), {stuff: thing, "battery": poles, indicator: poles})


def power(match: re.Match[str], known: Known) -> Wanted:
    """Require a part in focus that is wired to a power source."""
    part, kind, poles = match[1], match[2] or "", wired("anode", "cathode")
    source = next((name for name in SOURCES[kind] if "wire" in known.get(name, {}).values()), SOURCES[kind][0])
    return merged(entered(known, "workshop"), {part: {"focus": "focused", **poles}, source: poles})


def planes(match: re.Match[str], known: Known) -> Wanted:
    """Require a block to slide down both planes under a running stopwatch, then focus on the plane that answers."""
    names = [label(name) for name in match.groups()]
    tried = [name for name in known if name in names and "block" in known[name]]
    answers = [name for name in focuses(known) if name.startswith("inclined plane") and len(tried) > 1]
    finished = names if answers else tried[:-1]
    slid = {name: _slid_down(known.get(name, {}), name in finished) for name in names}
    answer = {FOCUS: {"1": next(iter(answers), "plane that answers")}}
    return merged(entered(known, "workshop"), {"stopwatch": {"hand": "taken", "power": "running"}}, slid, answer)


def _slid_down(attributes: dict[str, str], finished: bool) -> dict[str, str]:
    # The block moves further down a plane until the other plane is tried.
    return unended({"block": "placed", **attributes}, "further", "passed", finished)


# Tasks by their wording.

Make = Callable[["re.Match[str]", Known], Wanted]


def wanted(goal: str, known: Known) -> Wanted:
    """Return the states that a task requires, given the known facts; empty if its wording is unknown."""
    for form, make in _TASKS:
        if match := form.search(goal):
            return make(match, known)
    return {}


def sought(goal: str) -> tuple[str, ...]:
    """Return the things that a task names literally."""
    return next((match.groups() for form, _ in _TASKS if (match := form.search(goal))), ())


_TASKS: tuple[tuple[re.Pattern[str], Make], ...] = (
    (re.compile(r"find a\(n\) (.+?)\..*move it to the (\w+ box) in the ([\w ]+)\."), find),
    (re.compile(r"focus on the (\d )?life stages of the (.+?)(?: plant)?, starting"), stages),
    (re.compile(r"the animal with the (longest|shortest) life span"), life_spans),
    (re.compile(r"to grow an? (.+?)(?: from seed)?\."), grow),
    (re.compile(r"recessive trait in the (.+?) plant"), inherit),
    (re.compile(r"to (boil|melt|freeze|change the state of matter of) (.+?)\."), change),
    (re.compile(r"the (temperature|melting point) of (.+?), which is located around the (.+?)\."), measure),
    (re.compile(r"create (\S+) paint"), paint),
    (re.compile(r"create the substance '(.+?)'"), mix),
    (
        re.compile(
            r"if (.+?) is electrically conductive\. The .+? is located around the (.+?)\."
            r".*? place it in the (\w+ box)\..*? place it in the (\w+ box)\."
        ),
        conduct,
    ),
    (re.compile(r"turn on the (.+?)(?: by powering it using (a (?:non)?renewable) power source)?\."), power),
    (re.compile(r"two inclined planes \((.+?), (.+?)\)"), planes),
)


# The extractor.


class ScienceWorldFactors:
    """Extractor of factored states. An observation shows little of the world, so a state accumulates all facts.

    The required states are milestones that a task names or that every agent has to reach, some from general knowledge
    (life spans, paints); no gold path is read. A task in an unknown wording requires nothing.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return the previous state with the facts that an observation adds."""
        known = as_mapping(state)
        seen(known, action, observation, sought(goal))
        return factored(known)

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return the states that the task requires of the things known by now."""
        return factored(wanted(goal, as_mapping(state))) if goal else before
