"""State of the graphs that predict rewards and of the agents that look ahead (StateFactory, tree search)."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from math import log, sqrt
from random import Random
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from certigraph.state.records import Fault, Log, Record, Task
from certigraph.state.run import DecideView, ReActState, RunState, Turn, decide_view, world_ending

# World states factored as in StateFactory: entities, each with the values of its attributes.

Granularity = Literal["raw", "textual", "object", "attribute"]
"""Level of detail of a state (StateFactory, appendix C.5.1, levels 1 to 4).

`to_raw`: the observation as it is. `textual`: its relevant facts as one text. `object`: one text of facts per object.
`attribute`: one value per attribute of an object.
"""

GRANULARITIES: tuple[str, ...] = get_args(Granularity)
"""All granularities, the coarsest first."""

DESCRIPTION_ATTRIBUTE = "description"
"""Name of the one attribute that an object has at granularity `object`; its facts are not separated."""


class Entity(Record):
    """An object: its identity and the present values of its attributes (StateFactory Eq. 5)."""

    identity: str = Field(min_length=1)
    attributes: dict[str, str] = Field(default_factory=dict)

    def sentences(self) -> list[str]:
        """Return one sentence per attribute, or the identity alone if there is no attribute."""
        sentences = [f"{self.identity}: {name} {value}" for name, value in self.attributes.items()]
        return sentences or [self.identity]


class FactoredState(Record):
    """The known or wanted state of the world, entity by entity; identities are unique."""

    entities: tuple[Entity, ...] = ()

    def get(self, identity: str) -> Entity | None:
        """Return the entity of an identity, or None."""
        return next((entity for entity in self.entities if entity.identity == identity), None)


def to_factored(entities: dict[str, dict[str, str]]) -> FactoredState:
    """Create a state from a mapping identity -> attribute -> value."""
    return FactoredState(entities=tuple(Entity(identity=name, attributes=has) for name, has in entities.items()))


def to_mapping(state: FactoredState) -> dict[str, dict[str, str]]:
    """Return a state as the mapping that `to_factored` takes; changing the mapping does not change the state."""
    return {entity.identity: dict(entity.attributes) for entity in state.entities}


def coarsen(state: FactoredState, granularity: str, goal: FactoredState) -> FactoredState:
    """Return the same facts at a coarser granularity than `attribute`, in a form that is compared in the same way.

    `textual` has the unstructured form of `to_raw` (appendix C.5.1): one text of what is known about the goal's
    objects. At `object` the facts of an object are one description of it. Both list the facts in a fixed order, so that
    a different order never counts as a difference.
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
    """Create a state that holds a text as it is; an empty state if the text is blank."""
    return to_factored({text: {}} if text.strip() else {})


# State of the graphs that predict rewards along recorded trajectories, and the views of their operators.

RECORDINGS = "recordings"
"""Key of a task's constants: its trajectories, each a list of {"action": ..., "observation": ...}."""

DOMAIN = "domain"
"""Key of a task's constants: the benchmark whose world the recordings come from."""

TRUE_REWARDS = "true"
"""Key of a scored answer: the rewards that were to be predicted, one list per recording."""

reward_ending = world_ending
"""A run that predicts rewards has no predicates, so its world decides its ending."""


class RecordedStep(Record):
    """One recorded step: an action (empty where the world was only observed) and the observation."""

    action: str = ""
    observation: str
    recording: int = Field(default=0, ge=0)
    """Index of the task's recording that the step belongs to."""


class PredictedReward(Record):
    """The reward predicted after a step, in [0, 1]."""

    reward: float
    recording: int = 0


class RewardState(RunState, total=False):
    """State of a graph that predicts rewards; `position` is the index of the next step."""

    steps: Log[RecordedStep]
    position: int
    factored: FactoredState
    goal: FactoredState
    reward: float
    note: str
    """What a predictor without states remembers from step to step."""
    rewards: Log[PredictedReward]


class FactorView(TypedDict):
    """What extraction (Eq. 4), interpretation (Eq. 6) and routing (Eqs. 7-9) see: no step but the present one.

    `to_factored` and `goal` are the latest states; both are empty at the beginning of a trajectory.
    """

    task: Task
    step: RecordedStep
    factored: FactoredState
    goal: FactoredState


class RateView(TypedDict):
    """What a predictor without states sees: the steps of the trajectory up to the present one.

    `length` is the number of all steps of the trajectory. Only the monotonic baseline uses it; it knows nothing else.
    """

    task: Task
    steps: Sequence[RecordedStep]
    length: int
    note: str


def recorded_steps(task: Task) -> list[RecordedStep]:
    """Return the steps of a task's recordings, one recording after the other.

    Raises:
        Fault: ("data") the task has no recording, one without steps, or an empty goal; the message shows an example.
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
        raise Fault(
            "data", f"task {task.id} has no trajectory to predict rewards of: give Task(..., {example})"
        ) from error
    return [step.model_copy(update={"recording": n}) for n, steps in enumerate(recordings) for step in steps]


_RECORDINGS = TypeAdapter(Annotated[list[Annotated[list[RecordedStep], Field(min_length=1)]], Field(min_length=1)])


def hide_recordings(task: Task) -> Task:
    """Return the task as operators see it: they must not know the later steps of a recording."""
    visible = {key: value for key, value in task.constants.items() if key != RECORDINGS}
    return task.model_copy(update={"constants": visible})


def factor_view(state: RewardState) -> FactorView:
    """Return the part of the state that StateFactory's operators may read."""
    step, started = state["steps"][state["position"]], not is_first_step(state)
    return {
        "task": state["task"],
        "step": step,
        "factored": state["factored"] if started else FactoredState(),
        "goal": state["goal"] if started else FactoredState(),
    }


def route_view(state: RewardState) -> FactorView:
    """Return the view of the routing operator: both states are those of the present step, also at the beginning."""
    step = state["steps"][state["position"]]
    return {"task": state["task"], "step": step, "factored": state["factored"], "goal": state["goal"]}


def interpret_view(state: RewardState) -> FactorView:
    """Return the view of goal interpretation: the new state, and the goal before it."""
    return {**factor_view(state), "factored": state["factored"]}


def rate_view(state: RewardState) -> RateView:
    """Return the part of the state that a predictor without states may read."""
    position, recording = state["position"], state["steps"][state["position"]].recording
    same = [step for step in state["steps"] if step.recording == recording]
    first = next(index for index, step in enumerate(state["steps"]) if step.recording == recording)
    note = "" if is_first_step(state) else state["note"]
    return {"task": state["task"], "steps": same[: position - first + 1], "length": len(same), "note": note}


def is_first_step(state: RewardState) -> bool:
    """Return whether the present step is the first of a trajectory."""
    position = state["position"]
    return position == 0 or state["steps"][position - 1].recording != state["steps"][position].recording


def group_by_recording(rewards: Sequence[PredictedReward]) -> list[list[float]]:
    """Group the predicted rewards by recording."""
    return [
        [prediction.reward for prediction in group]
        for _, group in groupby(rewards, key=lambda prediction: prediction.recording)
    ]


# State of the agents that look ahead: candidates for the next action, their predicted outcomes and expected rewards.


class PredictedOutcome(Record):
    """The outcome of an action as a world model predicts it."""

    action: str
    observation: str
    accepted: bool = True
    done: bool = False
    solved: bool = False
    """Whether the world reports that the goal is reached; a model's prediction never reports that."""


class Appraisal(Record):
    """The value of a candidate's outcome."""

    action: str
    reward: float
    gain: float
    """The reward of the outcome minus that of the state before it (StateFactory Eq. 15)."""
    seen: bool = False
    """Whether the episode has been in that state before, if states are extracted."""


class ImaginedState(Record):
    """A predicted outcome as a state, from which operators can look further ahead."""

    foreseen: PredictedOutcome
    appraisal: Appraisal
    factored: FactoredState
    goal: FactoredState


class LookaheadState(ReActState, total=False):
    """ReAct's state with the present state (`to_factored`, `goal`, `reward`) and the actions considered next."""

    factored: FactoredState
    goal: FactoredState
    reward: float
    candidates: tuple[str, ...]
    foreseen: tuple[PredictedOutcome, ...]
    appraisals: tuple[Appraisal, ...]
    visited: Log[str]
    """Digests of the states that the episode has been in."""


class LookaheadView(DecideView):
    """What the operators that propose actions and imagine outcomes see: the acting agent's view, and a path."""

    path: tuple[str, ...]
    """Imagined actions that lead from the present to the state looked at; the last of `turns` belong to them."""
    candidates: tuple[str, ...]


class AppraiseView(TypedDict):
    """What the operator that appraises outcomes sees: the state that the candidates start from, and the outcomes."""

    task: Task
    factored: FactoredState
    goal: FactoredState
    reward: float
    foreseen: tuple[PredictedOutcome, ...]


class ChooseView(DecideView):
    """What the agent that chooses sees: the acting agent's view, and the value of every candidate."""

    appraisals: tuple[Appraisal, ...]


def live_factor_view(state: LookaheadState) -> FactorView:
    """Return what StateFactory's operators see of the live world: the latest step."""
    history = state["history"]
    step = RecordedStep(action=history[-1].action.text if history else "", observation=state["observation"].text)
    return {"task": state["task"], "step": step, "factored": state["factored"], "goal": state["goal"]}


def lookahead_view(state: LookaheadState) -> LookaheadView:
    """Return the view for proposing and imagining the next action."""
    return {**decide_view(state), "path": (), "candidates": state["candidates"]}


def appraise_view(state: LookaheadState) -> AppraiseView:
    """Return the view for appraising outcomes that start from the present state."""
    return {
        "task": state["task"],
        "factored": state["factored"],
        "goal": state["goal"],
        "reward": state["reward"],
        "foreseen": state["foreseen"],
    }


def choose_view(state: LookaheadState) -> ChooseView:
    """Return the part of the state that the agent chooses by."""
    return {**decide_view(state), "appraisals": state["appraisals"]}


def turns_of(outcomes: Sequence[PredictedOutcome]) -> tuple[Turn, ...]:
    """Return imagined steps as turns."""
    return tuple(Turn(action=o.action, observation=o.observation, accepted=o.accepted) for o in outcomes)


def digest_of(state: FactoredState) -> str:
    """Return 16 hex digits that identify a state, independent of the order of its facts."""
    return hashlib.sha256(json.dumps(to_mapping(state), sort_keys=True).encode()).hexdigest()[:16]


# The search tree of MCTS: imagined nodes, and a log of simulations from which every statistic is counted.

ActionPath = tuple[str, ...]
"""Actions from the present to a node; the root's path is empty."""


class SearchNode(Record):
    """An imagined state: a node of the search tree."""

    path: ActionPath
    foreseen: PredictedOutcome
    reward: float
    factored: FactoredState
    goal: FactoredState

    @property
    def value(self) -> float:
        """Value for the search: 1 where the goal is reached, 0 where the world ended without it, else the reward."""
        if self.foreseen.solved:
            return 1.0
        return 0.0 if self.foreseen.done else self.reward


class Simulation(Record):
    """One pass through the tree: the node that it reached, and the value found there."""

    path: ActionPath
    value: float


class TreeState(LookaheadState, total=False):
    """State of MCTS: the look-ahead state and the search tree."""

    tree: Log[SearchNode]
    simulations: Log[Simulation]
    leaf: ActionPath
    """The node that is being expanded."""
    searched: int
    """Number of expansions for the present action."""
    searching: bool
    imagined: tuple[SearchNode, ...]
    """Nodes imagined from the leaf that are not yet in the tree."""


class TreeView(TypedDict):
    """What the operators on the tree see: the tree, the node being expanded, and the nodes imagined from it."""

    task: Task
    tree: Sequence[SearchNode]
    simulations: Sequence[Simulation]
    leaf: ActionPath
    searched: int
    visited: Sequence[str]
    imagined: Sequence[SearchNode]


class VisitCounts(NamedTuple):
    """Number of visits and sum of values of every node, by path."""

    visits: Counter[ActionPath]
    totals: Counter[ActionPath]

    def mean(self, path: ActionPath) -> float:
        """Return Q, the mean value of a node's visits."""
        return self.totals[path] / self.visits[path] if self.visits[path] else 0.0

    def uct(self, path: ActionPath, c: float) -> float:
        """Return the upper confidence bound of a node below the root (Kocsis and Szepesvari, 2006)."""
        visits, parent_visits = self.visits[path], self.visits[path[:-1]]
        return self.mean(path) + c * sqrt(log(parent_visits) / visits) if visits else float("inf")


def count_visits(simulations: Iterable[Simulation]) -> VisitCounts:
    """Count visits and values; every simulation counts for all nodes on its path."""
    visits, totals = Counter[ActionPath](), Counter[ActionPath]()
    for simulation in simulations:
        for length in range(len(simulation.path) + 1):
            visits[simulation.path[:length]] += 1
            totals[simulation.path[:length]] += simulation.value  # type: ignore[assignment]
    return VisitCounts(visits, totals)


def select_leaf(tree: Sequence[SearchNode], counts: VisitCounts, c: float, random: Random) -> ActionPath:
    """Select the node to expand: follow the highest bound down from the root; break ties at random."""
    path: ActionPath = ()
    while options := children_of(tree, path):
        random.shuffle(options)
        path = max(options, key=lambda node: counts.uct(node.path, c)).path
    return path


def children_of(tree: Sequence[SearchNode], path: ActionPath) -> list[SearchNode]:
    """Return the nodes one action below a path."""
    return [node for node in tree if node.path[:-1] == path and node.path]


def node_at(tree: Sequence[SearchNode], path: ActionPath) -> SearchNode | None:
    """Return the node of a path; None for the root, which is the world itself."""
    return next((node for node in tree if node.path == path), None)


def shortest_solution(tree: Sequence[SearchNode]) -> ActionPath | None:
    """Return the shortest path on which the world reports that the goal is reached, or None."""
    return min((node.path for node in tree if node.foreseen.solved), key=len, default=None)


def subtree_of(
    tree: Sequence[SearchNode], simulations: Sequence[Simulation], action: str
) -> tuple[list[SearchNode], list[Simulation]]:
    """Return the part of a search below an action, to be reused once that action is taken."""
    nodes = [node.model_copy(update={"path": node.path[1:]}) for node in tree if node.path[:1] == (action,)]
    remaining = [
        simulation.model_copy(update={"path": simulation.path[1:]})
        for simulation in simulations
        if simulation.path[:1] == (action,)
    ]
    return [node for node in nodes if node.path], remaining
