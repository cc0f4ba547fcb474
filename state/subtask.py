"""State of one sub-task at work (TDP section 3.3), and the views that keep its operators to it.

Plan-and-Act and the one-shot plan use the same state for the whole task.
"""

from collections.abc import Sequence
from typing import Literal

from typing_extensions import TypedDict

from certigraph.state.acting import ActingState, DecideView, Turn, decide_view, remembered_turns
from certigraph.state.beliefs import Belief, belief_of
from certigraph.state.endings import GAVE_UP, GOAL
from certigraph.state.records import Record, Task
from certigraph.state.run import Evidence


class Progress(Record):
    """The Supervisor's word on a sub-task after an action."""

    status: Literal["needs_more_steps", "completed", "failed"] = "needs_more_steps"
    reason: str = ""
    off_plan: bool = False
    """Whether what was observed conflicts with the plan so that it must be made anew."""
    guidance: str = ""
    """What to do next, in the large."""
    result: str = ""
    """What those who need the sub-task have to know; once it has ended."""


class SubtaskState(ActingState, total=False):
    """Everything that one sub-task knows. Its specification is its task's goal, `outline` its plan."""

    known: tuple[str, ...]
    """The outcomes of the sub-tasks that it needs."""
    last: bool
    """Whether it settles the whole task: then it is done when the world is."""
    outline: tuple[str, ...]
    progress: Progress
    replanned: int


class PlanView(TypedDict):
    """The Planner sees the specification, what it builds on, and the world now."""

    task: Task
    assignment: str
    known: Sequence[str]
    evidence: Evidence


class ReplanView(PlanView):
    """A plan is made anew from the same, the plan so far, this sub-task's own trace, and what went against it."""

    outline: Sequence[str]
    turns: Sequence[Turn]
    belief: Belief
    reason: str


class SuperviseView(PlanView):
    """The Supervisor sees one sub-task at work, nothing of the others."""

    outline: Sequence[str]
    turns: Sequence[Turn]
    belief: Belief
    last: bool


def plan_view(state: SubtaskState) -> PlanView:
    """The part of the state that the Planner may read."""
    task = state["task"]
    return {"task": task, "assignment": task.goal, "known": state["known"], "evidence": state["evidence"]}


def execute_view(state: SubtaskState) -> DecideView:
    """The part of the state that the Executor may read: plan and guidance are its advice.

    What the sub-tasks that it needs came to is shown beside it, in `known`.
    """
    guidance = state["progress"].guidance if "progress" in state else ""
    seen = decide_view(state)
    steps = [f"Plan, step {number}: {step}" for number, step in enumerate(state["outline"], 1)]
    told = [*steps, *([f"Now: {guidance}"] if guidance else []), *seen["advice"]]
    return {**seen, "advice": tuple(told)}


def supervise_view(state: SubtaskState) -> SuperviseView:
    """The part of the state that the Supervisor of a sub-task may read."""
    return {**_traced(state), "last": state["last"]}  # type: ignore[typeddict-item]


def replan_view(state: SubtaskState) -> ReplanView:
    """The part of the state that the Planner may read when the plan is made anew."""
    reason = state["progress"].reason if "progress" in state else ""
    return {**_traced(state), "reason": reason}  # type: ignore[typeddict-item]


def ending(state: SubtaskState) -> str:
    """`goal` where its Supervisor calls it completed."""
    return GOAL if state["progress"].status == "completed" else GAVE_UP


def _traced(state: SubtaskState) -> dict[str, object]:
    traced = {"outline": state["outline"], "turns": remembered_turns(state), "belief": belief_of(state)}
    return {**plan_view(state), **traced}
