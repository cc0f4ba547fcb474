"""ScienceWorld's tasks about living things, as wanted states: finding and moving, stages and spans of life, growing."""

import re

from certigraph.adapters.scienceworld.factors_kinds import LIFE_SPANS, animal, is_kind
from certigraph.adapters.scienceworld.factors_seen import FOCUS, Known
from certigraph.adapters.scienceworld.factors_states import Wanted, entered, explored, focused, focuses, merged


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
