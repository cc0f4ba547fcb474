"""Where a run stands on a demonstration, and the names of the stretches that are left of it."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from certigraph.adapters.answering import Demonstration
from certigraph.state.records import Predicate

NAMED = re.compile(r"(\d+) actions to go after: ")

MOST_TEXT = 190
"""Characters of a stretch's name: what STEP's subtasks and TDP's sub-tasks hold."""


class Standing(NamedTuple):
    """Where a run stands."""

    left: tuple[str, ...]
    """The actions to the goal."""
    until: int
    """How many of them are left once what is assigned is done; 0: all of the task is."""
    tail: tuple[Predicate, ...]
    """What SDP's plan still holds."""

    @property
    def ahead(self) -> tuple[str, ...]:
        """The actions still to be done for what is assigned."""
        return self.left[: max(len(self.left) - self.until, 0)]


def standing_of(state: Mapping[str, Any], demonstration: Demonstration) -> Standing | None:
    """Where a run stands, by what was done in its episode; None where its world is over without success."""
    seen, task = state["observation"], state["task"]
    if seen.done and not seen.solved:
        return None
    left = () if seen.done else tuple(demonstration(task, [step.action.text for step in state["history"]]))
    assigned = state["subtask"].text if "subtask" in state else task.goal
    tail = tuple(state.get("plan", ())[state.get("head", 0) :])
    return Standing(left, to_go(assigned) or 0, tail)


def to_go(text: str) -> int | None:
    """How many actions are left once a named stretch is done; None for a text that names none."""
    found = NAMED.search(text)
    return int(found[1]) if found else None


def stretches(at: Standing, size: int) -> list[str]:
    """What is ahead, a name for every `size` actions."""
    ahead = at.ahead
    spans = [(first, min(first + size, len(ahead))) for first in range(0, len(ahead), size)]
    told = ((len(at.left) - end, "; ".join(ahead[first:end])) for first, end in spans)
    return [f"{after} actions to go after: {actions}"[:MOST_TEXT] for after, actions in told]


def shared_out(at: Standing, most: int) -> list[str]:
    """What is ahead in at most so many stretches of one size."""
    return stretches(at, -(-len(at.ahead) // most) or 1)
