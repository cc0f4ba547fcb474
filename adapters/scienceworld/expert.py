"""The mind behind `scripted:expert` in ScienceWorld: it follows the simulator's own gold path, milestone by milestone.

It commits to one predicate, subtask or sub-task for each rise of the gold path's score. Where a run stands on the path
it reads off what was done in the episode, so that slips, wrong verdicts and new plans do not throw it off: its next
action is the path's next one, but for a target that is reached already, for which it looks around. It writes actions as
the gold path has them, which is not always as the world lists them: they go through where models write freely (SDP,
`decide_freely(most=0)`); elsewhere it takes the nearest.

The assignments that it is given name milestones of the path, which no model could know, and it reads nothing of a
prompt but the conditions to be judged: 100 points by it say that worlds, limits and schedules work, not that prompts
tell enough. BlocksWorld's expert is the one that knows its prompts alone.
"""

import re
from functools import lru_cache
from typing import Any

from certigraph.adapters.answering import Answer, acting, answered, proposing, unchanged
from certigraph.adapters.protocols import Responder
from certigraph.adapters.scienceworld import decomposing
from certigraph.adapters.scienceworld.milestones import milestones, named
from certigraph.adapters.scienceworld.recorder import gold_recording
from certigraph.adapters.scienceworld.recording import Recording
from certigraph.adapters.scienceworld.standing import Golds, Standing, standing

CONDITIONS = re.compile(r"^Conditions, in order:\n((?:\d+\. .*\n)+)", re.MULTILINE)

IDLE = "look around"

FULL = 100
"""The score of a completed task."""

PIECE = 8
"""Actions of a milestone that make one subtask: what STEP allows by default before it refines a subtask."""


@lru_cache(maxsize=64)
def _recorded(task: str, variation: int, simplification: str) -> Recording:
    return gold_recording(task, variation, simplification)


def respond_for(gold: Golds = _recorded) -> Responder:
    """The mind; `gold` has the paths. Outside a node, and to questions of other kinds, its answers are the least."""
    respond = answered(_ANSWERS, lambda state: standing(state, gold))
    respond.blocks = True  # type: ignore[attr-defined]  # a path that is not on disk yet is walked in a simulator
    return respond


def _plan(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return {"conditions": [m.text() for m in milestones(at.gold) if m.score > at.score]}


def _subtask(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    ahead = next((m for m in milestones(at.gold) if m.last > at.done), None)
    text = "The path is walked."
    if ahead:
        text = ahead._replace(first=at.done + 1, last=min(ahead.last, at.done + PIECE)).text()
    return {"rationale": "it comes next", "subtask": text, "insights": []}


def _action(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return acting(_next(at), form, "the gold path says so")


def _proposals(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    return proposing(_next(at), form)


def _next(at: Standing) -> str:
    reached = at.target is not None and at.target.score <= at.score
    return IDLE if reached else at.gold.actions[min(at.done, len(at.gold.actions) - 1)]


def _verdict(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    shown, most = CONDITIONS.findall(prompt), int(form["properties"]["holds"].get("maximum", 1))
    held = 0
    for line in shown[-1].splitlines() if shown else ():
        found = named(line)
        if found is None or found.score > at.score:
            break
        held += 1
    return {"reason": f"the score is {at.score}", "holds": min(held, most)}


def _completion(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    done = at.assigned is not None and at.done >= at.assigned.last
    return {"reason": f"{at.done} actions of the gold path are done", "completed": done}


def _goal_check(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    reached = at.done >= at.assigned.last if at.assigned else at.score >= FULL
    return {"reason": f"the score is {at.score}", "reached": reached}


_ANSWERS: dict[str, Answer[Standing]] = {
    "conditions": _plan,
    "holds": _verdict,
    "reached": _goal_check,
    "subtask": _subtask,
    "completed": _completion,
    "nodes": decomposing.nodes,
    "steps": decomposing.steps,
    "status": decomposing.progress,
    "change": unchanged,
    "action": _action,
    "actions": _proposals,
    "choice": _action,
}
