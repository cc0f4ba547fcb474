"""ALFWorld's text as factored states."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from certigraph.state.rewards import FactoredState, as_mapping, factored

# ALFWorld's six kinds of goals, read from their templates.

PLACES = {"heat": "microwave", "clean": "sinkbasin", "cool": "fridge"}
"""Where a thing is treated."""

OPENING = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""The kinds of places that have a door."""

_TREATED = {"hot": "heat", "clean": "clean", "cool": "cool", "cold": "cool"}

_FORMS = tuple(
    re.compile(form.replace("THING", "(?P<thing>[a-z]+)").replace("IN_PLACE", "(?:in/on|in|on) (?P<place>[a-z]+)"))
    for form in (
        "(?:examine|look at) (?:the |an? )?THING (?:with|under) (?:the |an? )?(?P<lamp>[a-z]+)",
        "(?:put|find) (?P<two>two) THING (?:and put them )?IN_PLACE",
        "(?P<verb>heat|clean|cool) (?:some|an?) THING and put it IN_PLACE",
        "put (?:some|an?) (?:(?P<quality>hot|clean|cool|cold) )?THING IN_PLACE",
    )
)


class Goal(NamedTuple):
    """What is wanted: things of a kind, treated if a treatment is named, in a kind of place or by a kind of lamp."""

    thing: str
    number: int = 1
    treatment: str = ""
    """heat, clean, cool, or none."""
    place: str = ""
    lamp: str = ""


def read_goal(text: str) -> Goal | None:
    """The goal that a text states; None where it is none of ALFWorld's templates."""
    found = next((match for form in _FORMS if (match := form.search(text.lower()))), None)
    if found is None:
        return None
    parts = found.groupdict(default="")
    treatment = parts.get("verb") or _TREATED.get(parts.get("quality", ""), "")
    return Goal(
        thing=parts["thing"],
        number=2 if parts.get("two") else 1,
        treatment=treatment,
        place=parts.get("place", ""),
        lamp=parts.get("lamp", ""),
    )


# What ALFWorld's replies tell of the world, in the wordings of both its releases ("put X in/on Y", "move X to Y").

Told = dict[str, dict[str, str]]
"""Attributes by thing, which a reply changes in place."""

AGENT, HAND = "agent", "in hand"

NAME = r"([a-z]+ \d+)"

TREATED = {"heat": "hot", "clean": "clean", "cool": "cool"}


def reading(told: Told, action: str, observation: str) -> None:
    """Note what a reply tells."""
    gone = re.match(rf"go to {NAME}", action)
    if gone and "You arrive at" in observation:
        told.setdefault(AGENT, {})["location"] = gone[1]
    for pattern, note in _PATTERNS:
        for found in pattern.finditer(observation):
            note(told, found)


def things_in(text: str) -> list[str]:
    """The things that a list such as "a egg 2, and a spoon 1" names."""
    return re.findall(NAME, text)


def kind(name: str) -> str:
    """What a thing or place is: the apple of apple 2."""
    return name.partition(" ")[0]


def _seen(told: Told, found: re.Match[str]) -> None:
    place, listed = found[1] or found[2], found[3]
    for name, has in told.items():
        if has.get("location") == place and name != AGENT:
            has["location"] = "unknown"
    for name in things_in(listed):
        told.setdefault(name, {})["location"] = place


def _moved(told: Told, found: re.Match[str]) -> None:
    told.setdefault(found[1], {})["location"] = found[2]
    told.setdefault(AGENT, {})["holding"] = "nothing"


def _taken(told: Told, found: re.Match[str]) -> None:
    told.setdefault(found[1], {})["location"] = HAND
    told.setdefault(AGENT, {})["holding"] = found[1]


def _treated(told: Told, found: re.Match[str]) -> None:
    has = told.setdefault(found[2], {})
    if found[1] == "clean":
        has["cleanliness"] = TREATED["clean"]
    else:
        has["temperature"] = TREATED[found[1]]


def _door(value: str) -> Callable[[Told, re.Match[str]], None]:
    def noted(told: Told, found: re.Match[str]) -> None:
        told.setdefault(next(filter(None, found.groups())), {})["door"] = value

    return noted


def _switched(told: Told, found: re.Match[str]) -> None:
    told.setdefault(found[2], {})["light"] = found[1]


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[Told, re.Match[str]], None]], ...] = (
    (re.compile(rf"[Tt]he {NAME} is closed\.|You close the {NAME}\."), _door("shut")),
    (re.compile(rf"[Tt]he {NAME} is open\."), _door("open")),
    (re.compile(rf"(?:On the {NAME}|The {NAME} is open\. In it), you see ([^.]*)\."), _seen),
    (re.compile(rf"You pick up the {NAME}"), _taken),
    (re.compile(rf"You (?:put|move) the {NAME} (?:in/on|to) the {NAME}"), _moved),
    (re.compile(rf"You (heat|clean|cool) the {NAME} using"), _treated),
    (re.compile(rf"You turn (on|off) the {NAME}"), _switched),
)


# ALFWorld's text as factored states: things with their places and qualities, and how far the wanted ones have come.

WORDS = {
    "sight": ("found", "not yet"),
    "grasp": ("taken", "lying there"),
    "treating place": ("reached", "unvisited"),
    "treatment": ("", "as it was"),
    "destination": ("reached", "unvisited"),
    "door": ("wide open", "shut"),
    "rest": ("delivered", "astray"),
    "light": ("shining", "switched off"),
}
"""What a thing that is wanted goes through, and how it is said that it has, or has not. The words of a pair lie far
apart for all-MiniLM-L6-v2, at 0.07 to 0.25: rewards are similarities, so that near words would tell nothing."""

ORDINALS = ("", "second ")


class AlfworldFactors:
    """Things as they were seen last; the agent, with its place and what it holds; doors and lamps.

    Written by hand for ALFWorld's templates; the paper has a language model extract. Things of the wanted kind also
    have milestones that its six types of tasks imply, no demonstration (`WORDS`): whether one is at hand, was taken,
    treated, brought to where it belongs, put there. Until one is seen, the kind itself stands for it.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The belief after a step; what is not told stays as it was."""
        told = as_mapping(state)
        told.setdefault(AGENT, {"location": "middle of the room", "holding": "nothing"})
        reading(told, action, observation)
        wanted = read_goal(goal)
        if wanted:
            _judge(told, wanted)
        return factored(told)

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Everything done with the things that have come furthest; a goal in unknown words is its own text."""
        wanted = read_goal(goal)
        if wanted is None:
            return before if before.entities or not goal else factored({goal: {}})
        told = as_mapping(state)
        fulfilled = {name: _said(name, True, wanted) for name in _course(wanted)}
        return factored({name: dict(fulfilled) for name in _furthest(told, wanted)})


def _course(goal: Goal) -> list[str]:
    """The stages that a thing goes through for a goal."""
    treating = ["treating place", "treatment"] if goal.treatment else []
    if goal.lamp:
        return ["sight", "grasp", "destination", "light"]
    return ["sight", "grasp", *treating, "destination", *(["door"] if goal.place in OPENING else []), "rest"]


def _said(stage: str, done: bool, goal: Goal) -> str:
    if stage == "treatment" and done:
        return TREATED[goal.treatment]
    return WORDS[stage][0 if done else 1]


def _judge(told: Told, goal: Goal) -> None:
    """Note of every thing of the wanted kind how far it has come."""
    for ordinal in ORDINALS:
        told.pop(f"{ordinal}{goal.thing}", None)
    known = [name for name in told if kind(name) == goal.thing]
    for name in known:
        done = _stages(told, name, goal)
        told[name] |= {stage: _said(stage, done[stage], goal) for stage in _course(goal)}
    for ordinal in ORDINALS[len(known) : goal.number]:
        told[f"{ordinal}{goal.thing}"] = {stage: _said(stage, False, goal) for stage in _course(goal)}


def _stages(told: Told, name: str, goal: Goal) -> Mapping[str, bool]:
    has, agent = told[name], told[AGENT]
    held, here = has.get("location") == HAND, agent.get("location", "")
    treated = not goal.treatment or TREATED[goal.treatment] in has.values()
    lamps = [lamp for lamp, of in told.items() if kind(lamp) == goal.lamp and of.get("location") == here]
    delivered = treated and kind(has.get("location", "")) == goal.place
    near = held or has.get("location") == here
    arrived = held and treated and (bool(lamps) if goal.lamp else kind(here) == goal.place)
    return {
        "sight": near or delivered,
        "grasp": held or delivered,
        "treating place": treated or (held and kind(here) == PLACES.get(goal.treatment)),
        "treatment": treated,
        "destination": arrived or delivered,
        "door": delivered or (arrived and told.get(here, {}).get("door") == "open"),
        "rest": delivered,
        "light": near and any(told[lamp].get("light") == "on" for lamp in lamps),
    }


def _furthest(told: Told, goal: Goal) -> list[str]:
    """The things that are wanted: of the kind those that have come furthest, or what stands for one not seen yet."""
    course = _course(goal)
    known = [name for name in told if kind(name) == goal.thing or name == f"second {goal.thing}"]

    def fulfilled(name: str) -> int:
        return sum(told[name].get(stage) == _said(stage, True, goal) for stage in course)

    return sorted(known, key=fulfilled, reverse=True)[: goal.number] or [goal.thing]
