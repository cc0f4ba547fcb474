"""Rules that extract factored states (objects with attributes) from ALFWorld's texts.

`AlfworldFactors` is written by hand for ALFWorld's text templates. In the StateFactory paper a language model extracts
the states.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from certigraph.state.rewards import FactoredState, to_factored, to_mapping

# Goals: the templates of ALFWorld's six task types.

PLACES = {"heat": "microwave", "clean": "sinkbasin", "cool": "fridge"}
"""Treatment -> kind of receptacle in which things are treated."""

PLACES_WITH_DOOR = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""Kinds of receptacles with a door."""

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


class AlfworldGoal(NamedTuple):
    """Parsed goal: things of one kind must be treated (if `treatment` is set) and put at `place` or seen at `lamp`."""

    thing: str
    number: int = 1
    treatment: str = ""
    """Required treatment: heat, clean or cool; empty if none is required."""
    place: str = ""
    lamp: str = ""


def parse_goal(text: str) -> AlfworldGoal | None:
    """Parse a goal; None if the text fits none of ALFWorld's templates."""
    matched = next((match for form in _FORMS if (match := form.search(text.lower()))), None)
    if matched is None:
        return None
    parts = matched.groupdict(default="")
    treatment = parts.get("verb") or _TREATED.get(parts.get("quality", ""), "")
    return AlfworldGoal(
        thing=parts["thing"],
        number=2 if parts.get("two") else 1,
        treatment=treatment,
        place=parts.get("place", ""),
        lamp=parts.get("lamp", ""),
    )


# Facts from replies, in the wordings of both releases of ALFWorld ("put X in/on Y", "move X to Y").

KnownThings = dict[str, dict[str, str]]
"""Thing -> attribute -> value, as far as observed. The functions below update such a dictionary in place."""

AGENT, HAND = "agent", "in hand"

NAME = r"([a-z]+ \d+)"

TREATED = {"heat": "hot", "clean": "clean", "cool": "cool"}


def add_observation(known: KnownThings, action: str, observation: str) -> None:
    """Add to `known` the facts that follow from an action and its observation."""
    destination = re.match(rf"go to {NAME}", action)
    if destination and "You arrive at" in observation:
        known.setdefault(AGENT, {})["location"] = destination[1]
    for pattern, note in _PATTERNS:
        for match in pattern.finditer(observation):
            note(known, match)


def parse_things(text: str) -> list[str]:
    """Parse the things in a list such as "a egg 2, and a spoon 1"."""
    return re.findall(NAME, text)


def kind_of(name: str) -> str:
    """Return the kind of a thing or receptacle: `apple 2` -> `apple`."""
    return name.partition(" ")[0]


def _note_seen(known: KnownThings, match: re.Match[str]) -> None:
    place, listed = match[1] or match[2], match[3]
    for name, attributes in known.items():
        if attributes.get("location") == place and name != AGENT:
            attributes["location"] = "unknown"
    for name in parse_things(listed):
        known.setdefault(name, {})["location"] = place


def _note_moved(known: KnownThings, match: re.Match[str]) -> None:
    known.setdefault(match[1], {})["location"] = match[2]
    known.setdefault(AGENT, {})["holding"] = "nothing"


def _note_taken(known: KnownThings, match: re.Match[str]) -> None:
    known.setdefault(match[1], {})["location"] = HAND
    known.setdefault(AGENT, {})["holding"] = match[1]


def _note_treated(known: KnownThings, match: re.Match[str]) -> None:
    attributes = known.setdefault(match[2], {})
    if match[1] == "clean":
        attributes["cleanliness"] = TREATED["clean"]
    else:
        attributes["temperature"] = TREATED[match[1]]


def _door_rule(value: str) -> Callable[[KnownThings, re.Match[str]], None]:
    def noted(known: KnownThings, match: re.Match[str]) -> None:
        known.setdefault(next(filter(None, match.groups())), {})["door"] = value

    return noted


def _note_light(known: KnownThings, match: re.Match[str]) -> None:
    known.setdefault(match[2], {})["light"] = match[1]


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[KnownThings, re.Match[str]], None]], ...] = (
    (re.compile(rf"[Tt]he {NAME} is closed\.|You close the {NAME}\."), _door_rule("shut")),
    (re.compile(rf"[Tt]he {NAME} is open\."), _door_rule("open")),
    (re.compile(rf"(?:On the {NAME}|The {NAME} is open\. In it), you see ([^.]*)\."), _note_seen),
    (re.compile(rf"You pick up the {NAME}"), _note_taken),
    (re.compile(rf"You (?:put|move) the {NAME} (?:in/on|to) the {NAME}"), _note_moved),
    (re.compile(rf"You (heat|clean|cool) the {NAME} using"), _note_treated),
    (re.compile(rf"You turn (on|off) the {NAME}"), _note_light),
)


# The extractor: things with places and qualities, and the progress of the required ones.

STAGE_WORDS = {
    "sight": ("found", "not yet"),
    "grasp": ("taken", "lying there"),
    "treating place": ("reached", "unvisited"),
    "treatment": ("", "as it was"),
    "destination": ("reached", "unvisited"),
    "door": ("wide open", "shut"),
    "rest": ("delivered", "astray"),
    "light": ("shining", "switched off"),
}
"""Stage of a required thing -> its attribute values once the stage is reached, and before. The two values of a pair
have low cosine similarity in the embedding model all-MiniLM-L6-v2 (0.07 to 0.25): StateFactory's rewards are such
similarities, so that similar words would give no signal."""

# Prefixes of the placeholders for required things that are not seen yet.
ORDINALS = ("", "second ")


class AlfworldFactors:
    """Extractor of factored states: things as last seen, the agent's location and what it holds, doors and lamps.

    Things of the kind that the goal requires also have milestones as attributes (`STAGE_WORDS`): whether a thing was
    found, taken, treated, brought to its destination and put there. They follow from the type of the task; no
    demonstration is read. Until such a thing is seen, the name of its kind stands for it.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return the state after a step; what the observation does not mention stays unchanged."""
        known = to_mapping(state)
        known.setdefault(AGENT, {"location": "middle of the room", "holding": "nothing"})
        add_observation(known, action, observation)
        required = parse_goal(goal)
        if required:
            _mark_stages(known, required)
        return to_factored(known)

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return the state that the goal requires: the most advanced things of the required kind, all stages reached.

        A goal in an unknown wording gives `before`, or if that is empty, one object named by the goal's text.
        """
        required = parse_goal(goal)
        if required is None:
            return before if before.entities or not goal else to_factored({goal: {}})
        known = to_mapping(state)
        fulfilled = {name: _stage_word(name, True, required) for name in _stages_of(required)}
        return to_factored({name: dict(fulfilled) for name in _select_furthest(known, required)})


def _stages_of(goal: AlfworldGoal) -> list[str]:
    # Stages of a thing for a goal, in order.
    treating = ["treating place", "treatment"] if goal.treatment else []
    if goal.lamp:
        return ["sight", "grasp", "destination", "light"]
    return ["sight", "grasp", *treating, "destination", *(["door"] if goal.place in PLACES_WITH_DOOR else []), "rest"]


def _stage_word(stage: str, reached: bool, goal: AlfworldGoal) -> str:
    if stage == "treatment" and reached:
        return TREATED[goal.treatment]
    return STAGE_WORDS[stage][0 if reached else 1]


def _mark_stages(known: KnownThings, goal: AlfworldGoal) -> None:
    # Records the progress of every thing of the required kind.
    for ordinal in ORDINALS:
        known.pop(f"{ordinal}{goal.thing}", None)
    names = [name for name in known if kind_of(name) == goal.thing]
    for name in names:
        reached = _stages_reached(known, name, goal)
        known[name] |= {stage: _stage_word(stage, reached[stage], goal) for stage in _stages_of(goal)}
    for ordinal in ORDINALS[len(names) : goal.number]:
        known[f"{ordinal}{goal.thing}"] = {stage: _stage_word(stage, False, goal) for stage in _stages_of(goal)}


def _stages_reached(known: KnownThings, name: str, goal: AlfworldGoal) -> Mapping[str, bool]:
    attributes, agent = known[name], known[AGENT]
    held, here = attributes.get("location") == HAND, agent.get("location", "")
    treated = not goal.treatment or TREATED[goal.treatment] in attributes.values()
    lamps = [lamp for lamp, of in known.items() if kind_of(lamp) == goal.lamp and of.get("location") == here]
    delivered = treated and kind_of(attributes.get("location", "")) == goal.place
    near = held or attributes.get("location") == here
    arrived = held and treated and (bool(lamps) if goal.lamp else kind_of(here) == goal.place)
    return {
        "sight": near or delivered,
        "grasp": held or delivered,
        "treating place": treated or (held and kind_of(here) == PLACES.get(goal.treatment)),
        "treatment": treated,
        "destination": arrived or delivered,
        "door": delivered or (arrived and known.get(here, {}).get("door") == "open"),
        "rest": delivered,
        "light": near and any(known[lamp].get("light") == "on" for lamp in lamps),
    }


def _select_furthest(known: KnownThings, goal: AlfworldGoal) -> list[str]:
    # The most advanced things of the required kind, or the placeholder for one that is not seen yet.
    course = _stages_of(goal)
    names = [name for name in known if kind_of(name) == goal.thing or name == f"second {goal.thing}"]

    def fulfilled(name: str) -> int:
        return sum(known[name].get(stage) == _stage_word(stage, True, goal) for stage in course)

    return sorted(names, key=fulfilled, reverse=True)[: goal.number] or [goal.thing]
