"""State of the agents that try a task several times: Reflexion, CLIN and STEP."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from certigraph.state.records import GAVE_UP, GOAL, METHODS_OWN, Action, Log, Record, Scores, Task
from certigraph.state.run import (
    REFUSED,
    ActingState,
    DecideView,
    Evidence,
    Turn,
    acts,
    advised,
    belief_of,
    decide_view,
    world_ending,
)

# State of the agents that try a task several times and learn between: Reflexion, CLIN, STEP.

KEPT = 3
"""Lessons of earlier episodes that are shown (Reflexion's and CLIN's own number)."""


class Trial(Record):
    """One finished episode: its number from 1, its score, and how its world ended."""

    number: int
    scores: Scores
    ending: str
    steps: int

    @property
    def cut(self) -> bool:
        """Whether a limit of the method's own ended it. That of steps does not count: every episode has so many."""
        return self.ending in {f"limit:{kind}" for kind in METHODS_OWN}


class Lesson(Record):
    """What one episode taught.

    `insights` are CLIN's causal abstractions ("X is necessary for Y"), `strategy` STEP's list of subtasks,
    `reflection` Reflexion's prose. `report` says how the episode went.
    """

    trial: int
    report: str
    insights: tuple[str, ...] = ()
    strategy: tuple[str, ...] = ()
    reflection: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The insights that forbid: what STEP's Evaluator holds actions against (section 3)."""
        return tuple(insight for insight in self.insights if "NOT" in insight.split())


def nothing_learnt(lessons: Sequence[Lesson]) -> bool:
    """Whether the latest lesson teaches what was known before: the next episode would be the same again."""
    taught = [(lesson.insights, lesson.strategy, lesson.reflection) for lesson in lessons[-2:]]
    return not taught or taught[-1] == (taught[0] if len(taught) > 1 else ((), (), ""))


class TrialState(ActingState, total=False):
    """What an agent that learns between episodes knows; `lessons` are the latest, oldest first."""

    trial: int
    trials: Log[Trial]
    lessons: tuple[Lesson, ...]


class ReflectView(TypedDict):
    """What the author of a lesson sees: the episode that just ended, and the lessons of those before."""

    task: Task
    trial: Trial
    turns: Sequence[Turn]
    lessons: Sequence[Lesson]


class RecallView(TypedDict):
    """What names the lessons to recall, and those of the run so far, which its memory need not have stored."""

    task: Task
    trial: int
    lessons: Sequence[Lesson]


def reflect_view(state: TrialState) -> ReflectView:
    """The part of the state that the author of a lesson may read."""
    return {
        "task": state["task"],
        "trial": state["trials"][-1],
        "turns": tuple(state["turns"]),
        "lessons": state["lessons"],
    }


def recall_view(state: TrialState) -> RecallView:
    """The part of the state that recalling needs."""
    return {"task": state["task"], "trial": state["trial"], "lessons": state["lessons"]}


def advised_view(state: TrialState) -> DecideView:
    """ReAct's view with what earlier episodes taught as advice: all reflections, the latest insights."""
    lessons = state["lessons"]
    reflections = tuple(lesson.reflection for lesson in lessons if lesson.reflection)
    insights = lessons[-1].insights if lessons else ()
    return {**decide_view(state), "advice": (*reflections, *insights)}


def best_of(state: Mapping[str, Any], live: Scores | None) -> Scores | None:
    """The score of a run: of its episodes, the live one included, the best (the rule of Reflexion, CLIN and STEP)."""
    known = [trial.scores for trial in state.get("trials", [])] + ([live] if live else [])
    # Of equals the last one: a later episode knows more.
    return max(reversed(known), key=lambda scores: scores.value, default=None)


def trials_ending(state: TrialState) -> str:
    """Why a run of several episodes ended: with the goal when one of them reached it.

    It gave up where the last of its episodes used up the steps that every episode has.
    """
    trials = state.get("trials", [])
    if any(trial.ending == GOAL for trial in trials):
        return GOAL
    if not trials:
        return world_ending(state)
    return GAVE_UP if trials[-1].ending == "limit:steps" else trials[-1].ending


def trials_message(state: Mapping[str, Any]) -> str:
    """What became of the episodes of a run that gave up; empty for any other."""
    trials = state.get("trials", [])
    if not trials or trials_ending(state) != GAVE_UP:  # type: ignore[arg-type]
        return ""
    last = trials[-1]
    told = f"none of {len(trials)} episodes reached the goal; the last one ended after {last.steps} steps"
    if last.ending == "limit:steps":
        told += f", all that it had: a new run has more with --budget steps={2 * last.steps}"
    return told


# STEP's state (section 3, Algorithm 1), and the views that keep its four roles apart.

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
