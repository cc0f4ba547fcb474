"""STEP's state (section 3, Algorithm 1), and the views that keep its four roles apart."""

from collections.abc import Iterator, Sequence
from typing import Literal

from typing_extensions import TypedDict

from certigraph.state.acting import REFUSED, DecideView, Turn, acts
from certigraph.state.beliefs import advised, belief_of
from certigraph.state.channels import Log
from certigraph.state.lessons import TrialState
from certigraph.state.records import Action, Record, Task
from certigraph.state.run import Evidence

Status = Literal["open", "completed", "failed"]


class Subtask(Record):
    """What the Executor works on (m in Algorithm 1), with the insights that the Planner found relevant (s)."""

    text: str
    insights: tuple[str, ...] = ()
    status: Status = "open"
    reason: str = ""
    """Why it is completed or failed."""
    whole: bool = False
    """Whether it is the main task itself, which is never refined: the paper's ablation of the Planner."""


class Approval(Record):
    """The Evaluator's answer before an action is taken (f in Algorithm 1): approved, or the rule it breaks."""

    approved: bool = True
    reason: str = ""


class StepState(TrialState, total=False):
    """Everything a run of STEP knows. `subtasks` are this episode's finished ones, `begun` the turn that began this."""

    subtask: Subtask
    subtasks: Log[Subtask]
    begun: int
    refusals: tuple[str, ...]
    """What the Evaluator said against this turn's candidates."""
    approval: Approval


class PlannerView(TypedDict):
    """The Planner sees the main task, the strategy, the insights, this episode's subtasks and its history."""

    task: Task
    evidence: Evidence
    turns: Sequence[Turn]
    subtasks: Sequence[Subtask]
    insights: Sequence[str]
    strategy: Sequence[str]


class AlignView(TypedDict):
    """The Evaluator before an action sees the action and the rules, nothing by which to have a view of its own."""

    task: Task
    subtask: str
    action: Action
    rules: Sequence[str]


class AssessView(TypedDict):
    """The Evaluator after an action sees the subtask, the turns made for it, and the world now."""

    task: Task
    subtask: Subtask
    turns: Sequence[Turn]
    evidence: Evidence


def planner_view(state: StepState) -> PlannerView:
    """The part of the state that the Planner may read."""
    lesson = state["lessons"][-1] if state["lessons"] else None
    return {
        "task": state["task"],
        "evidence": state["evidence"],
        "turns": acts(state["turns"]),
        "subtasks": tuple(state["subtasks"]),
        "insights": lesson.insights if lesson else (),
        "strategy": lesson.strategy if lesson else (),
    }


def executor_view(state: StepState) -> DecideView:
    """The Executor's part: its subtask in place of the task."""
    refused = tuple(f"{REFUSED}{refusal}" for refusal in state["refusals"])
    return {
        "task": _unnamed(state["task"], state["subtask"]),
        "assignment": state["subtask"].text,
        "turns": acts(_scoped(state, state["turns"])),
        "evidence": state["evidence"],
        "advice": (*state["subtask"].insights, *advised(state), *refused),
        "belief": belief_of(state),
    }


def align_view(state: StepState) -> AlignView:
    """The part of the state that the Evaluator may read before an action."""
    rules = state["lessons"][-1].rules if state["lessons"] else ()
    subtask = state["subtask"]
    return {
        "task": _unnamed(state["task"], subtask),
        "subtask": subtask.text,
        "action": state["action"],
        "rules": rules,
    }


def assess_view(state: StepState) -> AssessView:
    """The part of the state that the Evaluator may read after an action."""
    return {
        "task": _unnamed(state["task"], state["subtask"]),
        "subtask": state["subtask"],
        "turns": acts(_scoped(state, state["turns"][state["begun"] :])),
        "evidence": state["evidence"],
    }


def _unnamed(task: Task, subtask: Subtask) -> Task:
    """The task without its words: benchmark and id, which operators need to find their world."""
    return task if subtask.whole else Task(benchmark=task.benchmark, id=task.id)


def _scoped(state: StepState, turns: Sequence[Turn]) -> Iterator[Turn]:
    """The turns; where the world told the task, as ScienceWorld does when asked, its words are taken out."""
    goal = state["task"].goal
    for turn in turns:
        told = goal and not state["subtask"].whole and goal in turn.observation
        yield turn.model_copy(update={"observation": turn.observation.replace(goal, "(not shown)")}) if told else turn
