"""The simulator's own state, read from its object tree: what exists, where it is, and in what condition.

Agents and language models never see it. It is the ground truth by which certificates are audited, and from which
scripted models answer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import ceil, floor
from typing import Any, NamedTuple

from certigraph.adapters.matching import tokens
from certigraph.adapters.protocols import StateCheck
from certigraph.benchmarks.scienceworld.conditions import (
    MAX_CONDITION_CHARS,
    ROOMS,
    WordedCondition,
    all_of,
    any_of,
    is_vague,
    normalise_name,
    parse_condition,
    read_name,
    singulars_of,
)
from certigraph.state.records import Record

HIDDEN = ("agent", "inventory", "universe", "air", "ground", "terminal 1", "terminal 2", "anode", "cathode")
"""Objects of the tree that are not things of a task."""

# Conditions that only the object tree decides, besides those of `conditions.parse_condition`.

_WORDINGS = (
    ("moves", r"at least (?P<place>\d+) moves have been made"),
    ("above", r"the temperature of the (?P<thing>.+?) is above (?P<place>-?\d+) degrees celsius"),
    ("below", r"the temperature of the (?P<thing>.+?) is below (?P<place>-?\d+) degrees celsius"),
    ("connected", r"(?:the )?(?P<thing>.+?) is connected to (?:the )?(?P<place>.+?)"),
    ("matter", r"the (?P<thing>.+?) is a (?P<place>solid|liquid|gas)"),
)
_PATTERNS = tuple((kind, re.compile(f"{wording}\\.?", re.IGNORECASE)) for kind, wording in _WORDINGS)


class StateCondition(NamedTuple):
    """Condition in a wording that the object tree decides; its fields are those of `WordedCondition`."""

    kind: str
    thing: str
    place: str
    """Other thing, property or number that the condition names."""
    parts: tuple[()] = ()


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
    """Whether the world shows it in its room: all that holds it is open or of glass, and is shown with its contents."""
    properties: tuple[str, ...] = ()
    """What of activated, deactivated, broken, open, closed, solid, liquid and gas it is."""
    temperature: float | None = None
    """Degrees Celsius."""
    connected: tuple[str, ...] = ()
    """Names of the things to which it is connected electrically."""
    material: str = ""
    """Name of what it is made of; empty if the tree does not tell."""
    plant: str = ""
    """Name of the kind of plant; empty for other things."""
    path: tuple[int, ...] = ()
    """Numbers that lead to it from the root of the tree; those of what holds it are their beginnings."""
    wires: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """Terminal, terminal of the other thing, and the path to that thing, for each electrical connection."""

    @property
    def place(self) -> str:
        """Name of what holds it directly, or else of its room."""
        return self.holders[-1] if self.holders else self.room

    def describe(self) -> str:
        """Describe where and in which condition the thing is."""
        warmth = [] if self.temperature is None else [f"{self.temperature:.0f} degrees"]
        wired = [f"connected to the {other}" for other in self.connected]
        return ", ".join([f"{self.name} in {self.place}", *self.properties, *warmth, *wired])


_STAGES = {"caterpillar": "butterfly moth", "butterfly": "moth", "tadpole": "frog toad", "frog": "toad"}
"""Word by which the world shows a living thing at a stage of its life -> words by which the tree may name it."""


@lru_cache(maxsize=65_536)
def _is_called(wanted: str, name: str, kind: str = "") -> bool | None:
    """Return whether a thing of the tree has the wanted name; None if it may, because they have a word in common.

    The world shows many things by longer names than the tree: a bee as "adult bee", an apple as "red apple".

    Args:
        wanted: normalised name.
        name: name in the tree.
        kind: kind of plant that the thing is, or what it is made of, which its name may begin with.
    """
    plain = re.sub(r"^bee \d$", "bee", normalise_name(name))
    if any(one in (plain, f"{kind} {plain}") for one in singulars_of(wanted)):
        return True
    stages = (_STAGES.get(word, "") for one in singulars_of(wanted) for word in one.split())
    return None if tokens(" ".join([wanted, *stages])) & tokens(f"{plain} {kind}") else False


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
        """Return whether a condition holds, for anything of its name; None if the tree does not tell.

        It does not tell what belongs to a kind, nor which thing is meant where names only have a word in common. Of
        things and places that the agent sees, those are meant.
        """
        return all_of(self._holds(part) for part in condition.parts or (condition,))

    def _holds(self, condition: WordedCondition | StateCondition) -> bool | None:
        thing, place = normalise_name(condition.thing), normalise_name(condition.place)
        match condition.kind:
            case "be":
                return self.room == place if place in ROOMS else None
            case "moves":
                return self.moves >= int(place)
            case "measured" | "warmer" | "cooler":
                return None
            case _ if is_vague(thing) or thing.startswith(("door", "drain")):  # doors and drains are not in the tree
                return None
            case "focus":
                return _is_called(thing, self.focus) if self.focus else False
            case _:
                return self._holds_for(thing, condition.kind, place)

    def _holds_for(self, thing: str, kind: str, place: str) -> bool | None:
        named, possible = self._meant(thing, kind)
        if kind == "placed" and self._is_seen(thing) and self._is_seen(place):
            named = [one for one in named if one.room == self.room]
        fits = [self._fits(one, kind, thing, place) for one in named]
        noun = read_name(thing).name.split()[-1]
        is_plural = not any(noun in one.name.split() for one in named)
        if is_plural and kind in ("have", "placed") and True in fits:
            is_split = kind == "placed" and not all(fits)
            return None if is_split or fits.count(True) == 1 else True
        may_fit = (self._fits(one, kind, thing, place) is not False for one in possible)
        return any_of([*fits, None if True not in fits and any(may_fit) else False])

    def named(self, thing: str) -> list[WorldObject]:
        """Return the things of a name."""
        return [one for one in self.objects if one.name == thing]

    def _meant(self, thing: str, kind: str) -> tuple[list[WorldObject], list[WorldObject]]:
        """Return the things that have the name in a condition, and those that may have it.

        "The sink is activated" means the sink that the agent sees, or else that in its room, if there is one. A plant
        that grows gets its new name one moment after the world shows it.
        """
        wanted = _split_terminal(thing)[1] if kind == "connected" else thing
        exact = self.named(wanted)
        facts = [(one, self._is_meant(one, wanted)) for one in self.objects if one.plant or not exact]
        named = exact or [one for one, is_meant in facts if is_meant]
        possible = [one for one, is_meant in facts if is_meant is None and (one.plant or not named)]
        if not named:  # a name of which there is just one longer one: "chocolate" for the liquid chocolate
            longer = [one for one in possible if one.name.endswith((f" {wanted}", f" {wanted} bulb"))]
            named = longer if len(longer) == 1 else []
            possible = [one for one in possible if one not in named]
        near = [one for one in named if one.room == self.room]
        seen = [one for one in near if one.visible]
        return (seen or near or named if kind in _PROPERTIES else named), possible

    def _is_meant(self, thing: WorldObject, wanted: str) -> bool | None:
        name, contents, place = read_name(wanted)
        is_called = _is_called(name, thing.name, thing.plant or thing.material)
        if is_called is False or not (contents or place):
            return is_called
        held = [one for one in self.objects if one.path[:-1] == thing.path] if contents else []
        inside = [any_of(self._is_meant(one, content) for one in held) for content in contents]
        return all_of([is_called, *inside, self._is_in(thing, place) if place else True])

    def _is_seen(self, thing: str) -> bool:
        near = (one for one in self.objects if one.room == self.room and one.visible)
        return any(self._is_meant(one, thing) for one in near)

    def _is_in(self, thing: WorldObject, place: str) -> bool | None:
        if place in (*thing.holders, thing.room):
            return True
        if place in ROOMS or self.named(place):
            return False
        holders = [one for one in self.objects if one.path != thing.path and thing.path[: len(one.path)] == one.path]
        return any_of(self._is_meant(one, place) for one in holders)

    def _fits(self, one: WorldObject, kind: str, thing: str, place: str) -> bool | None:
        match kind:
            case "have":
                return "inventory" in one.holders
            case "placed":
                return self._is_in(one, place)
            case "broken" | "closed" | "matter" | "off" | "on" | "open":
                return (place or _STATES.get(kind, kind)) in one.properties
            case "connected":
                return self._is_connected(one, _split_terminal(thing)[0], *_split_terminal(place))
            case "above" | "below":
                return one.temperature is not None and (one.temperature - float(place)) * _SIGNS[kind] > 0
            case _:
                return one.room == self.room and (kind == "made" or one.visible)

    def _is_connected(self, one: WorldObject, terminal: str, other_terminal: str, other: str) -> bool | None:
        ends = [path for own, its, path in one.wires if terminal in ("", own) and other_terminal in ("", its)]
        named, possible = self._meant(other, "connected")
        if any(end.path in ends for end in named):
            return True
        return None if any(end.path in ends for end in possible) else False

    def _describe(self, condition: WordedCondition | StateCondition) -> str:
        return "; ".join(dict.fromkeys(self._describe_part(part) for part in condition.parts or (condition,)))

    def _describe_part(self, condition: WordedCondition | StateCondition) -> str:
        match condition.kind:
            case "be":
                return f"the agent is in the {self.room}"
            case "moves":
                return f"moves: {self.moves}"
            case "focus":
                return f"in focus: {self.focus or 'nothing'}"
            case _:
                thing, place = normalise_name(condition.thing), normalise_name(condition.place)
                meant, _ = self._meant(thing, condition.kind)
                fit = [one for one in meant if self._fits(one, condition.kind, thing, place)]
                found = [one.describe() for one in (fit or meant)[:MAX_DESCRIBED]]
                return "; ".join(dict.fromkeys(found)) or f"there is no {condition.thing}"


_SIGNS = {"above": 1, "below": -1}
_STATES = {"on": "activated", "off": "deactivated"}
"""Kind of a condition on a device -> the property that it names, where that has another name."""

_PROPERTIES = ("above", "below", "broken", "closed", "connected", "matter", "off", "on", "open")
"""Kinds of conditions on a property of a thing."""

_TERMINAL = re.compile(r"(anode|cathode|terminal \d) (?:in|of|on) (.+)|(.+) (anode|cathode|terminal \d)")


def _split_terminal(name: str) -> tuple[str, str]:
    """Split the name of a terminal into the terminal, and the thing to which it belongs; no terminal for a thing."""
    match = _TERMINAL.fullmatch(name)
    return (match[1] or match[4], match[2] or match[3]) if match else ("", name)


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
        part["uuid"]: _Owner(part["name"].lower(), node["name"].lower(), path)
        for path, node in _walk(tree)
        for part in _parts_of(node)
        if "uuid" in part
    }
    rooms = [(room, _Place(room["name"].lower(), (number,))) for number, room in enumerate(_parts_of(tree))]
    things = tuple(thing for room, place in rooms for thing in _things_in(room, place, owners))
    room = next((thing.room for thing in things if thing.name == "agent"), "")
    return WorldState(room, tuple(thing for thing in things if thing.name not in HIDDEN), focus.lower(), moves)


class _Owner(NamedTuple):
    """Thing that a part, such as a terminal, belongs to: name of the part, name of the thing, path to it."""

    part: str
    name: str
    path: tuple[int, ...]


class _Place(NamedTuple):
    """Place in the tree: its room, the path to it, names of what it is in, whether the world shows what is there."""

    room: str
    path: tuple[int, ...]
    holders: tuple[str, ...] = ()
    visible: bool = True


def _things_in(node: Mapping[str, Any], place: _Place, owners: Mapping[str, _Owner]) -> Iterator[WorldObject]:
    for number, part in enumerate(_parts_of(node)):
        name, path = part["name"].lower(), (*place.path, number)
        material, living = part.get("propMaterial") or {}, part.get("propLife") or {}
        wires = [(end, owners[other]) for end, other in _wires_of(part) if other in owners]
        yield WorldObject(
            name=name,
            room=place.room,
            holders=place.holders,
            visible=place.visible,
            properties=_properties(part),
            temperature=material.get("temperatureC"),
            connected=tuple(dict.fromkeys(other.name for _, other in wires)),
            material=material.get("substanceName", "").lower(),
            plant=living.get("lifeformType", "").lower() if part.get("type") == "plant" else "",
            path=path,
            wires=tuple((end, other.part, other.path) for end, other in wires),
        )
        holders = place.holders if name == "agent" else (*place.holders, name)
        inside = _Place(place.room, path, holders, place.visible and not _hides_contents(part))
        yield from _things_in(part, inside, owners)


def _properties(node: Mapping[str, Any]) -> tuple[str, ...]:
    device, container = node.get("propDevice") or {}, node.get("propContainer") or {}
    material = node.get("propMaterial") or {}
    found = ["activated" if device.get("isActivated") else "deactivated"] if device else []
    found += ["broken"] if device.get("isBroken") else []
    found += ["open" if container.get("isOpen") else "closed"] if container.get("isClosable") else []
    return (*found, *filter(None, [material.get("stateOfMatter")]))


def _wires_of(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    # Name of each terminal, with the ids of the terminals to which it is connected.
    for part in _parts_of(node):
        for other in (part.get("propElectricalConnection") or {}).get("connectedTo", ()):
            yield part["name"].lower(), other


def _hides_contents(node: Mapping[str, Any]) -> bool:
    # The world's descriptions leave out what is in drawers, on the ground, in flowers, and in what lives but plants.
    name, is_glass = node["name"].lower(), (node.get("propMaterial") or {}).get("substanceName") == "glass"
    if name.endswith(("drawer", "flower", "ground")) or (
        node.get("propLife") and not name.endswith((" plant", " tree"))
    ):
        return True
    return not is_glass and not (node.get("propContainer") or {}).get("isOpen", True)


def _walk(node: Mapping[str, Any], path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Mapping[str, Any]]]:
    yield path, node
    for number, part in enumerate(_parts_of(node)):
        yield from _walk(part, (*path, number))


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
