"""State of the agents that try a task several times and learn between: Reflexion, CLIN, STEP."""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from certigraph.state.acting import ActingState, DecideView, Turn, decide_view
from certigraph.state.channels import Log
from certigraph.state.endings import GOAL
from certigraph.state.records import Record, Scores, Task
from certigraph.state.run import world_ending

KEPT = 3
"""Lessons of earlier episodes that are shown (Reflexion's and CLIN's own number)."""


class Trial(Record):
    """One finished episode: its number from 1, its score, and how its world ended."""

    number: int
    scores: Scores
    ending: str
    steps: int


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
    """Why a run of several episodes ended: with the goal when one of them reached it."""
    trials = state.get("trials", [])
    if any(trial.ending == GOAL for trial in trials):
        return GOAL
    return trials[-1].ending if trials else world_ending(state)
