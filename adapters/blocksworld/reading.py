"""What the scripted expert reads off a prompt about blocks: the state, the goal, and what is asked for."""

import re

from certigraph.adapters.blocksworld.strips import State
from certigraph.adapters.blocksworld.wording import parse_facts, parse_goal, parse_observed

TARGET = re.compile(r"(?:Condition to make true next|Assignment|Subtask): (.+(?:\nIt settles the whole task: .+)?)")
GIVEN = re.compile(r"(?:Task|Assignment): (.+)")
START = re.compile(r"At the start, ([^.]+)\.")
CONDITION = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


def state_in(prompt: str) -> State:
    """The state last observed; before any observation, the one the task starts from; empty where none is told."""
    return parse_observed(prompt) or parse_facts("".join(START.findall(prompt)[:1]))


def goal_in(prompt: str) -> State:
    """The facts of the task, or of a sub-task that is told alone."""
    return parse_goal(prompt) or parse_facts("".join(GIVEN.findall(prompt)[:1]))


def target_in(prompt: str) -> State:
    """What the operator is after now; all of the task for who settles it, whose own words may have been cut."""
    wanted = TARGET.findall(prompt)[-1]
    return parse_goal(wanted) or parse_facts(wanted)


def conditions_in(prompt: str) -> list[State]:
    """The conditions to be judged, in order; one in other words than the world's is empty."""
    listed = prompt.rpartition("Conditions, in order:")[2]
    return [parse_facts(text) for text in CONDITION.findall(listed)]


def considered_in(prompt: str) -> list[str]:
    """The actions whose outcomes are to be foretold, in order."""
    return CONDITION.findall(prompt.rpartition("Actions that are considered:")[2])


def holds(wanted: State, state: State) -> bool:
    """Whether what is wanted is so; what is not understood is not."""
    return bool(wanted) and wanted <= state
