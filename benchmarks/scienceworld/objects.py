"""The simulator's own state, read from its object tree: what exists, where it is, and in what condition.

Agents and language models never see it. It is the ground truth by which certificates are audited, and from which
scripted models answer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor
from typing import Any, NamedTuple

from certigraph.adapters.protocols import StateCheck
from certigraph.benchmarks.scienceworld.conditions import (
    MAX_CONDITION_CHARS,
    ROOMS,
    WordedCondition,
    is_vague,
    parse_condition,
)
from certigraph.state.records import Record

HIDDEN = ("agent", "inventory", "universe", "air", "ground", "terminal 1", "terminal 2", "anode", "cathode")
"""Objects of the tree that are not things of a task."""

# Conditions that only the object tree decides, besides those of `conditions.parse_condition`.

_WORDINGS = (
    ("moves", r"at least (?P<place>\d+) moves have been made"),
    ("above", r"the temperature of the (?P<thing>.+?) is above (?P<place>-?\d+) degrees celsius"),
    ("below", r"the temperature of the (?P<thing>.+?) is below (?P<place>-?\d+) degrees celsius"),
    ("connected", r"the (?P<thing>.+?) is connected to the (?P<place>.+?)"),
    ("device", r"the (?P<thing>.+?) is (?P<place>activated|deactivated)"),
    ("container", r"the (?P<thing>.+?) is (?P<place>open|closed)"),
    ("matter", r"the (?P<thing>.+?) is a (?P<place>solid|liquid|gas)"),
)
_PATTERNS = tuple((kind, re.compile(f"{wording}\\.?", re.IGNORECASE)) for kind, wording in _WORDINGS)


class StateCondition(NamedTuple):
    """Condition in a wording that the object tree decides; its fields are those of `WordedCondition`."""

    kind: str
    thing: str
    place: str
    """Place, other thing, property or number that the condition names."""


def parse_state_condition(text: str) -> StateCondition | WordedCondition | None:
    """Parse the condition that a text states; None if the wording is unknown."""
    for kind, pattern in _PATTERNS if len(text) <= MAX_CONDITION_CHARS else ():
        if match := pattern.fullmatch(text.strip()):
            return StateCondition(kind, match.groupdict().get("thing", ""), match["place"])
    return parse_condition(text)


# The state.


class WorldObject(NamedTuple):
    """Thing in the world."""

    name: str
    room: str
    holders: tuple[str, ...]
    """Names of what holds it, from the outside in, without the room; the agent's inventory is `inventory`."""
    visible: bool
    """Whether all that holds it is open or of glass."""
    properties: tuple[str, ...] = ()
    """What of activated, deactivated, open, closed, solid, liquid and gas it is."""
    temperature: float | None = None
    """Degrees Celsius."""
    connected: tuple[str, ...] = ()
    """Names of the things to which it is connected electrically."""

    @property
    def place(self) -> str:
        """Name of what holds it directly, or else of its room."""
        return self.holders[-1] if self.holders else self.room

    def describe(self) -> str:
        """Describe where and in which condition the thing is."""
        warmth = [] if self.temperature is None else [f"{self.temperature:.0f} degrees"]
        wired = [f"connected to the {other}" for other in self.connected]
        return ", ".join([f"{self.name} in {self.place}", *self.properties, *warmth, *wired])


MAX_DESCRIBED = 3
"""Maximum number of things of one name that a check describes."""


class WorldState(NamedTuple):
    """State of the simulated world."""

    room: str
    """Room of the agent."""
    objects: tuple[WorldObject, ...]
    focus: str = ""
    """Name of the thing in focus."""
    moves: int = 0
    """Number of moves made so far."""

    def check(self, text: str) -> StateCheck | None:
        """Check a condition, and say what the state shows about it; None if it cannot be decided by the state."""
        condition = parse_state_condition(text)
        holds = self.holds(condition) if condition else None
        return None if condition is None or holds is None else StateCheck(holds, self._describe(condition))

    def holds(self, condition: WordedCondition | StateCondition) -> bool | None:
        """Return whether a condition holds; None if it names a kind or a place by which the tree cannot be searched."""
        thing, place = condition.thing.lower(), condition.place.lower()
        if condition.kind == "be":
            return self.room == place if place in ROOMS else None
        if condition.kind == "moves":
            return self.moves >= int(place)
        if is_vague(thing):
            return None
        if condition.kind == "focus":
            return self.focus == thing
        return any(self._fits(named, condition.kind, place) for named in self._meant(condition))

    def named(self, thing: str) -> list[WorldObject]:
        """Return the things of a name."""
        return [one for one in self.objects if one.name == thing]

    def _meant(self, condition: WordedCondition | StateCondition) -> list[WorldObject]:
        # "The sink is activated" means the sink in the agent's room, if there is one.
        named = self.named(condition.thing.lower())
        near = [one for one in named if one.room == self.room]
        return near or named if condition.kind in _PROPERTIES else named

    def _fits(self, thing: WorldObject, kind: str, place: str) -> bool:
        match kind:
            case "have":
                return "inventory" in thing.holders
            case "placed":
                return place in (*thing.holders, thing.room)
            case "device" | "container" | "matter" | "off" | "on":
                return _STATES.get(kind, place) in thing.properties
            case "connected":
                return place in thing.connected
            case "above" | "below":
                return thing.temperature is not None and (thing.temperature - float(place)) * _SIGNS[kind] > 0
            case _:
                return thing.room == self.room and (kind == "made" or thing.visible)

    def _describe(self, condition: WordedCondition | StateCondition) -> str:
        match condition.kind:
            case "be":
                return f"the agent is in the {self.room}"
            case "moves":
                return f"moves: {self.moves}"
            case "focus":
                return f"in focus: {self.focus or 'nothing'}"
            case _:
                meant = self._meant(condition)
                fit = [one for one in meant if self._fits(one, condition.kind, condition.place.lower())]
                found = [one.describe() for one in (fit or meant)[:MAX_DESCRIBED]]
                return "; ".join(dict.fromkeys(found)) or f"there is no {condition.thing}"


_SIGNS = {"above": 1, "below": -1}
_STATES = {"on": "activated", "off": "deactivated"}
"""Kind of a condition on a device -> the property that it names."""

_PROPERTIES = ("above", "below", "connected", "container", "device", "matter", "off", "on")
"""Kinds of conditions on a property of a thing."""


_FOCUSED = re.compile(r"You focus on the (.+)\.")


def parse_focus(reply: str) -> str:
    """Parse the name of the thing that the agent focuses on by the action with this reply; empty if by none."""
    match = _FOCUSED.fullmatch(reply.strip())
    return match[1].lower() if match else ""


def read_world(tree: Mapping[str, Any], focus: str = "", moves: int = 0) -> WorldState:
    """Read the state of the world.

    Args:
        tree: the simulator's object tree, parsed from JSON.
        focus: name of the thing in focus, which the tree does not hold.
        moves: number of moves made so far, which the tree does not hold.
    """
    owners = {
        part["uuid"]: node["name"].lower() for node in _all_parts(tree) for part in _parts_of(node) if "uuid" in part
    }
    rooms = [(room, room["name"].lower()) for room in _parts_of(tree)]
    things = tuple(thing for room, name in rooms for thing in _things_in(room, name, (), True, owners))
    room = next((thing.room for thing in things if thing.name == "agent"), "")
    return WorldState(room, tuple(thing for thing in things if thing.name not in HIDDEN), focus.lower(), moves)


def _things_in(
    node: Mapping[str, Any], room: str, holders: tuple[str, ...], visible: bool, owners: Mapping[str, str]
) -> Iterator[WorldObject]:
    for part in _parts_of(node):
        name, material = part["name"].lower(), part.get("propMaterial") or {}
        wired = tuple(dict.fromkeys(owners[end] for end in _wires_of(part) if end in owners))
        yield WorldObject(name, room, holders, visible, _properties(part), material.get("temperatureC"), wired)
        inside = holders if name == "agent" else (*holders, name)
        yield from _things_in(part, room, inside, visible and not _hides_contents(part), owners)


def _properties(node: Mapping[str, Any]) -> tuple[str, ...]:
    device, container = node.get("propDevice") or {}, node.get("propContainer") or {}
    material = node.get("propMaterial") or {}
    found = ["activated" if device.get("isActivated") else "deactivated"] if device else []
    found += ["open" if container.get("isOpen") else "closed"] if container.get("isClosable") else []
    return (*found, *filter(None, [material.get("stateOfMatter")]))


def _wires_of(node: Mapping[str, Any]) -> Iterator[str]:
    # Ids of the terminals to which those of a thing are connected.
    for part in _parts_of(node):
        yield from (part.get("propElectricalConnection") or {}).get("connectedTo", ())


def _hides_contents(node: Mapping[str, Any]) -> bool:
    is_glass = (node.get("propMaterial") or {}).get("substanceName") == "glass"
    return not is_glass and not (node.get("propContainer") or {}).get("isOpen", True)


def _all_parts(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for part in _parts_of(node):
        yield from _all_parts(part)


def _parts_of(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = node.get("contents") or {}
    parts = list(contents.values()) if isinstance(contents, Mapping) else list(contents)
    return [part for part in parts if not part.get("isDeleted")]


# World states along a path: conditions that become true on it, in order, of which plans are made.

MAX_ACTIONS = 5
"""Maximum number of actions from one state of a path to the next, where anything changes in between.

It is below the tries that any benchmark protocol grants a condition, so that only mistakes use them up.
"""

_TRAVEL = re.compile(r"(go to|teleport to|open door|close door|look around$|look$)")


class PathState(Record):
    """Condition that becomes true along a path of actions."""

    text: str
    after: int
    """Number of actions after which it becomes true."""
    held: tuple[int, ...]
    """All numbers of actions after which it holds."""


class _Change(NamedTuple):
    """Condition that becomes true by action number `after`."""

    after: int
    text: str
    weight: int
    """MAIN for a step of a plan; what has less weight only divides long waits, by its weight."""


_MAIN, _IN_FOCUS, _OTHER, _MOVES = 3, 2, 1, 0


def select_states(actions: Sequence[str], states: Sequence[WorldState]) -> tuple[PathState, ...]:
    """Select the conditions that a path of actions makes true, in order, at most MAX_ACTIONS actions apart.

    They say where the agent is when it does something there, what it carries, what is in what, in focus, activated,
    open, connected, molten or made. Where none of this changes for long, temperatures, rooms that are only passed
    through and the number of moves divide the path.

    Args:
        actions: the actions.
        states: state of the world before the first action and after each.
    """
    changes = list(_find_changes(actions, states))
    chosen: list[PathState] = []
    for change in (one for one in changes if one.weight == _MAIN):
        _append_new(chosen, change, states)
    planned = {one.text for one in chosen}
    divisions = [one for one in changes if one.weight < _MAIN and one.text not in planned]
    complete: list[PathState] = []
    for end in (*chosen, None):
        until = end.after if end else len(actions)
        while until - (complete[-1].after if complete else 0) > MAX_ACTIONS:
            if not _append_division(complete, divisions, until, states):
                break
        complete += [end] if end else []
    return tuple(complete)


def _append_new(chosen: list[PathState], change: _Change, states: Sequence[WorldState]) -> bool:
    # A condition that held since the one before would be certified with that one, and not when it is reached.
    since = chosen[-1].after if chosen else 0
    held = [number for number, state in enumerate(states) if (check := state.check(change.text)) and check.holds]
    known = change.text in (one.text for one in chosen)
    if known or change.after not in held or any(number in held for number in range(since, change.after)):
        return False
    chosen.append(PathState(text=change.text, after=change.after, held=tuple(held)))
    return True


def _append_division(
    complete: list[PathState], divisions: Sequence[_Change], until: int, states: Sequence[WorldState]
) -> bool:
    since = complete[-1].after if complete else 0
    near = [one for one in divisions if since < one.after <= min(since + MAX_ACTIONS, until - 1)]
    half = since + MAX_ACTIONS // 2
    ranked = sorted(
        near, key=lambda one: (one.weight > _MOVES, one.weight * (one.after > half), one.after), reverse=True
    )
    return any(_append_new(complete, one, states) for one in ranked)


def _find_changes(actions: Sequence[str], states: Sequence[WorldState]) -> Iterator[_Change]:
    focused = {state.focus for state in states if state.focus}
    names = _find_names(actions, states) | focused
    for number, (action, before, after) in enumerate(zip(actions, states, states[1:], strict=False), 1):
        if after.room != before.room:
            left = next((n for n in range(number, len(actions)) if states[n].room != after.room), len(actions))
            is_used = any(not _TRAVEL.match(actions[n]) for n in range(number, left))
            yield _Change(number, f"The agent is in the {after.room}.", _MAIN if is_used else _OTHER)
        meant = {name for name in names if name in focused or name in action.lower()}
        for thing in (thing for thing in after.objects if thing.room == after.room):
            for text, weight in _facts_of(thing, before, after, names, is_meant=thing.name in meant):
                if not ((check := before.check(text)) and check.holds):
                    yield _Change(number, text, weight)
        if after.focus != before.focus:
            yield _Change(number, f"The {after.focus} is in focus.", _MAIN)
        if after.moves > before.moves:
            yield _Change(number, f"At least {after.moves} moves have been made.", _MOVES)


def _facts_of(
    thing: WorldObject, before: WorldState, after: WorldState, names: set[str], *, is_meant: bool
) -> Iterator[tuple[str, int]]:
    name, lesser = thing.name, _IN_FOCUS if thing.name == after.focus else _OTHER
    if not before.named(name):
        replaces_focus = thing.place in {one.place for one in before.named(before.focus)}
        yield f"The {name} has been made.", _MAIN if name in names or replaces_focus else lesser
    if name not in names:
        return
    place = (
        f"The inventory contains the {name}." if thing.place == "inventory" else f"The {name} is in the {thing.place}."
    )
    yield place, _MAIN if is_meant else lesser
    for word in thing.properties:
        is_matter = word in ("solid", "liquid", "gas")
        is_step = word in ("activated", "open") or (is_matter and name == after.focus)
        yield f"The {name} is {'a ' * is_matter}{word}.", _MAIN if is_meant and is_step else lesser
    for other in (other for other in thing.connected if other < name):  # one of the two directions
        yield f"The {name} is connected to the {other}.", _MAIN if is_meant else lesser
    if thing.temperature is not None and before.named(name):
        tens = thing.temperature / 10
        yield f"The temperature of the {name} is above {10 * (ceil(tens) - 1)} degrees Celsius.", lesser
        yield f"The temperature of the {name} is below {10 * (floor(tens) + 1)} degrees Celsius.", lesser


def _find_names(actions: Sequence[str], states: Sequence[WorldState]) -> set[str]:
    # Names of things that occur in the actions, and not only as a part of a longer name.
    known = sorted({thing.name for state in states for thing in state.objects}, key=len, reverse=True)
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in known))
    return {name for action in actions for name in pattern.findall(action.lower())}
