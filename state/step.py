"""State of the agents that attempt a task several times and learn between episodes: Reflexion, CLIN and STEP."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from typing_extensions import TypedDict

from certigraph.state.channels import (
    Log,
)
from certigraph.state.endings import GAVE_UP, GOAL, METHOD_LIMITS
from certigraph.state.records import Action, Record, Scores, Task
from certigraph.state.run import (
    DecideView,
    Evidence,
    ReActState,
    Turn,
    advice_of,
    belief_of,
    format_repeats,
    without_thoughts,
    world_ending,
)

SHOWN_LESSONS = 3
"""Maximum number of earlier lessons that an agent is shown, as in Reflexion and CLIN."""


class Trial(Record):
    """One finished episode of a task: its number from 1, its score, its ending and its number of world steps."""

    number: int
    scores: Scores
    ending: str
    steps: int

    @property
    def cut(self) -> bool:
        """Whether an internal limit of the method ended the episode.

        The limit of world steps does not count, because every episode has it.
        """
        return self.ending in {f"limit:{kind}" for kind in METHOD_LIMITS}


class Lesson(Record):
    """What the agent learned from the episode number `trial`; `report` describes how that episode went.

    `insights` are CLIN's causal abstractions ("X is necessary for Y"), `strategy` is STEP's list of subtasks,
    `reflection` is Reflexion's prose.
    """

    trial: int
    report: str
    insights: tuple[str, ...] = ()
    strategy: tuple[str, ...] = ()
    reflection: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The insights that forbid something. STEP's Evaluator checks actions against them (STEP section 3)."""
        return tuple(insight for insight in self.insights if "NOT" in insight.split())


def has_learned_nothing(lessons: Sequence[Lesson]) -> bool:
    """Return whether the latest lesson is empty or equal to the one before it, or whether there is no lesson.

    The next episode would then go like the last one.
    """
    contents = [(lesson.insights, lesson.strategy, lesson.reflection) for lesson in lessons[-2:]]
    return not contents or contents[-1] == (contents[0] if len(contents) > 1 else ((), (), ""))


class TrialState(ReActState, total=False):
    """State of an agent that learns between episodes; `lessons` are the latest ones, the oldest first."""

    trial: int
    trials: Log[Trial]
    lessons: tuple[Lesson, ...]


class ReflectView(TypedDict):
    """View of the operator that writes a lesson: the episode that just ended, and the lessons before it."""

    task: Task
    trial: Trial
    turns: Sequence[Turn]
    lessons: Sequence[Lesson]


class RecallView(TypedDict):
    """View of the operator that recalls lessons: the task, the episode's number, and the lessons of this run."""

    task: Task
    trial: int
    lessons: Sequence[Lesson]


def reflect_view(state: TrialState) -> ReflectView:
    """Return the part of the state that the operator that writes a lesson may read."""
    return {
        "task": state["task"],
        "trial": state["trials"][-1],
        "turns": tuple(state["turns"]),
        "lessons": state["lessons"],
    }


def recall_view(state: TrialState) -> RecallView:
    """Return the part of the state that the operator that recalls lessons may read."""
    return {"task": state["task"], "trial": state["trial"], "lessons": state["lessons"]}


def shown_lessons(state: TrialState) -> tuple[str, ...]:
    """Return what ReAct's agent is shown of earlier episodes: all reflections and the latest insights."""
    lessons = state["lessons"]
    reflections = (lesson.reflection for lesson in lessons if lesson.reflection)
    return (*reflections, *(lessons[-1].insights if lessons else ()))


def best_scores(state: Mapping[str, Any], live: Scores | None) -> Scores | None:
    """Return the best score among a run's episodes; None if no episode has a score.

    Reflexion, CLIN and STEP report this score. Of equal scores, that of the latest episode is returned.

    Args:
        state: the state of the run.
        live: the score of the episode in progress, if there is one.
    """
    scores = [trial.scores for trial in state.get("trials", [])] + ([live] if live else [])
    # Of equal scores the latest counts, because a later episode has learned more.
    return max(reversed(scores), key=lambda score: score.value, default=None)


def trials_ending(state: TrialState) -> str:
    """Return the ending of a run of several episodes: `goal` if one of them reached it, else that of the last one.

    If the last episode used up its world steps, the run gave up.
    """
    trials = state.get("trials", [])
    if any(trial.ending == GOAL for trial in trials):
        return GOAL
    if not trials:
        return world_ending(state)
    return GAVE_UP if trials[-1].ending == "limit:steps" else trials[-1].ending


def trials_message(state: Mapping[str, Any]) -> str:
    """Return a summary of the episodes of a run that gave up. The text is empty for any other ending."""
    trials = state.get("trials", [])
    if not trials or trials_ending(state) != GAVE_UP:  # type: ignore[arg-type]
        return ""
    last = trials[-1]
    message = f"none of {len(trials)} episodes reached the goal; the last one ended after {last.steps} steps"
    if last.ending == "limit:steps":
        return f"{message}, all that it had: a new run has more with --budget steps={2 * last.steps}"
    return ": ".join(filter(None, [message, format_repeats(state.get("turns", ()))]))


# STEP's state (section 3, Algorithm 1), and the views that keep its four roles separate.

SubtaskStatus = Literal["open", "reported", "completed", "failed"]
"""Status of one of STEP's subtasks; `reported` is completed by the Executor's word, which the Planner checks."""


class StepSubtask(Record):
    """Subtask that STEP's Executor works on (m in Algorithm 1), and the insights that are relevant to it (s)."""

    text: str
    insights: tuple[str, ...] = ()
    status: SubtaskStatus = "open"
    reason: str = ""
    """Why the subtask counts as completed or failed."""
    whole: bool = False
    """Whether the subtask is the main task itself, as in the STEP paper's ablation of the Planner."""
    answer: str = ""
    """The answer that the subtask is to hand in, as the Planner drafted it; only the shipped Executor uses it."""


class Approval(Record):
    """The Evaluator's decision on an action before it is taken (f in STEP's Algorithm 1), with its reason."""

    approved: bool = True
    reason: str = ""


Standing = Literal["continues", "completes", "reached", "blocked"]
"""How a subtask stands by its Executor: the action is a step towards it; the action should complete it; it is reached
already, so that no action is taken; it cannot be reached, so that none is taken either."""

STANDING, REPORT = "standing", "report"
"""Keys in the `args` of an Executor's action: its `Standing`, and what the world shows for it if no action is taken.

An Executor that gives no standing is judged after every action, as in the STEP paper.
"""


HANDED_BACK = ("reached", "blocked")
"""Standings with which the Executor hands its subtask back and takes no action."""


def standing_of(action: Action) -> Standing | None:
    """Return how the subtask stands by the Executor that gave the action; None if it does not say."""
    given = action.args.get(STANDING)
    return given if given in get_args(Standing) else None  # type: ignore[return-value]  # checked


def is_handed_back(action: Action) -> bool:
    """Return whether the Executor hands its subtask back and takes no action."""
    return standing_of(action) in HANDED_BACK


class StepState(TrialState, total=False):
    """State of a run of STEP.

    `subtask` is the present one, and `subtasks` are the finished ones of this episode. `begun` is the index of the turn
    with which the present one began.
    """

    subtask: StepSubtask
    subtasks: Log[StepSubtask]
    begun: int
    refusals: tuple[str, ...]
    """The Evaluator's reasons for refusing actions or reports of the Executor since the last action was taken."""
    forbidden: dict[str, str]
    """By action, why the Evaluator refused it for the present subtask; absent or empty if it refused none."""
    approval: Approval


class PlannerView(TypedDict):
    """View of STEP's Planner: the main task, the strategy, the insights, and this episode's turns and subtasks."""

    task: Task
    evidence: Evidence
    turns: Sequence[Turn]
    subtasks: Sequence[StepSubtask]
    insights: Sequence[str]
    strategy: Sequence[str]


class ExecutorView(DecideView):
    """View of STEP's Executor: its subtask in place of the task, and the actions that it chose before."""

    whole: bool
    """Whether the subtask is the main task itself."""
    answer: str
    """The answer that the Planner drafted, if the subtask is to hand it in; else empty."""
    taken: int
    """Number of actions that were taken for the subtask."""
    standing: Standing | None
    """Standing of the subtask by the Executor's latest one of these actions; None if there is none."""


class AlignView(TypedDict):
    """View of STEP's Evaluator before an action: the action, the subtask, the rules, and the history without the task.

    Algorithm 1, line 14.
    """

    task: Task
    subtask: str
    action: Action
    rules: Sequence[str]
    turns: Sequence[Turn]
    begun: int
    """Number of turns before the subtask."""
    evidence: Evidence
    options: Sequence[str]
    """What the last action may mean, if the world asks that."""
    forbidden: Mapping[str, str]
    """By action, why it was refused before for the subtask."""
    refused: int
    """Number of actions that were refused since the last one was taken."""


class AssessView(TypedDict):
    """View of STEP's Evaluator after an action: the subtask, the history, and the world at present."""

    task: Task
    subtask: StepSubtask
    turns: Sequence[Turn]
    begun: int
    """Number of turns before the subtask."""
    evidence: Evidence
    action: Action
    """The Executor's latest action, with what the Executor says about the subtask."""
    upcoming: Sequence[Action]
    """Actions that will follow the last one."""
    untaken: Sequence[Action]
    """Actions that were to follow the last one and were cut off."""
    failed: bool
    """Whether the latest action had no effect; of several calls of tools, whether one failed."""


def planner_view(state: StepState) -> PlannerView:
    """Return the part of the state that STEP's Planner may read."""
    lesson = state["lessons"][-1] if state["lessons"] else None
    return {
        "task": state["task"],
        "evidence": state["evidence"],
        "turns": without_thoughts(state["turns"]),
        "subtasks": tuple(state["subtasks"]),
        "insights": lesson.insights if lesson else (),
        "strategy": lesson.strategy if lesson else (),
    }


def executor_view(state: StepState) -> ExecutorView:
    """Return the part of the state that STEP's Executor may read. It sees its subtask in place of the task's goal.

    Insights and reasons, which may repeat what the world says, are added by the node, which quotes them.
    """
    subtask, taken = state["subtask"], len(state["turns"]) - state["begun"]
    return {
        "task": _hide_goal(state["task"], subtask),
        "assignment": subtask.text,
        "steps": len(state["history"]),
        "rounds": len(state["turns"]),
        "most_rounds": 0,
        "turns": without_thoughts(_hide_goal_in_turns(state, state["turns"])),
        "evidence": _hide_goal_in_view(state),
        "advice": advice_of(state),
        "belief": belief_of(state),
        "whole": subtask.whole,
        "answer": subtask.answer,
        "observation": state["observation"],
        "upcoming": state.get("upcoming", ()),
        "untaken": state.get("untaken", ()),
        "taken": taken,
        "standing": standing_of(state["action"]) if taken else None,
    }


def align_view(state: StepState) -> AlignView:
    """Return the part of the state that STEP's Evaluator may read before an action is taken."""
    rules = state["lessons"][-1].rules if state["lessons"] else ()
    subtask = state["subtask"]
    return {
        "task": _hide_goal(state["task"], subtask),
        "subtask": subtask.text,
        "action": state["action"],
        "rules": rules,
        "turns": without_thoughts(_hide_goal_in_turns(state, state["turns"])),
        "begun": state["begun"],
        "evidence": _hide_goal_in_view(state),
        "options": state["observation"].options,
        "forbidden": state.get("forbidden", {}),
        "refused": len(state["refusals"]),
    }


def assess_view(state: StepState) -> AssessView:
    """Return the part of the state that STEP's Evaluator may read after an action."""
    return {
        "task": _hide_goal(state["task"], state["subtask"]),
        "subtask": state["subtask"],
        "turns": without_thoughts(_hide_goal_in_turns(state, state["turns"])),
        "begun": state["begun"],
        "evidence": _hide_goal_in_view(state),
        "action": state["action"],
        "upcoming": state.get("upcoming", ()),
        "untaken": state.get("untaken", ()),
        "failed": state["observation"].failed or not state["observation"].accepted,
    }


def _hide_goal(task: Task, subtask: StepSubtask) -> Task:
    """Return the task with only its benchmark and id. It is unchanged if the subtask is the main task."""
    return task if subtask.whole else Task(benchmark=task.benchmark, id=task.id)


def _hide_goal_in_view(state: StepState) -> Evidence:
    evidence = state["evidence"]
    return evidence.model_copy(update={"view": _hide_goal_in_text(state, evidence.view)})


def _hide_goal_in_text(state: StepState, text: str) -> str:
    goal = state["task"].goal
    return text.replace(goal, "(not shown)") if goal and not state["subtask"].whole else text


def _hide_goal_in_turns(state: StepState, turns: Sequence[Turn]) -> Iterator[Turn]:
    """Yield the turns with the task's goal cut out of the observations.

    Some worlds show the goal on request; ScienceWorld does. Nothing is cut out if the subtask is the main task.
    """
    for turn in turns:
        shown = _hide_goal_in_text(state, turn.observation)
        yield turn if shown == turn.observation else turn.model_copy(update={"observation": shown})
