"""The mind behind `scripted:expert` in worlds that can demonstrate: it follows a demonstration to the goal.

Where a run stands it tells by how many actions are left, which it asks the world anew when the run has left the path:
slips, wrong verdicts and new plans do not throw it off. Its conditions, subtasks and sub-tasks name stretches of the
demonstration, which no model could know: what it reaches says that worlds, limits and schedules work, not that prompts
tell enough.
"""

from functools import lru_cache
from typing import Any

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
from certigraph.adapters.protocols import LEAST_NODES, LEAST_PLAN, Limits, Responder
from certigraph.adapters.stretches import Standing, shared_out, standing_of, stretches, to_go
from certigraph.state.records import Predicate

PIECE: int = Limits.model_fields["substeps"].default
"""Actions of one subtask: what STEP allows by default before it refines a subtask."""


@lru_cache(maxsize=16)
def demonstrated(demonstration: Demonstration) -> Responder:
    """The mind that follows a demonstration, one for each, so that it remembers what was asked of it.

    Outside a node, to questions of other kinds, and once the world is over without success its answers are the least.
    """
    left = remembered(demonstration)
    return answered(_ANSWERS, lambda state: standing_of(state, left))


def _plan(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["conditions"].get("maxItems", LEAST_PLAN)
    return {"conditions": shared_out(at, most) or ["The goal is reached."]}


def _subtask(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    ahead = stretches(at._replace(until=0), PIECE)
    return {"rationale": "it comes next", "subtask": [*ahead, "The goal is reached."][0], "insights": []}


def _nodes(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["nodes"].get("maxItems", LEAST_NODES)
    return {"nodes": chain({f"stretch-{n}": text for n, text in enumerate(shared_out(at, most), 1)})}


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
    after = to_go(wanted.text)
    if after is None:
        return wanted.kind == "goal" and not at.ahead
    return len(at.left) <= after


def _steps(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    most = form["properties"]["steps"].get("maxItems", LEAST_PLAN)
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
    "reached": lambda at, prompt, form: {"reason": f"{len(at.left)} actions to go", "reached": not at.ahead},
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
