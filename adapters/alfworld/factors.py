"""ALFWorld's text as factored states: things with their places and qualities, and how far the wanted ones have come."""

from collections.abc import Mapping

from certigraph.adapters.alfworld.goals import OPENING, PLACES, Goal, read_goal
from certigraph.adapters.alfworld.reading import AGENT, HAND, TREATED, Told, kind, reading
from certigraph.state.factored import FactoredState, as_mapping, factored

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
