"""Rules that decide conditions by ALFWorld's last reply and by what the environment's view shows.

The view lists the places of the room, the receptacles that the agent faces with their visible contents, and what the
agent carries, each of them completely. A condition about anything that is out of sight stays undecided.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from certigraph.adapters.joined_conditions import decide_all, split_joined
from certigraph.adapters.protocols import Decision
from certigraph.state.records import Observation

WORDINGS = """\
The agent is at PLACE. The inventory contains THING. The inventory is empty. THING is in/on PLACE. PLACE is open. PLACE
is closed. THING is shown. Name things and places as the world does (mug 1, desk 2); a name without its number (a mug)
stands for any one of its kind. Such sentences can be joined by "and"."""
"""Wordings of conditions that are decided either way, for prompts."""

# Names: the kinds of things in ALFWorld, with a number or without.

_THING_KINDS = """\
alarmclock apple baseballbat basketball blinds book boots bowl box bread butterknife candle cd cellphone chair
cloth creditcard cup curtains desklamp dishsponge egg floorlamp footstool fork glassbottle handtowel houseplant
kettle keychain knife ladle laptop laundryhamperlid lettuce lightswitch mirror mug newspaper painting pan
papertowel papertowelroll pen pencil peppershaker pillow plate plunger poster pot potato remotecontrol
saltshaker scrubbrush showerdoor showerglass soapbar soapbottle spatula spoon spraybottle statue stoveknob
teddybear television tennisracket tissuebox toiletpaper toiletpaperroll tomato towel vase watch wateringcan
window winebottle"""
THINGS = frozenset(_THING_KINDS.split())
"""Kinds of things, without those whose names are short for another one's: a sink may be meant for a sinkbasin."""

_PLACE_KINDS = """\
armchair bathtubbasin bed cabinet cart coffeemachine coffeetable countertop desk diningtable drawer dresser
fridge garbagecan handtowelholder laundryhamper microwave ottoman safe shelf sidetable sinkbasin sofa
stoveburner toaster toilet toiletpaperhanger towelholder tvstand"""
PLACES = frozenset(_PLACE_KINDS.split())
"""Kinds of receptacles to which the agent can go."""

_NAME = re.compile(r"(?:(?P<two>two|2) |(?:the|an?|some) )?(?P<kind>[a-z]+(?: [a-z]+){0,3})(?: (?P<number>\d+))?")
_PLURAL_ENDINGS = (("ves", "f"), ("ves", "fe"), ("es", ""), ("s", ""))


class NamedThing(NamedTuple):
    """Name of a thing or place as a condition has it."""

    kind: str
    number: str = ""
    """Number of the thing; empty if any one of the kind is meant."""
    amount: int = 1
    """How many of the kind there have to be."""

    def names(self, name: str) -> bool:
        """Return whether the condition's name stands for a thing that the world names, such as `mug 1`."""
        kind, _, number = name.partition(" ")
        return kind == self.kind and self.number in ("", number)

    def may_mean(self, names: Iterable[str]) -> bool:
        """Return whether the name may be short for that of another kind in the world: a knife for a butterknife."""
        kinds = {name.partition(" ")[0] for name in names} - {self.kind}
        return not self.number and any(self.kind in kind for kind in kinds)


def parse_name(text: str) -> NamedThing | None:
    """Parse a name such as `mug 1`, `the alarm clock` or `two mugs`; None if it is not one of ALFWorld's."""
    match = _NAME.fullmatch(text)
    if match is None or (match["two"] and match["number"]):
        return None
    written = match["kind"].replace(" ", "")
    endings = _PLURAL_ENDINGS if match["two"] else ()
    singulars = [written.removesuffix(end) + singular for end, singular in endings if written.endswith(end)]
    kind = next((kind for kind in (*singulars, written) if kind in THINGS or kind in PLACES), None)
    return NamedThing(kind, match["number"] or "", 2 if match["two"] else 1) if kind else None


# Wordings. A condition that says more than one of them, or something else, stays undecided.

ConditionKind = Literal["at", "carried", "empty", "known", "placed", "door", "treated", "lamp", "shown"]

_THING, _PLACE = "(?P<thing>.+?)", "(?P<place>.+?)"
_WORDINGS: tuple[tuple[ConditionKind, str], ...] = (
    ("at", rf"the agent is (?:at|in front of|facing) {_PLACE}"),
    ("empty", r"the (?:agent's )?inventory is empty|the agent (?:holds|carries|is holding|is carrying) nothing"),
    ("carried", rf"the (?:agent's )?inventory contains {_THING}"),
    ("carried", rf"the agent (?:holds|carries|has|is holding|is carrying) {_THING}"),
    ("carried", rf"{_THING} (?:is|are) in (?:the|the agent's) inventory"),
    ("known", rf"the locations? of {_THING} (?:is|are) known"),
    ("known", rf"{_THING} (?:has|have) been found"),
    ("placed", rf"{_THING} (?:is|are) (?:placed )?(?:in/on|in or on|in|on|inside|on top of) {_PLACE}"),
    ("door", rf"{_PLACE} is (?P<state>open|opened|closed|shut)"),
    ("treated", rf"{_THING} is (?P<state>hot|heated|cool|cold|cooled|clean|cleaned)"),
    ("treated", rf"{_THING} has been (?P<state>heated|cooled|cleaned)"),
    ("lamp", rf"{_THING} is (?:turned |switched )?(?P<state>on|off)"),
    ("shown", rf"{_THING} (?:is|are) (?:shown|visible|in sight|in view)"),
)
_PATTERNS = tuple((kind, re.compile(wording)) for kind, wording in _WORDINGS)
_AND = re.compile(r",? and (?:of )?|, ")

MAX_CONDITION_CHARS = 500
"""Maximum number of characters of a condition to parse; the patterns take quadratic time in a text's length."""

_NO_NAME = NamedThing("")


class AlfworldCondition(NamedTuple):
    """One condition in one of the known wordings."""

    kind: ConditionKind
    thing: NamedThing = _NO_NAME
    place: NamedThing = _NO_NAME
    state: str = ""


@lru_cache(maxsize=1024)
def parse_conditions(text: str) -> tuple[AlfworldCondition, ...]:
    """Parse a condition into those that it joins by "and"; empty if its wording is unknown."""
    plain = " ".join(text.lower().split()).removesuffix(".")
    return split_joined(plain, _AND, _parse_sentence) if len(plain) <= MAX_CONDITION_CHARS else ()


def _parse_sentence(text: str) -> list[AlfworldCondition]:
    # Several things may share a wording: "mug 1 and mug 2 are in/on shelf 1" is two conditions.
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        parts = match.groupdict()
        things = [parse_name(name) for name in _AND.split(parts["thing"])] if parts.get("thing") else [_NO_NAME]
        place = parse_name(parts["place"]) if parts.get("place") else _NO_NAME
        known = [thing for thing in things if thing]
        if place and place.amount == 1 and len(known) == len(things):
            return [AlfworldCondition(kind, thing, place, parts.get("state") or "") for thing in known]
    return []


# What the view shows.


class FacedReceptacle(NamedTuple):
    """Receptacle that the agent faces."""

    line: str
    """Sentence of the view about it."""
    state: str
    """open or closed; empty if it has no door."""
    contents: tuple[str, ...] | None
    """Names of the things in or on it; None if it is closed."""


class Sight(NamedTuple):
    """What a view shows."""

    places: frozenset[str]
    """Names of all receptacles of the room."""
    faced: Mapping[str, FacedReceptacle]
    carried: tuple[str, ...]
    text: str
    """Lines of the view about what the agent faces and carries."""
    first_line: str
    """Line of the view that lists the receptacles of the room."""
    last_line: str
    """Line of the view that lists what the agent carries."""

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield the name of everything that is shown with the line that shows it, the nearest last."""
        yield from ((name, self.first_line) for name in self.places)
        for place, receptacle in self.faced.items():
            yield from ((name, receptacle.line) for name in (place, *(receptacle.contents or ())))
        yield from ((name, self.last_line) for name in self.carried)


_LISTED = r"nothing|an? [a-z]+ \d+(?:, (?:and )?an? [a-z]+ \d+)*"
_FIRST_LINE = re.compile(rf"Places in the room: ({_LISTED})\.")
_RECEPTACLE = re.compile(
    rf"On the (?P<surface>[a-z]+ \d+), you see (?P<on>{_LISTED})\."
    rf"|The (?P<open>[a-z]+ \d+) is open\. In it, you see (?P<inside>{_LISTED})\."
    r"|The (?P<closed>[a-z]+ \d+) is closed\."
)
_LAST_LINE = re.compile(rf"You are carrying: ({_LISTED})\.|You are not carrying anything\.")


@lru_cache(maxsize=16)
def read_sight(view: str) -> Sight | None:
    """Parse a view; None if a line of it is missing, cut or unknown."""
    first_line, *lines = view.splitlines() or [""]
    last_line = lines.pop() if lines else ""
    places, carried = _FIRST_LINE.fullmatch(first_line), _LAST_LINE.fullmatch(last_line)
    receptacles = [_RECEPTACLE.fullmatch(line) for line in lines]
    if not places or not carried or None in receptacles:
        return None
    return Sight(
        places=frozenset(_list_names(places[1])),
        faced=dict(_read_receptacle(match) for match in receptacles if match),
        carried=_list_names(carried[1] or ""),
        text=view.partition("\n")[2],
        first_line=first_line,
        last_line=last_line,
    )


def _read_receptacle(match: re.Match[str]) -> tuple[str, FacedReceptacle]:
    if match["closed"]:
        return match["closed"], FacedReceptacle(match[0], "closed", None)
    listed = _list_names(match["on"] or match["inside"])
    return match["surface"] or match["open"], FacedReceptacle(match[0], "open" if match["open"] else "", listed)


def _list_names(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z]+ \d+", text))


# Rules.


def decide_condition(text: str, observation: Observation, view: str) -> Decision | None:
    """Decide a condition by the game's last reply and its view; None if they do not settle it.

    A condition that joins several holds if each of them holds, and does not hold if one of them does not.
    """
    sight = read_sight(view)
    conditions = parse_conditions(text) if sight else ()
    decisions = [_RULES[one.kind](one, observation.text, sight) for one in conditions if sight]
    return decide_all(decisions)


def _decide_position(place: NamedThing, sight: Sight) -> Decision | None:
    # Several receptacles may be at one location; the agent is at each of those that it faces.
    if found := next((faced.line for name, faced in sight.faced.items() if place.names(name)), None):
        return Decision(True, found)
    exists = any(map(place.names, sight.places))
    return Decision(False, next((faced.line for faced in sight.faced.values()), sight.first_line)) if exists else None


def _decide_carried(thing: NamedThing, sight: Sight) -> Decision | None:
    holds = sum(map(thing.names, sight.carried)) >= thing.amount
    return None if not holds and thing.may_mean(sight.carried) else Decision(holds, sight.last_line)


def _decide_shown(thing: NamedThing, sight: Sight, *, remembered: bool) -> Decision | None:
    # What was seen before may be known although it is out of sight.
    shown = dict(sight.shown())
    lines = {name: line for name, line in shown.items() if thing.names(name)}
    if len(lines) >= thing.amount:
        return Decision(True, "; ".join(dict.fromkeys(list(lines.values())[: thing.amount])))
    return None if remembered or thing.may_mean(shown) else Decision(False, sight.text)


def _decide_placed(thing: NamedThing, place: NamedThing, sight: Sight) -> Decision | None:
    # The simulator has things in two receptacles at once, and what is taken from one stays in the other: that a thing
    # is seen elsewhere decides nothing. Only the contents of the place itself do.
    targets = [name for name in sight.places if place.names(name)]
    seen = [sight.faced[name] for name in targets if name in sight.faced]
    contents = {name: faced.line for faced in seen for name in faced.contents or ()}
    lines = {name: line for name, line in contents.items() if thing.names(name)}
    if len(lines) >= thing.amount:
        return Decision(True, "; ".join(dict.fromkeys(list(lines.values())[: thing.amount])))
    complete = targets and len(seen) == len(targets) and all(faced.contents is not None for faced in seen)
    if not complete or thing.may_mean(contents):
        return None
    return Decision(False, "; ".join(faced.line for faced in seen))


def _decide_door(place: NamedThing, state: str, sight: Sight) -> Decision | None:
    wanted = "open" if state in ("open", "opened") else "closed"
    targets = [name for name in sight.places if place.names(name)]
    seen = [sight.faced[name] for name in targets if name in sight.faced and sight.faced[name].state]
    if found := next((faced.line for faced in seen if faced.state == wanted), None):
        return Decision(True, found)
    complete = targets and len(seen) == len(targets)
    return Decision(False, "; ".join(faced.line for faced in seen)) if complete else None


# Treatments and lamps show only in the reply to the action that changes or examines them.

_QUALITIES = {"heated": "hot", "cold": "cool", "cooled": "cool", "cleaned": "clean"}
"""Wording of a quality -> its name in replies."""

_TREATMENT = re.compile(r"You (?P<verb>heat|cool|clean) the (?P<thing>[a-z]+ \d+) using the [a-z]+ \d+\.")
_EXAMINED = re.compile(
    r"This is an? (?P<qualities>(?:(?:hot|cool|cold|clean)(?: and )?)+) (?:sliced )?(?P<thing>[a-z]+ \d+)\."
    r"|There's nothing special about (?P<plain>[a-z]+ \d+)\."
)
_LAMP = re.compile(
    r"You turn (?P<turned>on|off) the (?P<lamp>[a-z]+ \d+)\.|This (?P<seen>[a-z]+ \d+) is (?P<is>on|off)\."
)


def _decide_treated(thing: NamedThing, state: str, reply: str) -> Decision | None:
    quality = _QUALITIES.get(state, state)
    name, qualities = _read_qualities(reply.strip())
    if not thing.names(name) or quality not in qualities:
        return None
    # That one thing of a kind is not hot does not deny that another is, nor that this one has been heated before.
    denies = bool(thing.number) and state in ("hot", "cool", "cold", "clean")
    return Decision(qualities[quality], reply.strip()) if qualities[quality] or denies else None


def _read_qualities(reply: str) -> tuple[str, dict[str, bool]]:
    # The thing that a reply is about, and which qualities it has or does not have.
    if treated := _TREATMENT.fullmatch(reply):
        effects = {"heat": {"hot": True, "cool": False}, "cool": {"cool": True, "hot": False}, "clean": {"clean": True}}
        return treated["thing"], effects[treated["verb"]]
    if examined := _EXAMINED.fullmatch(reply):
        words = (examined["qualities"] or "").replace("cold", "cool").split()
        return examined["thing"] or examined["plain"], {name: name in words for name in ("hot", "cool", "clean")}
    return "", {}


def _decide_lamp(thing: NamedThing, state: str, reply: str) -> Decision | None:
    match = _LAMP.fullmatch(reply.strip())
    if match is None or not thing.names(match["lamp"] or match["seen"]):
        return None
    holds = (match["turned"] or match["is"]) == state
    return Decision(holds, match[0]) if holds or thing.number else None


_RULES: Mapping[ConditionKind, Callable[[AlfworldCondition, str, Sight], Decision | None]] = {
    "at": lambda condition, reply, sight: _decide_position(condition.place, sight),
    "carried": lambda condition, reply, sight: _decide_carried(condition.thing, sight),
    "door": lambda condition, reply, sight: _decide_door(condition.place, condition.state, sight),
    "empty": lambda condition, reply, sight: Decision(not sight.carried, sight.last_line),
    "known": lambda condition, reply, sight: _decide_shown(condition.thing, sight, remembered=True),
    "lamp": lambda condition, reply, sight: _decide_lamp(condition.thing, condition.state, reply),
    "placed": lambda condition, reply, sight: _decide_placed(condition.thing, condition.place, sight),
    "shown": lambda condition, reply, sight: _decide_shown(condition.thing, sight, remembered=False),
    "treated": lambda condition, reply, sight: _decide_treated(condition.thing, condition.state, reply),
}
