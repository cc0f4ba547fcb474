"""ScienceWorld's scripted expert."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from certigraph.adapters.models.experts import Answer, acting, answered, chain, proposing, unchanged
from certigraph.adapters.protocols import LEAST_NODES, Responder
from certigraph.adapters.scienceworld.recordings import Recording, gold_recording
from certigraph.adapters.scienceworld.splits import Setting
from certigraph.adapters.scienceworld.world import plain
from certigraph.state.records import Step

# The rises of a gold path's score: what the scripted expert's plans, subtasks and sub-tasks are made of.

MILESTONE = re.compile(r"Milestone (\d+): actions (\d+) to (\d+) of the gold path, score (\d+)\.")


class Milestone(NamedTuple):
    """A rise of a gold path's score, and the actions (1-based, inclusive) that lead to it."""

    number: int
    first: int
    last: int
    score: int

    def text(self) -> str:
        """Its name in a plan, in which `MILESTONE` finds all of it again."""
        return f"Milestone {self.number}: actions {self.first} to {self.last} of the gold path, score {self.score}."


def milestones(gold: Recording) -> list[Milestone]:
    """The rises of a gold path's score, up to 100."""
    rises: list[Milestone] = []
    for number, score in enumerate(gold.scores[: gold.firstdone], 1):
        if score > (rises[-1].score if rises else gold.start):
            rises.append(Milestone(len(rises) + 1, rises[-1].last + 1 if rises else 1, number, score))
    return rises


def joined(rises: Sequence[Milestone], most: int) -> list[Milestone]:
    """The same way in at most `most` milestones: neighbours are taken together where there are more."""
    size = -(-len(rises) // most) or 1
    together = [rises[place : place + size] for place in range(0, len(rises), size)]
    return [some[-1]._replace(first=some[0].first) for some in together]


def named(text: str) -> Milestone | None:
    """The milestone that a text names."""
    found = MILESTONE.search(text)
    return Milestone(*map(int, found.groups())) if found else None


def walked(gold: Sequence[str], history: Sequence[Step]) -> int:
    """How many of a path's actions are done: those found in the history in their order, whatever else is in it."""
    done = 0
    for step in history:
        said = {plain(step.action.text), plain(str(step.action.args.get("written", "")))}
        done += done < len(gold) and plain(gold[done]) in said
    return done


# Where a run stands on its task's gold path: what the scripted expert goes by.

Golds = Callable[[str, int, str], Recording]
"""Task, variation and simplification -> the recording of the gold path."""


class Standing(NamedTuple):
    """The gold path, how many of its actions are done, the score, and what is worked on."""

    gold: Recording
    done: int
    score: int
    assigned: Milestone | None
    """What STEP's subtask or TDP's sub-task names."""
    target: Milestone | None
    """What the head of SDP's plan names."""

    @property
    def left(self) -> Sequence[str]:
        """The actions still to be done for what is assigned, else to the end."""
        return self.gold.actions[self.done : self.assigned.last if self.assigned else None]


def standing(state: Mapping[str, Any], gold: Golds) -> Standing:
    """Where a run stands, by what was done in its episode."""
    setting = Setting.model_validate(state["task"].constants)
    path = gold(setting.task, setting.variation, setting.simplification)
    assigned = state["subtask"].text if "subtask" in state else state["task"].goal
    score = int(state["observation"].data.get("score", path.start))
    plan, head = state.get("plan", ()), state.get("head", 0)
    target = plan[head].text if head < len(plan) else ""
    return Standing(path, walked(path.actions, state["history"]), score, named(assigned), named(target))


# What the scripted expert answers to the operators that decompose a task, plan, supervise and revise (TDP).

FULL = 100
"""The score that ends an episode."""


def nodes(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    """A chain of the milestones ahead; the last one, of score 100, settles the task."""
    most = form["properties"]["nodes"].get("maxItems", LEAST_NODES)
    ahead = joined([m for m in milestones(at.gold) if m.score > at.score], most)
    return {"nodes": chain({f"milestone-{m.number}": m.text() for m in ahead})}


def steps(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    """The path's next actions, as many as a plan may have."""
    most = form["properties"]["steps"].get("maxItems")
    return {"steps": list(at.left[:most]) or ["Wait for what was begun."]}


def progress(at: Standing, prompt: str, form: dict[str, Any]) -> Any:
    """A milestone is reached with its score or, but for the last one, with its actions done."""
    wanted = at.assigned
    reached = wanted and (at.score >= wanted.score or (wanted.score < FULL and at.done >= wanted.last))
    told = f"{at.done} actions of the gold path are done, the score is {at.score}"
    guidance = "" if reached or not at.left else at.left[0]
    status = "completed" if reached else "needs_more_steps"
    return {"reason": told, "status": status, "off_plan": False, "guidance": guidance, "result": told}


# The mind behind `scripted:expert` in ScienceWorld: it follows the simulator's own gold path, milestone by milestone.
#
# It commits to one predicate, subtask or sub-task for each rise of the gold path's score. Where a run stands on the
# path it reads off what was done in the episode, so that slips, wrong verdicts and new plans do not throw it off: its
# next action is the path's next one, but for a target that is reached already, for which it looks around. It writes
# actions as the gold path has them, which is not always as the world lists them: they go through where models write
# freely (SDP, `decide_freely(most=0)`); elsewhere it takes the nearest.
#
# The assignments that it is given name milestones of the path, which no model could know, and it reads nothing of a
# prompt but the conditions to be judged: 100 points by it say that worlds, limits and schedules work, not that
# prompts tell enough. BlocksWorld's expert is the one that knows its prompts alone.

CONDITIONS = re.compile(r"^Conditions, in order:\n((?:\d+\. .*\n)+)", re.MULTILINE)

IDLE = "look around"

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
    "nodes": nodes,
    "steps": steps,
    "status": progress,
    "change": unchanged,
    "action": _action,
    "actions": _proposals,
    "choice": _action,
}
