"""State of one running sub-task (TDP section 3.3), and the views that keep its operators to it.

Plan-and-Act and the one-shot plan use the same state for the complete task.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from typing_extensions import TypedDict

from certigraph.state.endings import EXHAUSTED, GAVE_UP, GOAL
from certigraph.state.records import Action, Record, Step, Task
from certigraph.state.run import (
    Belief,
    DecideView,
    Evidence,
    ReActState,
    Turn,
    belief_of,
    decide_view,
    is_stopped,
    remembered_turns,
)
from certigraph.state.step import Standing, standing_of
from certigraph.state.tools import calls_of


class Progress(Record):
    """The Supervisor's assessment of a sub-task after an action."""

    status: Literal["needs_more_steps", "completed", "failed"] = "needs_more_steps"
    reason: str = ""
    off_plan: bool = False
    """Whether the observations conflict with the plan, so that a new one is needed."""
    done: int = 0
    """How many steps of the plan, from the first on, are done or no longer needed."""
    guidance: str = ""
    """Advice in general terms on what to do next."""
    result: str = ""
    """What the sub-tasks that depend on this one have to know. Set once this one has ended."""
    judged: int = 0
    """Number of actions for the sub-task when its work was last judged, if not all of it is."""


class SubtaskState(ReActState, total=False):
    """State of the run of one sub-task. The specification is the goal of `task`.

    `outline` is the sub-task's own plan, `replanned` the number of times it was replaced.
    """

    known: tuple[str, ...]
    """The results of the sub-tasks that this one needs, and of its own earlier run if it begins again."""
    last: bool
    """Whether this sub-task completes the whole task. It is then done as soon as the world is done."""
    whole: bool
    """Whether this sub-task is the whole task, because that was not divided; absent: it is a part of it."""
    single: bool
    """Whether one action is expected to be enough for this sub-task; absent: not."""
    outline: tuple[str, ...]
    progress: Progress
    replanned: int
    denied: int
    """Number of times in a row that the Executor handed the sub-task back and it was judged to go on; absent: none."""


class ExecuteView(DecideView):
    """View of a sub-task's Executor: that of an agent, and the standing of the sub-task at its latest action."""

    standing: Standing | None


class AssignmentView(TypedDict):
    """What all roles of a sub-task see: its specification, the results of the sub-tasks it needs, the world now."""

    task: Task
    assignment: str
    known: Sequence[str]
    evidence: Evidence


class PlanView(AssignmentView):
    """View of a sub-task's Planner."""

    whole: bool
    """Whether the assignment is the whole task, and not a part of it."""
    single: bool
    """Whether one action is expected to be enough for the assignment."""
    steps: int
    """Number of actions taken in this episode, those of earlier sub-tasks included: `Limits.steps` allows so many."""


class SubtaskReplanView(AssignmentView):
    """View of a sub-task's Planner when it replaces the plan: also the plan, the turns and the reason."""

    steps: int
    """Number of actions taken in this episode, as in `PlanView`."""
    outline: Sequence[str]
    turns: Sequence[Turn]
    belief: Belief
    reason: str


class SuperviseView(AssignmentView):
    """View of a sub-task's Supervisor: this sub-task's plan and turns, and nothing of other sub-tasks."""

    outline: Sequence[str]
    turns: Sequence[Turn]
    belief: Belief
    last: bool
    whole: bool
    """Whether the assignment is the whole task, and not a part of it."""
    action: Action
    """The latest action."""
    taken: int
    """Number of actions taken for the assignment."""
    steps: int
    """Number of actions taken in this episode, as in `PlanView`."""
    failures: int
    """Number of latest actions in a row that were refused, or of which a call of a tool failed or was refused."""
    failed: bool
    """Whether the latest action had no effect."""
    options: Sequence[str]
    """What the latest action may mean, if the world asks that."""
    upcoming: Sequence[Action]
    """Actions that will follow the latest one."""
    untaken: Sequence[Action]
    """Actions that were to follow the latest one and were cut off."""
    progress: Progress
    """The assessment before the latest action."""


def plan_view(state: SubtaskState) -> PlanView:
    """Return the part of the state that a sub-task's Planner may read for its first plan."""
    size = {"whole": state.get("whole", False), "single": state.get("single", False)}
    return {**_assignment_view(state), **size, "steps": len(state["history"])}  # type: ignore[typeddict-item]


def execute_view(state: SubtaskState) -> ExecuteView:
    """Return the part of the state that the Executor may read.

    The plan and the Supervisor's guidance are added as advice.
    """
    progress, view = state.get("progress", Progress()), decide_view(state)
    steps = [f"Plan, step {number}: {step}" for number, step in enumerate(state["outline"], 1)]
    done = min(progress.done, len(steps))
    standing = [f"Steps of the plan that are done or not needed: 1 to {done}"] if done else []
    guidance = [f"{GUIDANCE}: {progress.guidance}"] if progress.guidance else []
    return {
        **view,
        "advice": (*steps, *standing, *guidance, *view["advice"]),
        "lasting": len(steps),
        "standing": standing_of(state["action"]) if state["turns"] else None,
    }


GUIDANCE = "Advised when the work was last judged"


def supervise_view(state: SubtaskState) -> SuperviseView:
    """Return the part of the state that the Supervisor of a sub-task may read."""
    taken, observation = len(state["turns"]), state["observation"]
    return {
        **_trace_view(state),  # type: ignore[typeddict-item]
        "last": state["last"],
        "whole": state.get("whole", False),
        "action": state["action"],
        "taken": taken,
        "steps": len(state["history"]),
        "failures": _count_failures(state["history"], state["turns"]),
        "failed": observation.failed or not observation.accepted,
        "options": observation.options,
        "upcoming": state.get("upcoming", ()),
        "untaken": state.get("untaken", ()),
        "progress": state["progress"],
    }


def _count_failures(steps: Sequence[Step], turns: Sequence[Turn]) -> int:
    """Count the latest actions in a row that came to nothing; each turn is that of one of the latest steps."""
    failed = (
        not turn.accepted or any(call.error or call.refused for call in calls_of(step.action))
        for step, turn in zip(reversed(steps), reversed(turns), strict=False)
    )
    return len(list(takewhile(bool, failed)))


def subtask_replan_view(state: SubtaskState) -> SubtaskReplanView:
    """Return the part of the state that a sub-task's Planner may read for a new plan."""
    reason = state["progress"].reason if "progress" in state else ""
    return {**_trace_view(state), "steps": len(state["history"]), "reason": reason}  # type: ignore[typeddict-item]


def subtask_ending(state: SubtaskState) -> str:
    """Return the ending of a sub-task: `goal` if the Supervisor judged it completed, `exhausted` if a gate ended it.

    Else it is `gave_up`.
    """
    if state["progress"].status == "completed":
        return GOAL
    return EXHAUSTED if is_stopped(state) else GAVE_UP


def _assignment_view(state: SubtaskState) -> AssignmentView:
    return {
        "task": state["task"],
        "assignment": state["task"].goal,
        "known": state["known"],
        "evidence": state["evidence"],
    }


def _trace_view(state: SubtaskState) -> dict[str, object]:
    traced = {"outline": state["outline"], "turns": remembered_turns(state), "belief": belief_of(state)}
    return {**_assignment_view(state), **traced}
