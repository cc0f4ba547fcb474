"""The simulator's own state, read from its object tree: what exists, where it is, and in what condition.

Agents never see it. It is the ground truth by which certificates are audited.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from certigraph.adapters.scienceworld.conditions import ROOMS, ConditionKind, WordedCondition, is_vague

HIDDEN = ("agent", "inventory", "universe", "air", "ground", "terminal 1", "terminal 2", "anode", "cathode")
"""Objects of the tree that are no things of a task."""


class WorldObject(NamedTuple):
    """Thing in the world."""

    name: str
    room: str
    holders: tuple[str, ...]
    """Names of what holds it, from the outside in, without the room; the agent's inventory is `inventory`."""
    visible: bool
    """Whether all that holds it is open or of glass."""


class WorldState(NamedTuple):
    """State of the simulated world."""

    room: str
    """Room of the agent."""
    objects: tuple[WorldObject, ...]
    focus: str = ""
    """Name of the thing in focus."""

    def holds(self, condition: WordedCondition) -> bool | None:
        """Return whether a condition holds; None if it names a kind or a place by which the tree cannot be searched."""
        thing, place = condition.thing.lower(), condition.place.lower()
        if condition.kind == "be":
            return self.room == place if place in ROOMS else None
        if is_vague(thing):
            return None
        if condition.kind == "focus":
            return self.focus == thing
        return any(self._fits(named, condition.kind, place) for named in self.objects if named.name == thing)

    def _fits(self, thing: WorldObject, kind: ConditionKind, place: str) -> bool:
        match kind:
            case "have":
                return "inventory" in thing.holders
            case "placed":
                return place in (*thing.holders, thing.room)
            case _:
                return thing.room == self.room and (kind == "made" or thing.visible)


def read_world(tree: Mapping[str, Any], focus: str = "") -> WorldState:
    """Read the state of the world.

    Args:
        tree: the simulator's object tree, parsed from JSON.
        focus: name of the thing in focus, which the tree does not hold.
    """
    things = tuple(thing for room in _parts_of(tree) for thing in _things_in(room, room["name"].lower(), (), True))
    room = next((thing.room for thing in things if thing.name == "agent"), "")
    return WorldState(room, tuple(thing for thing in things if thing.name not in HIDDEN), focus.lower())


def _things_in(node: Mapping[str, Any], room: str, holders: tuple[str, ...], visible: bool) -> Iterator[WorldObject]:
    for part in _parts_of(node):
        name = part["name"].lower()
        yield WorldObject(name, room, holders, visible)
        inside = holders if name == "agent" else (*holders, name)
        yield from _things_in(part, room, inside, visible and not _hides_contents(part))


def _hides_contents(node: Mapping[str, Any]) -> bool:
    is_glass = (node.get("propMaterial") or {}).get("substanceName") == "glass"
    return not is_glass and not (node.get("propContainer") or {}).get("isOpen", True)


def _parts_of(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = node.get("contents") or {}
    parts = list(contents.values()) if isinstance(contents, Mapping) else list(contents)
    return [part for part in parts if not part.get("isDeleted")]
