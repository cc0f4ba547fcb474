"""Scripted expert for ScienceWorld: it answers requests by the gold path, the simulator's own solution.

The expert's plans consist of world states that the gold path reaches, read from the simulator's object tree ("The metal
pot is in the sink."): one for each predicate (SDP), subtask (STEP) or, several joined, sub-task (TDP). It decides by
the simulator's state at that moment which conditions hold, so its verdicts are those of an oracle. Its next action is
the next one of the gold path, which it determines from the actions of the episode, so mistakes, wrong verdicts and new
plans do not confuse it; only if the current target already holds, it looks around. Where models write actions freely
(SDP, `decide_freely(most=0)`), it writes them as in the gold path, which is not always how the world lists them;
elsewhere it chooses the closest one.

It knows the solution and reads no prompt. So a score of 100 shows that worlds, limits and schedules work, not that
prompts contain enough information.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

from certigraph.adapters.models.experts import (
    BRINGS_FIELD,
    TARGET_FIELD,
    AnswerFunction,
    action_answer,
    candidates_answer,
    chained_nodes,
    respond_by_field,
    unchanged_revision,
)
from certigraph.adapters.models.scripts import REPEATED_SUFFIX, Situation, cite_state, current_situation
from certigraph.adapters.protocols import MIN_NODES, Responder, StateCheck
from certigraph.benchmarks.scienceworld.recordings import GoldRecording, load_gold_recording
from certigraph.benchmarks.scienceworld.splits import EpisodeSetting
from certigraph.benchmarks.scienceworld.world import normalise_text
from certigraph.nodes.actions import NOTHING
from certigraph.state.records import Step

# Segments of a gold path: the expert's plans, subtasks and sub-tasks name the world states at their ends.

FULL_SCORE = 100
"""Score of a completed task, which ends the episode."""

END = "The score is 100."
"""Text of the segment that leads to the end of a gold path after its last world state."""


class Segment(NamedTuple):
    """Part of a gold path that ends after action number `last`, counted from 1."""

    text: str
    """World state at the end, or several that are reached one after another."""
    last: int
    score: int
    """Score at the end."""


def segments_of(gold: GoldRecording) -> list[Segment]:
    """Return a segment for each world state of a gold path, and one for its end if none of them is reached there."""
    states = [Segment(state.text, state.after, gold.scores[state.after - 1]) for state in gold.states]
    reaches_end = bool(states) and states[-1].last == gold.firstdone
    return states if reaches_end else [*states, Segment(END, gold.firstdone, FULL_SCORE)]


def join_segments(segments: Sequence[Segment], limit: int) -> list[Segment]:
    """Join neighbouring segments so that at most `limit` remain."""
    size = -(-len(segments) // limit) or 1
    groups = [segments[start : start + size] for start in range(0, len(segments), size)]
    return [group[-1]._replace(text=" ".join(segment.text for segment in group)) for group in groups]


def find_segment(text: str, gold: GoldRecording) -> Segment | None:
    """Return the segment that a text assigns: the last of those whose world state it contains; None if there is none.

    Texts of sub-tasks join several world states, and operators may add to them.
    """
    named = [segment for segment in segments_of(gold) if segment.text in text]
    return named[-1] if named else None


def count_done(gold: Sequence[str], history: Sequence[Step]) -> int:
    """Count the actions of the path `gold` that the history contains in this order; other actions are ignored."""
    count = 0
    for step in history:
        texts = {normalise_text(step.action.text), normalise_text(step.action.written)}
        count += count < len(gold) and normalise_text(gold[count]) in texts
    return count


# Progress of a run on its task's gold path.

GoldSource = Callable[[str, int, str], GoldRecording]
"""Function that returns the recorded gold path of a task, given its name, variation and simplification."""


class GoldProgress(NamedTuple):
    """Progress of a run on the gold path: how many of its actions are done, the score, and the current conditions."""

    gold: GoldRecording
    done: int
    score: int
    assigned: Segment | None
    """Segment that the text of the subtask (STEP) or sub-task (TDP) names; None if it names none."""
    tail: tuple[str, ...]
    """Remaining predicates of the SDP plan, the current one first; without the mark of repetitions."""
    target: int
    """Number of the current predicate in the plan, from 1."""
    check: Callable[[str], StateCheck | None]
    """Checks a condition in the simulator's state at this moment; None if the state does not decide it."""

    @property
    def ahead(self) -> list[Segment]:
        """Segments of the path that are not completed."""
        return [segment for segment in segments_of(self.gold) if segment.last > self.done]

    @property
    def remaining(self) -> Sequence[str]:
        """Remaining actions of the assigned segment, or else of the complete path."""
        return self.gold.actions[self.done : self.assigned.last if self.assigned else None]


def gold_progress(state: Mapping[str, Any], gold: GoldSource) -> GoldProgress:
    """Determine the progress of a run from its graph state, mainly from the actions in its history."""
    setting = EpisodeSetting.model_validate(state["task"].constants)
    path = gold(setting.task, setting.variation, setting.simplification)
    assigned = state["subtask"].text if "subtask" in state else state["task"].goal
    score = int(state["observation"].data.get("score", path.start))
    plan = state.get("plan", ())[state.get("head", 0) :]
    tail = tuple(predicate.text.removesuffix(REPEATED_SUFFIX) for predicate in plan)
    situation = current_situation() or Situation("", 0, state)
    done = count_done(path.actions, state["history"])
    target = state.get("head", 0) + 1
    return GoldProgress(path, done, score, find_segment(assigned, path), tail, target, situation.check_state)


# Answers to TDP's operators, which decompose a task, plan, supervise and revise.


def answer_nodes(position: GoldProgress, form: dict[str, Any]) -> Any:
    """Answer TDP's request to decompose the task: with a chain of the segments ahead.

    The last one, with score 100, completes the task.
    """
    limit = form["properties"]["nodes"].get("maxItems", MIN_NODES)
    joined = join_segments(position.ahead, limit)
    return {"nodes": chained_nodes({f"segment-{n}": segment.text for n, segment in enumerate(joined, 1)})}


def answer_steps(position: GoldProgress, form: dict[str, Any]) -> Any:
    """Answer a request for a plan with the next actions of the gold path, as many as the schema `form` allows."""
    limit = form["properties"]["steps"].get("maxItems")
    return {"steps": list(position.remaining[:limit]) or ["Wait for what was begun."]}


def answer_progress(position: GoldProgress, form: dict[str, Any]) -> Any:
    """Answer TDP's request whether the sub-task is completed: whether its segment is.

    The last segment is completed by its score, any other by its actions or its score.
    """
    segment = position.assigned
    is_last = segment is not None and segment.score >= FULL_SCORE
    reached = position.score >= FULL_SCORE if is_last else segment is not None and position.done >= segment.last
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
    return {"conditions": [segment.text for segment in position.ahead if segment.text != END]}


def _answer_subtask(position: GoldProgress, form: dict[str, Any]) -> Any:
    ahead = position.ahead or [Segment(END, position.done, FULL_SCORE)]
    near = [segment for segment in ahead if segment.last <= position.done + MAX_SUBTASK_ACTIONS]
    return {"rationale": "it comes next", "subtask": (near or ahead[:1])[-1].text, "insights": []}


def _answer_action(position: GoldProgress, form: dict[str, Any]) -> Any:
    if TARGET_FIELD in form["properties"] and _holds_already(position):
        return {"thought": "the world's state says so", TARGET_FIELD: "holds", "action": "", "choice": NOTHING}
    answer = action_answer(_next_action(position), form, "the gold path says so", last=len(position.remaining) <= 1)
    target = find_segment(position.tail[0], position.gold) if position.tail else None
    brings = BRINGS_FIELD in form["properties"] and target is not None and target.last == position.done + 1
    return {**answer, BRINGS_FIELD: position.target} if brings else answer


def _answer_proposals(position: GoldProgress, form: dict[str, Any]) -> Any:
    return candidates_answer(_next_action(position), form)


def _next_action(position: GoldProgress) -> str:
    if _holds_already(position):
        return IDLE_ACTION
    return position.gold.actions[min(position.done, len(position.gold.actions) - 1)]


def _holds_already(position: GoldProgress) -> bool:
    check = position.check(position.tail[0]) if position.tail else None
    return check is not None and check.holds


def _answer_verdict(position: GoldProgress, form: dict[str, Any]) -> Any:
    limit = int(form["properties"]["holds"].get("maximum", 1))
    checks = [position.check(text) for text in position.tail[:limit]]
    held = list(takewhile(lambda check: check is not None and check.holds, checks))
    shown = [check.shown for check in held or checks[:1] if check]
    if shown:
        cite_state("; ".join(dict.fromkeys(shown)))
    return {"reason": "; ".join(dict.fromkeys(shown)), "holds": len(held)}


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
