"""Pieces of wanted states that several of ScienceWorld's tasks share."""

from collections.abc import Callable

from certigraph.adapters.scienceworld.factors_seen import FOCUS, MAP, Known

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
