"""The mind behind `scripted:expert` in worlds that can demonstrate: it follows a demonstration to the goal.

Where a run stands it tells by how many actions are left, which it asks the world anew when the run has left the path:
slips, wrong verdicts and new plans do not throw it off. Its conditions, subtasks and sub-tasks name stretches of the
demonstration, which no model could know: what it reaches says that worlds, limits and schedules work, not that prompts
tell enough.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from certigraph.adapters.answering import (
    Answer,
    Demonstration,
    acting,
    answered,
    chain,
    proposing,
    remembered,
    unchanged,
)
from certigraph.adapters.protocols import Limits, Responder
from certigraph.state.records import Predicate

NAMED = re.compile(r"(\d+) actions to go after: ")

MOST_TEXT = 190
"""Characters of a stretch's name: what STEP's subtasks and TDP's sub-tasks hold."""

PIECE: int = Limits.model_fields["substeps"].default
"""Actions of one subtask: what STEP allows by default before it refines a subtask."""

MOST_CONDITIONS, MOST_NODES, MOST_STEPS = 40, int(Limits.model_fields["nodes"].default), 8


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


@lru_cache(maxsize=16)
def demonstrated(demonstration: Demonstration) -> Responder:
    """The mind that follows a demonstration, one for each, so that it remembers what was asked of it.

    Outside a node, to questions of other kinds, and once the world is over without success its answers are the least.
    """
    left = remembered(demonstration)
    return answered(_ANSWERS, lambda state: _standing(state, left))


def _standing(state: Mapping[str, Any], demonstration: Demonstration) -> Standing | None:
    seen, task = state["observation"], state["task"]
    if seen.done and not seen.solved:
        return None
    left = () if seen.done else tuple(demonstration(task, [step.action.text for step in state["history"]]))
    assigned = state["subtask"].text if "subtask" in state else task.goal
    tail = tuple(state.get("plan", ())[state.get("head", 0) :])
    return Standing(left, _to_go(assigned) or 0, tail)


def _to_go(text: str) -> int | None:
    found = NAMED.search(text)
    return int(found[1]) if found else None


def _stretches(at: Standing, size: int) -> list[str]:
    """What is ahead, a name for every `size` actions."""
    ahead = at.ahead
    spans = [(first, min(first + size, len(ahead))) for first in range(0, len(ahead), size)]
    told = ((len(at.left) - end, "; ".join(ahead[first:end])) for first, end in spans)
    return [f"{to_go} actions to go after: {actions}"[:MOST_TEXT] for to_go, actions in told]


def _shared(at: Standing, most: int) -> list[str]:
    """What is ahead in at most so many stretches of one size."""
    return _stretches(at, -(-len(at.ahead) // most) or 1)


def _plan(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["conditions"].get("maxItems", MOST_CONDITIONS)
    return {"conditions": _shared(at, most) or ["The goal is reached."]}


def _subtask(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    ahead = _stretches(at._replace(until=0), PIECE)
    return {"rationale": "it comes next", "subtask": [*ahead, "The goal is reached."][0], "insights": []}


def _nodes(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["nodes"].get("maxItems", MOST_NODES)
    return {"nodes": chain({f"stretch-{n}": text for n, text in enumerate(_shared(at, most), 1)})}


def _action(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return acting(_next(at), form, "the demonstration says so")


def _proposals(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return proposing(_next(at), form)


def _next(at: Standing) -> str:
    return at.left[0] if at.left else "look"


def _verdict(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = int(form["properties"]["holds"].get("maximum", len(at.tail)))
    unmet = (place for place, wanted in enumerate(at.tail) if not _holds(at, wanted))
    return {"reason": f"{len(at.left)} actions to go", "holds": min(next(unmet, len(at.tail)), most)}


def _holds(at: Standing, wanted: Predicate) -> bool:
    to_go = _to_go(wanted.text)
    if to_go is None:
        return wanted.kind == "goal" and not at.ahead
    return len(at.left) <= to_go


def _steps(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["steps"].get("maxItems", MOST_STEPS)
    return {"steps": list(at.ahead[:most]) or ["Nothing is left to do."]}


def _completion(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return {"reason": f"{len(at.left)} actions to go", "completed": not at.ahead}


def _progress(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    told, guidance = f"{len(at.left)} actions to go", "".join(at.ahead[:1])
    status = "needs_more_steps" if at.ahead else "completed"
    return {"reason": told, "status": status, "off_plan": False, "guidance": guidance, "result": told}


_ANSWERS: dict[str, Answer[Standing]] = {
    "conditions": _plan,
    "holds": _verdict,
    "subtask": _subtask,
    "completed": _completion,
    "nodes": _nodes,
    "steps": _steps,
    "status": _progress,
    "change": unchanged,
    "forbidden": lambda at, prompt, form: {"reason": "no rule speaks of it", "forbidden": False},
    "action": _action,
    "actions": _proposals,
    "choice": _action,
}
