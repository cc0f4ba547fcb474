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
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from certigraph.adapters.matching import ranked
from certigraph.adapters.models.instances import minimal
from certigraph.adapters.models.situation import current_situation
from certigraph.adapters.protocols import Responder
from certigraph.adapters.scienceworld import decomposing
from certigraph.adapters.scienceworld.milestones import milestones, named
from certigraph.adapters.scienceworld.recorder import gold_recording
from certigraph.adapters.scienceworld.recording import Recording
from certigraph.adapters.scienceworld.standing import Golds, Standing, standing

CONDITIONS = re.compile(r"^Conditions, in order:\n((?:\d+\. .*\n)+)", re.MULTILINE)

IDLE = "look around"

PIECE = 8
"""Actions of a milestone that make one subtask: what STEP allows by default before it refines a subtask."""

Answer = Callable[[Standing, str, dict[str, Any]], Any]


@lru_cache(maxsize=64)
def _recorded(task: str, variation: int, simplification: str) -> Recording:
    return gold_recording(task, variation, simplification)


def respond_for(gold: Golds = _recorded) -> Responder:
    """The mind; `gold` has the paths. Outside a node, and to questions of other kinds, its answers are the least."""

    def respond(prompt: str, form: dict[str, Any]) -> Any:
        situation = current_situation()
        answer = next((make for name, make in _ANSWERS.items() if name in form.get("properties", ())), None)
        return answer(standing(situation.state, gold), prompt, form) if situation and answer else minimal(form)

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
    actions, parts = at.gold.actions, form["properties"]
    reached = at.target is not None and at.target.score <= at.score
    wanted = IDLE if reached else actions[min(at.done, len(actions) - 1)]
    options = parts.get("choice", {}).get("enum")
    answer = {"choice": ranked(wanted, options, most=1, focus_rule=False)[0].action} if options else {"action": wanted}
    return {"thought": "the gold path says so", **answer} if "thought" in parts else answer


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


_ANSWERS: dict[str, Answer] = {
    "conditions": _plan,
    "holds": _verdict,
    "subtask": _subtask,
    "completed": _completion,
    "nodes": decomposing.nodes,
    "steps": decomposing.steps,
    "status": decomposing.progress,
    "change": decomposing.unchanged,
    "action": _action,
    "choice": _action,
}
