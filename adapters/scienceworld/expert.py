"""Scripted expert for ScienceWorld: it answers requests by following the gold path, the simulator's own solution.

A milestone is a rise of the score along the gold path. The expert's plans consist of milestones: one for each predicate
(SDP), subtask (STEP) or sub-task (TDP). It determines the progress of a run from the actions of the episode, so
mistakes, wrong verdicts and new plans do not confuse it. Its next action is the next one of the gold path; only if the
current target is already reached, it looks around. Where models write actions freely (SDP, `decide_freely(most=0)`), it
writes them as in the gold path, which is not always how the world lists them; elsewhere it chooses the closest one.

Its plans name milestones of the gold path, which no model could know, and it reads no prompt. So a score of 100 shows
that worlds, limits and schedules work, not that prompts contain enough information.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

from certigraph.adapters.models.experts import (
    AnswerFunction,
    action_answer,
    candidates_answer,
    chained_nodes,
    respond_by_field,
    unchanged_revision,
)
from certigraph.adapters.protocols import MIN_NODES, Responder
from certigraph.adapters.scienceworld.recordings import GoldRecording, load_gold_recording
from certigraph.adapters.scienceworld.splits import EpisodeSetting
from certigraph.adapters.scienceworld.world import normalise_text
from certigraph.state.records import Step

# Milestones: the expert's plans, subtasks and sub-tasks consist of them.

MILESTONE = re.compile(r"Milestone (\d+): actions (\d+) to (\d+) of the gold path, score (\d+)\.")


class Milestone(NamedTuple):
    """Rise of a gold path's score, and the actions (numbered from 1, inclusive) that lead to it."""

    number: int
    first: int
    last: int
    score: int

    def text(self) -> str:
        """Return the milestone's text in a plan, which `MILESTONE` parses."""
        return f"Milestone {self.number}: actions {self.first} to {self.last} of the gold path, score {self.score}."


def milestones_of(gold: GoldRecording) -> list[Milestone]:
    """Return one milestone for each rise of a gold path's score, up to 100."""
    rises: list[Milestone] = []
    for number, score in enumerate(gold.scores[: gold.firstdone], 1):
        if score > (rises[-1].score if rises else gold.start):
            rises.append(Milestone(len(rises) + 1, rises[-1].last + 1 if rises else 1, number, score))
    return rises


def join_milestones(rises: Sequence[Milestone], limit: int) -> list[Milestone]:
    """Join neighbouring milestones so that at most `limit` remain."""
    size = -(-len(rises) // limit) or 1
    groups = [rises[start : start + size] for start in range(0, len(rises), size)]
    return [group[-1]._replace(first=group[0].first) for group in groups]


def parse_milestone(text: str) -> Milestone | None:
    """Parse the milestone that a text names; None if it names none."""
    match = MILESTONE.search(text)
    return Milestone(*map(int, match.groups())) if match else None


def count_done(gold: Sequence[str], history: Sequence[Step]) -> int:
    """Count the actions of the path `gold` that the history contains in this order; other actions are ignored."""
    count = 0
    for step in history:
        texts = {normalise_text(step.action.text), normalise_text(str(step.action.args.get("written", "")))}
        count += count < len(gold) and normalise_text(gold[count]) in texts
    return count


# Progress of a run on its task's gold path.

GoldSource = Callable[[str, int, str], GoldRecording]
"""Function that returns the recorded gold path of a task, given its name, variation and simplification."""


class GoldProgress(NamedTuple):
    """Progress of a run on the gold path: how many of its actions are done, the score, and the current milestones."""

    gold: GoldRecording
    done: int
    score: int
    assigned: Milestone | None
    """Milestone that the text of the subtask (STEP) or sub-task (TDP) names; None if it names none."""
    tail: tuple[Milestone | None, ...]
    """Milestones of the SDP plan's remaining predicates, the current one first; None for one that names none."""

    @property
    def target(self) -> Milestone | None:
        """Milestone of the current predicate of an SDP plan; None if there is none."""
        return next(iter(self.tail), None)

    @property
    def remaining(self) -> Sequence[str]:
        """Remaining actions of the assigned milestone, or else of the complete path."""
        return self.gold.actions[self.done : self.assigned.last if self.assigned else None]


def gold_progress(state: Mapping[str, Any], gold: GoldSource) -> GoldProgress:
    """Determine the progress of a run from its graph state, mainly from the actions in its history."""
    setting = EpisodeSetting.model_validate(state["task"].constants)
    path = gold(setting.task, setting.variation, setting.simplification)
    assigned = state["subtask"].text if "subtask" in state else state["task"].goal
    score = int(state["observation"].data.get("score", path.start))
    tail = tuple(parse_milestone(predicate.text) for predicate in state.get("plan", ())[state.get("head", 0) :])
    return GoldProgress(path, count_done(path.actions, state["history"]), score, parse_milestone(assigned), tail)


# Answers to TDP's operators, which decompose a task, plan, supervise and revise.

FULL_SCORE = 100
"""Score of a completed task, which ends the episode."""


def answer_nodes(position: GoldProgress, form: dict[str, Any]) -> Any:
    """Answer TDP's request to decompose the task: with a chain of the milestones ahead.

    The last milestone, with score 100, completes the task.
    """
    limit = form["properties"]["nodes"].get("maxItems", MIN_NODES)
    ahead = join_milestones([m for m in milestones_of(position.gold) if m.score > position.score], limit)
    return {"nodes": chained_nodes({f"milestone-{m.number}": m.text() for m in ahead})}


def answer_steps(position: GoldProgress, form: dict[str, Any]) -> Any:
    """Answer a request for a plan with the next actions of the gold path, as many as the schema `form` allows."""
    limit = form["properties"]["steps"].get("maxItems")
    return {"steps": list(position.remaining[:limit]) or ["Wait for what was begun."]}


def answer_progress(position: GoldProgress, form: dict[str, Any]) -> Any:
    """Answer TDP's request whether the sub-task is completed: whether its milestone is reached.

    A milestone is reached by its score or, except for the last one, by its actions.
    """
    milestone = position.assigned
    reached = milestone and (
        position.score >= milestone.score or (milestone.score < FULL_SCORE and position.done >= milestone.last)
    )
    summary = f"{position.done} actions of the gold path are done, the score is {position.score}"
    guidance = "" if reached or not position.remaining else position.remaining[0]
    status = "completed" if reached else "needs_more_steps"
    return {"reason": summary, "status": status, "off_plan": False, "guidance": guidance, "result": summary}


# The expert.

IDLE_ACTION = "look around"

MAX_SUBTASK_ACTIONS = 8
"""Maximum number of actions of a subtask; after this many, STEP by default replaces a subtask by a finer one."""


@lru_cache(maxsize=64)
def _load_gold(task: str, variation: int, simplification: str) -> GoldRecording:
    return load_gold_recording(task, variation, simplification)


def create_expert(gold: GoldSource = _load_gold) -> Responder:
    """Create the scripted expert.

    Outside a graph node, and for an answer schema that it does not know, it answers with the schema's smallest
    instance.

    Args:
        gold: Function that returns the gold path of a task.
    """
    respond = respond_by_field(_ANSWERS, lambda state: gold_progress(state, gold))
    respond.blocks = True  # type: ignore[attr-defined]  # a path that is not cached is recorded in a simulator
    return respond


def _answer_plan(position: GoldProgress, form: dict[str, Any]) -> Any:
    return {"conditions": [m.text() for m in milestones_of(position.gold) if m.score > position.score]}


def _answer_subtask(position: GoldProgress, form: dict[str, Any]) -> Any:
    ahead = next((m for m in milestones_of(position.gold) if m.last > position.done), None)
    text = "The path is walked."
    if ahead:
        text = ahead._replace(first=position.done + 1, last=min(ahead.last, position.done + MAX_SUBTASK_ACTIONS)).text()
    return {"rationale": "it comes next", "subtask": text, "insights": []}


def _answer_action(position: GoldProgress, form: dict[str, Any]) -> Any:
    return action_answer(_next_action(position), form, "the gold path says so", last=len(position.remaining) <= 1)


def _answer_proposals(position: GoldProgress, form: dict[str, Any]) -> Any:
    return candidates_answer(_next_action(position), form)


def _next_action(position: GoldProgress) -> str:
    reached = position.target is not None and position.target.score <= position.score
    return IDLE_ACTION if reached else position.gold.actions[min(position.done, len(position.gold.actions) - 1)]


def _answer_verdict(position: GoldProgress, form: dict[str, Any]) -> Any:
    limit = int(form["properties"]["holds"].get("maximum", 1))
    reached = takewhile(lambda milestone: milestone is not None and milestone.score <= position.score, position.tail)
    return {"reason": f"the score is {position.score}", "holds": min(len(list(reached)), limit)}


def _answer_completion(position: GoldProgress, form: dict[str, Any]) -> Any:
    reached = position.assigned is not None and position.done >= position.assigned.last
    return {"reason": f"{position.done} actions of the gold path are done", "completed": reached}


def _answer_goal_check(position: GoldProgress, form: dict[str, Any]) -> Any:
    reached = position.done >= position.assigned.last if position.assigned else position.score >= FULL_SCORE
    return {"reason": f"the score is {position.score}", "reached": reached}


_ANSWERS: dict[str, AnswerFunction[GoldProgress]] = {
    "conditions": _answer_plan,
    "holds": _answer_verdict,
    "reached": _answer_goal_check,
    "subtask": _answer_subtask,
    "completed": _answer_completion,
    "nodes": answer_nodes,
    "steps": answer_steps,
    "status": answer_progress,
    "change": unchanged_revision,
    "action": _answer_action,
    "actions": _answer_proposals,
    "choice": _answer_action,
}
