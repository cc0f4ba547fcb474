"""ScienceWorld's text as factored states."""

import re
from collections.abc import Callable, Container

from certigraph.state.rewards import FactoredState, as_mapping, factored

# What ScienceWorld's answers tell: added to what is known of rooms, things in hand, focus, power and wires.

Known = dict[str, dict[str, str]]
"""Identity -> attribute -> value. What has happened to a thing stays known: a thing once taken was in hand."""

AGENT, MAP, FOCUS, HEAT, RECIPE = "agent", "map", "focus", "temperature", "recipe"

HEATS = (20, 50, 80, 100, 150, 200, 300, 500, 800, 1200, 1700, 2300)
"""Degrees Celsius that warming goes past."""

_ROOM = re.compile(r"This (?:room|outside location) is called the (.+?)\.")
_POWERED = re.compile(r"\ban? ([\w ]{1,60}?), which is (?:turned )?(on|off)\b", re.IGNORECASE)
_RUNS = {"on": "running", "activated": "running", "off": "idle", "deactivated": "idle"}


def seen(known: Known, action: str, observation: str, sought: Container[str]) -> None:
    """Add what a step tells; of the things that a look around lists, only those sought and those known already."""
    for form, tell in _TOLD:
        for told in form.finditer(observation):
            tell(known, action, told)
    if room := _ROOM.match(observation):
        _entered(known, room[1])
        for device, power in _POWERED.findall(observation):
            if device in known or device in sought:
                of(known, device)["power"] = _RUNS[power]


def of(known: Known, identity: str) -> dict[str, str]:
    """The attributes of a thing, which is known from now on."""
    return known.setdefault(identity, {})


def label(plane: str) -> str:
    """What an inclined plane is told apart by: `inclined plane with a steel surface` -> `steel plane`."""
    return f"{plane.removesuffix(' surface').split(' with a ')[-1].split()[-1].lower()} plane"


def _entered(known: Known, room: str) -> None:
    of(known, AGENT)["location"] = room
    of(known, room)["visit"] = "visited"
    of(known, MAP)[room] = "visited"
    for has in known.values():
        if has.get("holder") == AGENT:
            has["room"] = room


def _moved(known: Known, action: str, told: re.Match[str]) -> None:
    thing, place = of(known, told[1]), told[2]
    if place == "inventory":
        thing.update(hand="taken", holder=AGENT)
        return
    thing.pop("holder", None)
    thing.update(place=place)
    of(known, place)["contents"] = "filled"
    if plane := re.search(r" to (inclined plane.*)", action):
        of(known, label(plane[1]))["block"] = "placed"


def _focused(known: Known, action: str, told: re.Match[str]) -> None:
    of(known, told[1])["focus"] = "focused"
    stage, past = re.search(r"in the (\w+) stage", action), of(known, FOCUS)
    past[f"{len(past) + 1}"] = f"{told[1]} {stage[1]}" if stage else told[1]


def _opened(known: Known, action: str, told: re.Match[str]) -> None:
    if room := re.fullmatch(r"open door to (.+)", action):
        of(known, room[1])["door"] = "open"
        of(known, MAP)[f"door to {room[1]}"] = "open"
    elif told[1] != "door":
        of(known, told[1])["lid"] = "open"


def _connected(known: Known, action: str, told: re.Match[str]) -> None:
    """Which kind of thing each end leads to: which of the wires makes no difference."""
    for end, thing, other in ((told[1], told[2], told[4]), (told[3], told[4], told[2])):
        if not thing.endswith("wire"):
            of(known, thing)[end] = "wire" if other.endswith("wire") else other


def _measured(known: Known, action: str, told: re.Match[str]) -> None:
    degrees = int(told[1])
    of(known, "thermometer")["reading"] = "measured"
    of(known, HEAT).update({f"past {heat}": "reached" for heat in HEATS if degrees > heat}, degrees=told[1])


def _slid(known: Known, action: str, told: re.Match[str]) -> None:
    tenths = int(told[2] or 100) // 10
    of(known, label(told[1])).update({f"{tenth} tenths": "passed" for tenth in range(1, tenths + 1)})


def _poured(known: Known, action: str, told: re.Match[str]) -> None:
    of(known, told[1])["poured"] = "wet"
    for paint in re.findall(r"cup containing ([\w-]+ paint)", action.partition(" in ")[0]):
        of(known, paint)["mixture"] = "poured"


Tell = Callable[[Known, str, "re.Match[str]"], None]
_TOLD: tuple[tuple[re.Pattern[str], Tell], ...] = (
    (re.compile(r"^You move (?:through .+? )?to the (.+?)\."), lambda known, _, told: _entered(known, told[1])),
    (re.compile(r"You move the (.+?) to the (.+?)\."), _moved),
    (re.compile(r"You focus on the (.+?)\."), _focused),
    (re.compile(r"^The (.+?) is (?:now|already) open\."), _opened),
    (
        re.compile(r"^The (.+?) is now (activated|deactivated)\."),
        lambda known, _, told: of(known, told[1]).update(power=_RUNS[told[2]]),
    ),
    (re.compile(r"^(\w+(?: \d)?) on (.+?) is now connected to (\w+(?: \d)?) on (.+)"), _connected),
    (re.compile(r"measures a temperature of (-?\d+) degrees"), _measured),
    (re.compile(r"^an (inclined plane.*?), with: .*? (?:approximately (\d+)% down|at the bottom of)"), _slid),
    (re.compile(r"mix to produce (.+?)\."), lambda known, _, told: of(known, told[1]).update(mixture="made")),
    (re.compile(r"^You pour the contents of the .+? into the (.+?)\."), _poured),
    (
        re.compile(r"To make .+?, you need to mix (.+?)\."),
        lambda known, _, told: of(known, RECIPE).update(reading="known", parts=told[1]),
    ),
    (re.compile(r"^a substance called (.+)$"), lambda known, _, told: of(known, told[1]).update(look="seen")),
)


# What anyone knows of the things in ScienceWorld's tasks: which are animals, how old they get, how paints mix.

LIFE_SPANS = {
    "giant tortoise": 150, "tortoise": 150, "turtle": 60, "crocodile": 70, "elephant": 65, "parrot": 60,
    "alligator": 50, "brown bear": 25, "wolf": 14, "beaver": 14, "frog": 10, "toad": 10, "dove": 9, "blue jay": 7,
    "chameleon": 6, "chipmunk": 3, "hedgehog": 4, "rabbit": 8, "mouse": 2, "bee": 0.3, "spider": 1, "ant": 0.5,
    "butterfly": 0.1, "moth": 0.1, "dragonfly": 0.1, "tadpole": 10, "caterpillar": 0.1,
}  # fmt: skip
"""Years that an animal may live, roughly."""

SOURCES = {
    "a renewable": ("solar panel", "wind generator"),
    "a nonrenewable": ("gas generator", "nuclear generator"),
    "": ("battery", "solar panel", "wind generator", "gas generator", "nuclear generator"),
}
"""What gives power, by what a task asks of it."""

PLANTS = ("tree", "plant", "seed", "flower", "sapling")

MIXED_PAINTS = {
    "orange": ("red", "yellow"),
    "green": ("blue", "yellow"),
    "violet": ("red", "blue"),
    "purple": ("red", "blue"),
}


def animal(name: str) -> str:
    """The animal that a thing's name has, whatever its stage of life: `baby wolf` -> `wolf`; empty where none."""
    return max((one for one in LIFE_SPANS if one in name), key=len, default="")


def is_kind(name: str, kind: str) -> bool:
    """Whether a thing is what a task asks for: an animal, a plant, a living or a non-living thing."""
    beast, plant = bool(animal(name)), any(word in name.split() for word in PLANTS)
    return {"animal": beast, "plant": plant, "living thing": beast or plant}.get(kind, not (beast or plant))


# Pieces of wanted states that several of ScienceWorld's tasks share.

Wanted = dict[str, dict[str, str]]
"""Identity -> attribute -> value that is wanted of it."""

LEAST = 6
"""States that what has no known end takes in at least: a search, a warming up."""


def explored(known: Known, found: bool) -> Wanted:
    """To have looked where what is sought may be: the ways that were taken, and until it is found some more."""
    ways = unended(known.get(MAP, {}), "elsewhere", "visited", found)
    return {MAP: ways} if ways else {}


def unended(has: dict[str, str], more: str, value: str, ended: bool) -> dict[str, str]:
    """What there is, and until it has ended something more: at least one state, at least LEAST in all."""
    missing = 0 if ended else max(1, LEAST - len(has))
    return {**has, **{f"{more} {number}": value for number in range(1, missing + 1)}}


def entered(known: Known, room: str) -> Wanted:
    """To have been in a room; its door has to be open, unless the agent came another way."""
    there = known.get(room, {})
    return {room: {"visit": "visited"} | ({} if "visit" in there and "door" not in there else {"door": "open"})}


def focuses(known: Known) -> list[str]:
    """What the agent has focused on, in order."""
    return list(known.get(FOCUS, {}).values())


def focused(known: Known, accept: Callable[[str], bool], otherwise: str) -> Wanted:
    """To have focused on a thing of some sort: the first one that is, else what it is called meanwhile."""
    return {next((name for name in focuses(known) if accept(name)), otherwise): {"focus": "focused"}}


def wired(*ends: str) -> dict[str, str]:
    """Ends that have to lead to a wire."""
    return dict.fromkeys(ends, "wire")


def merged(*parts: Wanted) -> Wanted:
    """All of them; what several want of one thing is wanted together."""
    whole: Wanted = {}
    for part in parts:
        for identity, has in part.items():
            whole[identity] = {**whole.get(identity, {}), **has}
    return whole


# ScienceWorld's tasks about living things, as wanted states: finding and moving, stages and spans of life, growing.


def find(told: re.Match[str], known: Known) -> Wanted:
    """A thing of a kind, in focus, taken to the room of a box and put into it."""
    kind, box, room = told.groups()
    [thing] = focus = focused(known, lambda name: is_kind(name, kind), kind)
    carried = next((name for name, has in known.items() if "hand" in has and _holds(name, thing)), thing)
    return merged(explored(known, thing != kind), focus, {carried: {"hand": "taken", "room": room, "place": box}})


def _holds(carried: str, thing: str) -> bool:
    """A plant is carried in its pot; what is focused on as a `baby wolf` is then called a wolf."""
    return bool(set(carried.split()) & set(thing.split())) or "flower pot" in carried


def stages(told: re.Match[str], known: Known) -> Wanted:
    """The focus on one stage of a life after the other."""
    asked, name = int(told[1] or 4), told[2].split()[0]
    past = [thing for thing in focuses(known) if name in thing][:asked]
    done = {f"{number}": thing for number, thing in enumerate(past, 1)}
    ahead = {f"{number}": "next stage of life" for number in range(len(past) + 1, asked + 1)}
    return entered(known, "outside") | {FOCUS: done | ahead}


def life_spans(told: re.Match[str], known: Known) -> Wanted:
    """The focus on the animal of those known that lives longest, or shortest, or on both."""
    met = sorted({animal(name) for name in known} - {""}, key=LIFE_SPANS.__getitem__)
    ends = {"longest": met[-1:], "shortest": met[:1]}
    asked = dict.fromkeys(re.findall(r"(longest|shortest) life span", told.string))
    return merged(entered(known, "outside"), *(_one_of(known, ends[end], f"{end} life") for end in asked))


def _one_of(known: Known, animals: list[str], otherwise: str) -> Wanted:
    return focused(known, lambda name: animal(name) in animals, otherwise)


def grow(told: re.Match[str], known: Known) -> Wanted:
    """A seed in focus and planted in a pot that gets water, and what grows of it."""
    plant = told[1].removesuffix(" plant")
    grown = {plant: {"focus": "focused"}} if plant == told[1] else {f"{plant} seed": {"focus": "focused"}}
    return merged(entered(known, "kitchen"), _planted(plant, known), grown)


def inherit(told: re.Match[str], known: Known) -> Wanted:
    """Plants of a kind planted and watered, and the focus on the box that answers."""
    box = focused(known, lambda name: name.endswith("box"), "answer box")
    return merged(_planted(told[1], known), box)


def _planted(plant: str, known: Known) -> Wanted:
    """A seed in a pot of the greenhouse: the one that it was put into, once it is."""
    place = known.get(f"{plant} seed", {}).get("place", "")
    pot = place if "flower pot" in place else "flower pot"
    return merged(entered(known, "greenhouse"), {f"{plant} seed": {"place": pot}, pot: {"poured": "wet"}})


# ScienceWorld's tasks about matter, as wanted states: heat and cold, mixtures, circuits, inclined planes.

COLD = ("freezer", "fridge")
HOT = ("stove", "furnace", "oven", "hot plate", "fire pit")


def change(told: re.Match[str], known: Known) -> Wanted:
    """A substance found, in focus, where it gets hot or cold, until it looks different."""
    verb, stuff = told.groups()
    changed = any("look" in has and name != stuff and _is_of(name, stuff) for name, has in known.items())
    where = {"freeze": COLD, "boil": HOT, "melt": HOT}.get(verb, HOT + COLD)
    device = next((name for name, has in known.items() if "contents" in has and name.endswith(where)), where[0])
    cold = device.endswith(COLD)
    works = {"contents": "filled"} | ({} if cold else {"power": "running"})
    heat = {} if cold else warmed(known, changed)
    return merged(explored(known, stuff in known), {stuff: {"focus": "focused"}}, {device: works}, heat)


def _is_of(name: str, stuff: str) -> bool:
    return stuff in name or (stuff == "water" and name in ("steam", "ice"))


def warmed(known: Known, ended: bool) -> Wanted:
    """To be measured hotter and hotter, for how hot it has to get is not told."""
    has = {name: value for name, value in known.get(HEAT, {}).items() if value == "reached"}
    heats = unended(has, "hotter", "reached", ended)
    return {HEAT: heats} if heats else {}


def measure(told: re.Match[str], known: Known) -> Wanted:
    """A thermometer in hand and in focus, what it is for in focus, its reading, and the box that answers."""
    what, stuff, room = told.groups()
    tool = {"thermometer": {"hand": "taken", "focus": "focused", "reading": "measured"}}
    wanted = merged(explored(known, "thermometer" in known), entered(known, room), tool)
    if what == "temperature":
        thing = {"hand": "taken", "focus": "focused", "place": _by_degrees(told.string, known)}
        return merged(wanted, {stuff: thing})
    answered = focused(known, lambda name: name.endswith("box"), "answer box")
    return merged(wanted, {stuff: {"focus": "focused"}}, warmed(known, "answer box" not in answered), answered)


def _by_degrees(goal: str, known: Known) -> str:
    """The box for what is measured."""
    told, degrees = _BOXES.search(goal), known.get(HEAT, {}).get("degrees")
    if told is None or degrees is None:
        return "answer box"
    return told[2] if float(degrees) > float(told[1]) else told[3]


_BOXES = re.compile(r"above ([-\d.]+) .*?(\w+ box).*? below .*?(\w+ box)")


def paint(told: re.Match[str], known: Known) -> Wanted:
    """Paints poured together, mixed and in focus: one of two colours, or that one with a third."""
    colour = told[1]
    between = [part for part in colour.split("-") if "-" in colour and part in MIXED_PAINTS]
    parts = [part for one in [*between, colour] for part in MIXED_PAINTS.get(one, one.split("-"))]
    poured = {f"{part} paint": {"mixture": "poured"} for part in parts if part not in between}
    mixed = {f"{one} paint": {"mixture": "made", "focus": "focused"} for one in [*between, colour]}
    return merged(entered(known, "art studio"), poured, mixed)


def mix(told: re.Match[str], known: Known) -> Wanted:
    """The recipe read, its parts in hand, what it makes mixed and in focus."""
    parts = known.get(RECIPE, {}).get("parts", "ingredient").split(", ")
    taken = {part: {"hand": "taken"} for part in parts if part != "water"}
    water = {"sink": {"power": "idle"}} if "water" in parts else {}
    read = {RECIPE: {"hand": "taken", "reading": "known"}}
    return merged(entered(known, "kitchen"), read, taken, water, {told[1]: {"mixture": "made", "focus": "focused"}})


def conduct(told: re.Match[str], known: Known) -> Wanted:
    """A thing in focus between a battery and something that shows the current, then in the box that answers."""
    stuff, room, conducts, resists = told.groups()
    shows = next(
        (name for name, has in known.items() if "wire" in has.values() and name.endswith("bulb")), "light bulb"
    )
    box = conducts if known.get(shows, {}).get("power") == "running" else resists
    thing = {"hand": "taken", "focus": "focused", **wired("terminal 1", "terminal 2"), "place": box}
    poles = wired("anode", "cathode")
    return merged(entered(known, room), {stuff: thing, "battery": poles, shows: poles})


def power(told: re.Match[str], known: Known) -> Wanted:
    """A part in focus, wired to a source of power, and running."""
    part, asked, poles = told[1], told[2] or "", wired("anode", "cathode")
    source = next((name for name in SOURCES[asked] if "wire" in known.get(name, {}).values()), SOURCES[asked][0])
    return merged(entered(known, "workshop"), {part: {"focus": "focused", **poles}, source: poles})


def planes(told: re.Match[str], known: Known) -> Wanted:
    """A block slid down both planes by the clock, then the focus on the plane that answers."""
    names = [label(name) for name in told.groups()]
    tried = [name for name in known if name in names and "block" in known[name]]
    answers = [name for name in focuses(known) if name.startswith("inclined plane") and len(tried) > 1]
    over = names if answers else tried[:-1]
    slid = {name: _slid_down(known.get(name, {}), name in over) for name in names}
    answer = {FOCUS: {"1": next(iter(answers), "plane that answers")}}
    return merged(entered(known, "workshop"), {"stopwatch": {"hand": "taken", "power": "running"}}, slid, answer)


def _slid_down(has: dict[str, str], over: bool) -> dict[str, str]:
    """A block put on a plane, and further and further down it until the other one is tried."""
    return unended({"block": "placed", **has}, "further", "passed", over)


# ScienceWorld's tasks by their wording, each with what makes wanted states of it.

Make = Callable[["re.Match[str]", Known], Wanted]


def wanted(goal: str, known: Known) -> Wanted:
    """The states that a task names, or implies for any agent, given what is known; none where its wording is not."""
    for form, make in _TASKS:
        if told := form.search(goal):
            return make(told, known)
    return {}


def sought(goal: str) -> tuple[str, ...]:
    """The things that a task names in so many words."""
    return next((told.groups() for form, _ in _TASKS if (told := form.search(goal))), ())


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


# ScienceWorld's text as factored states: what the agent knows of rooms and things, and what its task wants of them.


class ScienceWorldFactors:
    """Answers tell little of the world at a time, so that the state is everything that was told so far.

    Written by hand for the simulator's sentences and its thirty tasks; the paper has a language model extract. What is
    wanted are milestones that a task names or implies for any agent, some of them from general knowledge (life spans,
    paints: factors_kinds.py); no gold path is read. A task in other words wants nothing.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The state before, with what the answer adds to it."""
        known = as_mapping(state)
        seen(known, action, observation, sought(goal))
        return factored(known)

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """The states that the task names or implies, of the things that are known by now."""
        return factored(wanted(goal, as_mapping(state))) if goal else before
