"""A draft of the plan, read off the task's own sentences: what they order, in their order, in the known wordings.

It is shown to the model that proposes the plan, which keeps, completes or replaces it. Not in the paper, which has the
model write the plan from the task alone (`scienceworld:paper`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

ROOMS = (
    "art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway", "kitchen", "living room", "outside",
    "workshop",
)  # fmt: skip

_ROOM = "|".join(ROOMS)
_SENTENCE = re.compile(r"(?<=\.)\s+|, (?=place|put|move|focus)", re.IGNORECASE)
_FIND = re.compile(r"Your task is to find an?(?:\(n\))? (?P<thing>[\w -]+)$")
_CHANGE = re.compile(r"Your task is to (?:boil|melt|freeze|change the state of matter of) (?P<thing>[\w ]+)$")
_MAKE = re.compile(r"Your task is to use chemistry to create (?:the substance )?'?(?P<thing>[\w -]+)'?$")
_GROW = re.compile(r"Your task is to grow an? (?P<thing>[\w ]+?)(?: from seed)?$")
_FOCUS = re.compile(r"\bfocus on (?:the \d+ |the |an? )?(?P<thing>[\w' -]+)", re.IGNORECASE)
_PLACE = re.compile(
    rf"(?:move|place|put) (?P<thing>[\w ]{{1,80}}?) (?:to|in|into) the (?P<place>[\w ]{{1,80}}?)"
    rf"(?: in the (?P<room>{_ROOM}))?$",
    re.IGNORECASE,
)
_NEAR = re.compile(
    rf"(?P<thing>[\w' -]{{1,80}}?),? (?:which )?(?:is|are|can be|might be) (?:located |found )?"
    rf"[a-z ]{{0,80}}?'?(?P<room>{_ROOM})\b"
)
_VAGUE = ("it", "thing", "the thing", "substance", "the substance")


class _Order(NamedTuple):
    """One thing that a sentence orders."""

    kind: str
    thing: str
    place: str = ""
    room: str = ""


def draft(goal: str) -> list[str]:
    """Conditions for a task's text, in order and without the goal itself; empty where its sentences order nothing."""
    sentences = [part.strip(" .") for part in _SENTENCE.split(goal)]
    rooms = {found["thing"].lower(): found["room"] for text in sentences if (found := _NEAR.search(text))}
    conditions = [line for order in _merged(_resolved(sentences)) for line in _conditions(order, rooms)]
    return list(dict.fromkeys(conditions))


def _resolved(sentences: list[str]) -> Iterator[_Order]:
    """The orders, with the thing that "it" and "the thing" stand for in their place."""
    meant = next((found["thing"] for form in (_FIND, _CHANGE) if (found := form.match(sentences[0]))), "")
    for order in (order for text in sentences for order in _orders(text)):
        vague = order.thing.lower() in _VAGUE
        yield order._replace(thing=meant) if vague and meant else order
        meant = meant if vague else order.thing


def _orders(sentence: str) -> Iterator[_Order]:
    if found := _MAKE.match(sentence):
        yield _Order("make", found["thing"])
    if found := _GROW.match(sentence):
        yield _Order("grow", f"{found['thing']} seed")
    if found := _FOCUS.search(sentence):
        yield _Order("focus", re.sub(r" (?:you created|starting).*", "", found["thing"]).strip())
    if found := _PLACE.match(sentence):
        yield _Order("place", found["thing"], found["place"], found["room"] or "")
    if found := _CHANGE.match(sentence):
        yield _Order("find", found["thing"])


def _conditions(order: _Order, rooms: Mapping[str, str]) -> list[str]:
    thing = order.thing
    room = order.room or _room_of(order.place or thing, rooms)
    there = [f"The agent is in the {room}."] if room else []
    found = there or [f"The location of the {thing} is known."]
    match order.kind:
        case "focus":
            return [*found, f"The {thing} is in focus."]
        case "place":
            return [f"The inventory contains the {thing}.", *there, f"The {thing} is in the {order.place}."]
        case "make":
            return [f"The {thing} has been made."]
        case "grow":
            return [*found, f"The inventory contains the {thing}."]
        case _:
            return found


def _merged(orders: Iterable[_Order]) -> list[_Order]:
    """Boxes of which the experiment decides as one order: "the red box or the green box"."""
    merged: list[_Order] = []
    for order in orders:
        last, box = (merged[-1] if merged else None), order.place or order.thing
        if last and last.kind == order.kind and box.endswith(" box") and (last.place or last.thing).endswith(" box"):
            field = "place" if order.place else "thing"
            merged[-1] = last._replace(**{field: f"{getattr(last, field)} or the {box}"})
        else:
            merged.append(order)
    return merged


def _room_of(thing: str, rooms: Mapping[str, str]) -> str:
    head = thing.lower().split(" with ")[0].split(" of ")[-1]
    plural = "boxes" if head.endswith("box") else head
    return next((room for near, room in rooms.items() if plural in near or near.endswith(f"{head}s")), "")
