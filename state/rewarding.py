"""State of the graphs that predict rewards along recorded trajectories, and the views of their operators."""

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from certigraph.state.channels import Log
from certigraph.state.endings import Fault
from certigraph.state.factored import FactoredState
from certigraph.state.records import Record, Task
from certigraph.state.run import RunState, world_ending

RECORDINGS = "recordings"
"""Key of a task's constants: its trajectories, each a list of {"action": ..., "observation": ...}."""

DOMAIN = "domain"
"""Key of a task's constants: the benchmark whose world the recordings are from."""

TRUE_REWARDS = "true"
"""Key of a scored answer with the rewards that were to be predicted, a list for each recording."""

ending = world_ending


class Seen(Record):
    """A step: an action, empty where the world was only looked at, and what the world answered."""

    action: str = ""
    observation: str
    recording: int = Field(0, ge=0)
    """Which of the task's recordings it is from."""


class Prediction(Record):
    """The reward that is predicted after a step, in [0, 1]."""

    reward: float
    recording: int = 0


class RewardState(RunState, total=False):
    """Everything that a predictor of rewards knows; `position` is the step that comes next."""

    steps: Log[Seen]
    position: int
    factored: FactoredState
    goal: FactoredState
    reward: float
    note: str
    """What a predictor without states keeps in mind."""
    rewards: Log[Prediction]


class FactorView(TypedDict):
    """What extraction (Eq. 4), interpretation (Eq. 6) and routing (Eqs. 7-9) see: no step but the present one.

    `factored` and `goal` are the latest; both are empty where a trajectory begins.
    """

    task: Task
    step: Seen
    factored: FactoredState
    goal: FactoredState


class RateView(TypedDict):
    """What a predictor without states sees: the steps of the trajectory up to the present one.

    `length` is the number of all its steps. It is there for the monotonic baseline, which knows nothing else.
    """

    task: Task
    steps: Sequence[Seen]
    length: int
    note: str


def recorded(task: Task) -> list[Seen]:
    """The steps of a task's recordings, one recording after the other.

    Raises:
        Fault: ("data") it has none, or one without steps; the message shows one. Or nothing is wanted.
    """
    if not task.goal.strip():
        raise Fault("data", f"task {task.id} has an empty goal, which no reward is for: give Task(..., goal='...')")
    try:
        recordings = _RECORDINGS.validate_python(task.constants.get(RECORDINGS))
    except ValidationError as error:
        example = f'constants={{"{RECORDINGS}": [[{{"action": "open door", "observation": "It is open."}}]]}}'
        raise Fault(
            "data", f"task {task.id} has no trajectory to predict rewards of: give Task(..., {example})"
        ) from error
    return [step.model_copy(update={"recording": n}) for n, steps in enumerate(recordings) for step in steps]


_RECORDINGS = TypeAdapter(Annotated[list[Annotated[list[Seen], Field(min_length=1)]], Field(min_length=1)])


def without_recordings(task: Task) -> Task:
    """The task as operators see it: what comes later in a recording is not theirs to know."""
    kept = {key: value for key, value in task.constants.items() if key != RECORDINGS}
    return task.model_copy(update={"constants": kept})


def factor_view(state: RewardState) -> FactorView:
    """The part of the state that StateFactory's operators may read."""
    step, known = state["steps"][state["position"]], not begins(state)
    return {
        "task": state["task"],
        "step": step,
        "factored": state["factored"] if known else FactoredState(),
        "goal": state["goal"] if known else FactoredState(),
    }


def routed_view(state: RewardState) -> FactorView:
    """The same once the step is extracted: also where a trajectory begins, both states are the step's own."""
    step = state["steps"][state["position"]]
    return {"task": state["task"], "step": step, "factored": state["factored"], "goal": state["goal"]}


def interpret_view(state: RewardState) -> FactorView:
    """The same for goal interpretation, which knows the new state and the goal before it."""
    return {**factor_view(state), "factored": state["factored"]}


def rate_view(state: RewardState) -> RateView:
    """The part of the state that a predictor without states may read."""
    here, recording = state["position"], state["steps"][state["position"]].recording
    inside = [step for step in state["steps"] if step.recording == recording]
    first = next(place for place, step in enumerate(state["steps"]) if step.recording == recording)
    note = "" if begins(state) else state["note"]
    return {"task": state["task"], "steps": inside[: here - first + 1], "length": len(inside), "note": note}


def begins(state: RewardState) -> bool:
    """Whether the present step is the first of a trajectory."""
    here = state["position"]
    return here == 0 or state["steps"][here - 1].recording != state["steps"][here].recording


def by_recording(rewards: Sequence[Prediction]) -> list[list[float]]:
    """The predicted rewards of each recording."""
    return [[one.reward for one in group] for _, group in groupby(rewards, key=lambda one: one.recording)]
