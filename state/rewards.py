"""State of the graphs that predict rewards (StateFactory) and of the agents that look ahead."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from certigraph.state.channels import Log
from certigraph.state.endings import Fault
from certigraph.state.records import Record, Task
from certigraph.state.run import DecideView, ReActState, RunState, Turn, decide_view, world_ending

# World states factored as in StateFactory: entities, each with the values of its attributes.

Granularity = Literal["raw", "textual", "object", "attribute"]
"""Level of detail of a factored state (StateFactory, appendix C.5.1, levels 1 to 4).

`raw`: the observation as it is. `textual`: its relevant facts as one text. `object`: one text of facts per object.
`attribute`: one value per attribute of an object.
"""

GRANULARITIES: tuple[str, ...] = get_args(Granularity)
"""All levels of detail, the coarsest first."""

DESCRIPTION_ATTRIBUTE = "description"
"""Name of the only attribute that an object has at granularity `object`: one text with all facts about the object."""


class Entity(Record):
    """An object: its identity and the present values of its attributes (StateFactory Eq. 5)."""

    identity: str = Field(min_length=1)
    attributes: dict[str, str] = Field(default_factory=dict)

    def sentences(self) -> list[str]:
        """Return one sentence per attribute, or the identity alone if there is no attribute."""
        sentences = [f"{self.identity}: {name} {value}" for name, value in self.attributes.items()]
        return sentences or [self.identity]


class FactoredState(Record):
    """State of the world, present or wanted, as a list of objects with unique identities."""

    entities: tuple[Entity, ...] = ()
    read_by: Literal["", "model", "rules"] = ""
    """Who read the state from the text: a model, or rules written for the world. Empty if an own operator did."""

    def get(self, identity: str) -> Entity | None:
        """Return the entity with an identity, or None if the state has none."""
        return next((entity for entity in self.entities if entity.identity == identity), None)


def to_factored(entities: dict[str, dict[str, str]]) -> FactoredState:
    """Create a factored state from nested dicts: identity -> attribute -> value."""
    return FactoredState(entities=tuple(Entity(identity=name, attributes=has) for name, has in entities.items()))


def to_mapping(state: FactoredState) -> dict[str, dict[str, str]]:
    """Return a factored state as new nested dicts, in the layout that `to_factored` takes."""
    return {entity.identity: dict(entity.attributes) for entity in state.entities}


def coarsen(state: FactoredState, granularity: str, goal: FactoredState) -> FactoredState:
    """Return the facts of a state at the level of detail `granularity`, again as a factored state.

    At `textual` the result holds one text about the objects that the goal names, as `to_raw` stores a text. At `object`
    every object has one description of its facts. Facts are listed in a fixed order, so that a different order never
    counts as a difference. At any other granularity the state is returned unchanged.
    """
    if granularity == "object":
        return to_factored({entity.identity: _join_attributes(entity) for entity in state.entities})
    return to_raw(_join_sentences(state, goal)) if granularity == "textual" else state


def _join_attributes(entity: Entity) -> dict[str, str]:
    description = "; ".join(f"{name} {value}" for name, value in sorted(entity.attributes.items()))
    return {DESCRIPTION_ATTRIBUTE: description} if description else {}


def _join_sentences(state: FactoredState, goal: FactoredState) -> str:
    named = {entity.identity for entity in goal.entities}
    relevant = [entity for entity in state.entities if entity.identity in named] or state.entities
    sentences = (
        sentence for entity in sorted(relevant, key=lambda entity: entity.identity) for sentence in entity.sentences()
    )
    return ". ".join(sentences)


def to_raw(text: str) -> FactoredState:
    """Create a factored state that holds a text as it is; an empty state if the text is blank."""
    return to_factored({text: {}} if text.strip() else {})


# State of the graphs that predict the rewards of recorded trajectories, and the views of their operators.

RECORDINGS = "recordings"
"""Key in a task's constants: its recorded trajectories, each a list of {"action": ..., "observation": ...}."""

DOMAIN = "domain"
"""Key in a task's constants: name of the benchmark in whose world the trajectories were recorded."""

TRUE_REWARDS = "true"
"""Key in a scored answer: the true rewards, which the run had to predict, as one list per recording."""

reward_ending = world_ending
"""Ending of a run that predicts rewards. Such a run has no predicates, so its world decides."""


class RecordedStep(Record):
    """One step of a recorded trajectory: an action (empty if the world was only observed) and the observation."""

    action: str = ""
    observation: str
    recording: int = Field(default=0, ge=0)
    """Index of the recorded trajectory that the step belongs to."""


class PredictedReward(Record):
    """The reward in [0, 1] that was predicted after a step, with the index of the recorded trajectory."""

    reward: float
    recording: int = 0


class RewardState(RunState, total=False):
    """State of a graph that predicts rewards.

    `steps` are the recorded steps, `position` is the index of the step to predict next. `factored` and `goal` are the
    present state of the world and the goal state.
    """

    steps: Log[RecordedStep]
    position: int
    factored: FactoredState
    goal: FactoredState
    reward: float
    note: str
    """Text that a predictor without factored states passes on from step to step."""
    rewards: Log[PredictedReward]


class _StepView(TypedDict):
    step: RecordedStep
    actions: Sequence[str]


class FactorView(_StepView):
    """View of StateFactory's operators for extraction (Eq. 4), goal interpretation (Eq. 6) and routing (Eqs. 7-9).

    They see the present step, and of the steps before it the actions, oldest first. `factored` and `goal` are the
    latest states; both are empty at the beginning of a trajectory.
    """

    task: Task
    factored: FactoredState
    goal: FactoredState


class RateView(TypedDict):
    """What a reward predictor without factored states sees: the steps of the trajectory up to the present one.

    `length` is the number of all steps of the trajectory. Only the monotonic baseline uses it, and it uses nothing
    else.
    """

    task: Task
    steps: Sequence[RecordedStep]
    length: int
    note: str


def recorded_steps(task: Task) -> list[RecordedStep]:
    """Return the steps of all recorded trajectories of a task, one trajectory after the other.

    Raises:
        Fault: ("data") the task has no recorded trajectory, one of them has no steps, or the goal is empty. The message
            shows an example.
    """
    if not task.goal.strip():
        raise Fault(
            "data",
            f"task {task.id} has an empty goal, so there is nothing to predict rewards for: give Task(..., goal='...')",
        )
    try:
        recordings = _RECORDINGS.validate_python(task.constants.get(RECORDINGS))
    except ValidationError as error:
        example = f'constants={{"{RECORDINGS}": [[{{"action": "open door", "observation": "It is open."}}]]}}'
        reason = f"task {task.id} has no trajectory to predict rewards of"
        raise Fault("data", f"{reason}: take a task with one, or give Task(..., {example})") from error
    return [step.model_copy(update={"recording": n}) for n, steps in enumerate(recordings) for step in steps]


_RECORDINGS = TypeAdapter(Annotated[list[Annotated[list[RecordedStep], Field(min_length=1)]], Field(min_length=1)])


def hide_recordings(task: Task) -> Task:
    """Return the task without its recorded trajectories, because operators must not see the later steps."""
    visible = {key: value for key, value in task.constants.items() if key != RECORDINGS}
    return task.model_copy(update={"constants": visible})


def factor_view(state: RewardState) -> FactorView:
    """Return the part of the state that extraction may read: the present step and the states before it."""
    started = not is_first_step(state)
    return {
        "task": state["task"],
        **_step_view(state),
        "factored": state["factored"] if started else FactoredState(),
        "goal": state["goal"] if started else FactoredState(),
    }


def route_view(state: RewardState) -> FactorView:
    """Return the part of the state that routing may read: the present step, and the factored and goal states there."""
    return {"task": state["task"], **_step_view(state), "factored": state["factored"], "goal": state["goal"]}


def _step_view(state: RewardState) -> _StepView:
    position = state["position"]
    step = state["steps"][position]
    earlier = [one for one in state["steps"][:position] if one.recording == step.recording]
    return {"step": step, "actions": actions_of(earlier)}


def actions_of(steps: Sequence[RecordedStep]) -> list[str]:
    """Return the actions of recorded steps, without steps at which the world was only observed."""
    return [step.action for step in steps if step.action]


def interpret_view(state: RewardState) -> FactorView:
    """Return what goal interpretation may read: the present step, the new factored state and the previous goal."""
    return {**factor_view(state), "factored": state["factored"]}


def rate_view(state: RewardState) -> RateView:
    """Return the part of the state that a reward predictor without factored states may read."""
    position, recording = state["position"], state["steps"][state["position"]].recording
    same = [step for step in state["steps"] if step.recording == recording]
    first = next(index for index, step in enumerate(state["steps"]) if step.recording == recording)
    note = "" if is_first_step(state) else state["note"]
    return {"task": state["task"], "steps": same[: position - first + 1], "length": len(same), "note": note}


def is_first_step(state: RewardState) -> bool:
    """Return whether the present step is the first of a recorded trajectory."""
    position = state["position"]
    return position == 0 or state["steps"][position - 1].recording != state["steps"][position].recording


def group_by_recording(rewards: Sequence[PredictedReward]) -> list[list[float]]:
    """Group the predicted rewards by recorded trajectory: one list of rewards for each."""
    return [
        [prediction.reward for prediction in group]
        for _, group in groupby(rewards, key=lambda prediction: prediction.recording)
    ]


# State of the agents that look ahead: candidates for the next action, their predicted outcomes and expected rewards.


Predictor = Literal["", "copy", "model"]
"""Who predicted an outcome: a copy of the world in which the action was tried, or a model. Empty: an own operator."""


class PredictedOutcome(Record):
    """The outcome of an action as a world model predicts it: an observation and flags like those of `Observation`."""

    action: str
    observation: str
    accepted: bool = True
    done: bool = False
    solved: bool = False
    """Whether the world reports that the goal is reached. An outcome predicted by a model never reports that."""
    reward: float = 0.0
    """Change of the world's score, in parts of 1, as in `Observation`; 0 in an outcome predicted by a model."""
    predicted_by: Predictor = ""


class Appraisal(Record):
    """The value of a candidate action: predicted reward of its outcome, and the gain over the present state."""

    action: str
    reward: float
    gain: float
    """The reward of the outcome minus that of the state before the action (StateFactory Eq. 15)."""
    seen: bool = False
    """Whether the episode has been in that state before or is in it now; False if states are not extracted."""
    unchanged: bool = False
    """Whether that state is the present one; False if states are not extracted."""
    changes: tuple[str, ...] = ()
    """What the predicted state has that the present one has not, one fact each; empty if states are not extracted."""
    ended: tuple[str, ...] = ()
    """Facts of the present state to which the predicted one has none that replaces them."""
    news: str = ""
    """What the predicted outcome says of the score and of the end of the episode (`score_news`)."""
    predicted_by: Predictor = ""

    @property
    def mark(self) -> str:
        """Where the action leads, if not to a state that is new in the episode."""
        return "changes nothing" if self.unchanged else "leads back" if self.seen else ""


def new_facts(before: FactoredState, after: FactoredState) -> tuple[str, ...]:
    """Return the facts of the state `after` that the state `before` lacks, such as "potato 1: location = fridge 1"."""
    return _select_facts(after, before, lambda held, name, value: held.get(name) != value)


def ended_facts(before: FactoredState, after: FactoredState) -> tuple[str, ...]:
    """Return the facts of the state `before` of which the state `after` has neither the same nor another value."""
    return _select_facts(before, after, lambda held, name, value: name not in held)


def _select_facts(
    state: FactoredState, other: FactoredState, selects: Callable[[Mapping[str, str], str, str], bool]
) -> tuple[str, ...]:
    """Return the facts of a state that `selects` selects by what the other state holds of the object, name and value.

    An object without attributes is a fact itself if the other state does not have it.
    """
    known, facts = to_mapping(other), list[str]()
    for entity in state.entities:
        held = known.get(entity.identity)
        if held is None and not entity.attributes:
            facts.append(entity.identity)
        selected = ((name, value) for name, value in entity.attributes.items() if selects(held or {}, name, value))
        facts += [f"{entity.identity}: {name} = {value}" for name, value in selected]
    return tuple(facts)


def score_news(outcome: PredictedOutcome) -> str:
    """Return what an outcome says of score and end, such as "+100 points; the goal is reached"; empty if nothing."""
    points = f"{100 * outcome.reward:+.0f} points" if outcome.reward else ""
    ends = "the world ends the episode" if outcome.done else ""
    return "; ".join(filter(None, (points, "the goal is reached" if outcome.solved else "", ends)))


class ImaginedState(Record):
    """A predicted outcome with its factored state, from which operators can look further ahead."""

    foreseen: PredictedOutcome
    appraisal: Appraisal
    factored: FactoredState
    goal: FactoredState


class ExpectedState(Record):
    """The state after an outcome, and the key of the outcome (`outcome_key`)."""

    key: str
    factored: FactoredState


def find_expected(expected: Iterable[ExpectedState], view: FactorView) -> FactoredState | None:
    """Return the state after a step if it is one of those that were expected, else None."""
    key = outcome_key(view["factored"], view["step"].action, view["step"].observation)
    return next((one.factored for one in expected if one.key == key), None)


class LookaheadState(ReActState, total=False):
    """State of an agent that predicts outcomes before it acts: ReAct's state and the actions considered next.

    `factored`, `goal` and `reward` are the present state, the goal state and the reward predicted for the present.
    `foreseen` and `appraisals` are the predicted outcomes of the `candidates` and their values.
    """

    factored: FactoredState
    goal: FactoredState
    reward: float
    candidates: tuple[str, ...]
    foreseen: tuple[PredictedOutcome, ...]
    appraisals: tuple[Appraisal, ...]
    visited: Log[str]
    """Digests of the factored states that the episode has been in."""
    expected: Log[ExpectedState]
    """States that a model read from predicted outcomes of the episode."""
    named: Log[str]
    """What the states of the episode have named (`names_of`) up to the latest revision of the goal."""


class LookaheadView(DecideView):
    """View of the operators that propose actions and predict outcomes: the acting agent's view, imagined actions."""

    path: tuple[str, ...]
    """Imagined actions that lead from the present to the state under consideration.

    The last `turns` are their outcomes.
    """
    candidates: tuple[str, ...]


class AppraiseView(TypedDict):
    """View of the operator that appraises outcomes: the state before the candidate actions, and their outcomes."""

    task: Task
    actions: Sequence[str]
    """Actions that led to that state, oldest first."""
    factored: FactoredState
    goal: FactoredState
    reward: float
    foreseen: tuple[PredictedOutcome, ...]
    expected: Sequence[ExpectedState]
    """States that a model read from outcomes before."""


class ChooseView(DecideView):
    """What the operator that chooses an action sees: the acting agent's view, and the value of every candidate."""

    appraisals: tuple[Appraisal, ...]


def live_factor_view(state: LookaheadState) -> FactorView:
    """Return what StateFactory's operators see of a live world: its latest step, and the present states."""
    actions = [step.action.text for step in state["history"]]
    step = RecordedStep(action=actions[-1] if actions else "", observation=state["observation"].text)
    return {
        "task": state["task"],
        "step": step,
        "actions": actions[:-1],
        "factored": state["factored"],
        "goal": state["goal"],
    }


def lookahead_view(state: LookaheadState) -> LookaheadView:
    """Return the part of the state for proposing and predicting the next action, before anything is imagined."""
    return {**decide_view(state), "path": (), "candidates": state["candidates"]}


def appraise_view(state: LookaheadState) -> AppraiseView:
    """Return the part of the state for appraising outcomes of actions that start from the present state."""
    return {
        "task": state["task"],
        "actions": [step.action.text for step in state["history"]],
        "factored": state["factored"],
        "goal": state["goal"],
        "reward": state["reward"],
        "foreseen": state["foreseen"],
        "expected": state.get("expected", ()),
    }


def choose_view(state: LookaheadState) -> ChooseView:
    """Return the part of the state from which the agent chooses its next action."""
    return {**decide_view(state), "appraisals": state["appraisals"]}


def turns_of(outcomes: Sequence[PredictedOutcome]) -> tuple[Turn, ...]:
    """Convert predicted outcomes to turns, as if the actions had been taken."""
    return tuple(Turn(action=o.action, observation=o.observation, accepted=o.accepted) for o in outcomes)


def outcome_key(before: FactoredState, action: str, observation: str) -> str:
    """Return 16 hex digits that identify a state, an action taken in it, and the text of the answer to it."""
    outcome = json.dumps([to_mapping(before), action, observation], sort_keys=True)
    return hashlib.sha256(outcome.encode()).hexdigest()[:16]


def names_of(state: FactoredState) -> set[str]:
    """Return what a state names: its objects, and the values of their attributes."""
    return {name for entity in state.entities for name in (entity.identity, *entity.attributes.values())}


def digest_of(state: FactoredState) -> str:
    """Return 16 hex digits that identify a factored state, independent of the order of its facts."""
    return hashlib.sha256(json.dumps(to_mapping(state), sort_keys=True).encode()).hexdigest()[:16]
