"""ScienceWorld's tasks about matter, as wanted states: heat and cold, mixtures, circuits, inclined planes."""

import re

from certigraph.adapters.scienceworld.factors_kinds import MIXED_PAINTS, SOURCES
from certigraph.adapters.scienceworld.factors_seen import FOCUS, HEAT, RECIPE, Known, label
from certigraph.adapters.scienceworld.factors_states import (
    Wanted,
    entered,
    explored,
    focused,
    focuses,
    merged,
    unended,
    wired,
)

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
    slid = {name: _slid(known.get(name, {}), name in over) for name in names}
    answer = {FOCUS: {"1": next(iter(answers), "plane that answers")}}
    return merged(entered(known, "workshop"), {"stopwatch": {"hand": "taken", "power": "running"}}, slid, answer)


def _slid(has: dict[str, str], over: bool) -> dict[str, str]:
    """A block put on a plane, and further and further down it until the other one is tried."""
    return unended({"block": "placed", **has}, "further", "passed", over)
