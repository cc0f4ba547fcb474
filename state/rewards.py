"""State of reward prediction and of the agents that look ahead."""

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
from certigraph.state.run import ActingState, DecideView, RunState, Turn, decide_view, world_ending

# World states as StateFactory factorises them: entities, and under each the values of its attributes.

Granularity = Literal["raw", "textual", "object", "attribute"]
"""How finely a state is told: the observation as it is; its relevant facts as one text; the facts of each object as one
text; values under the attributes of objects (StateFactory, appendix C.5.1, levels 1 to 4)."""

GRANULARITIES: tuple[str, ...] = get_args(Granularity)

ENTANGLED = "description"
"""The one attribute of an object whose facts are not taken apart."""


class Entity(Record):
    """An object: what it is, and what is so of it now (StateFactory Eq. 5)."""

    identity: str = Field(min_length=1)
    attributes: dict[str, str] = Field(default_factory=dict)

    def sentences(self) -> list[str]:
        """One sentence an attribute; that it is there, where it has none."""
        told = [f"{self.identity}: {name} {value}" for name, value in self.attributes.items()]
        return told or [self.identity]


class FactoredState(Record):
    """What is known of the world, or wanted of it, entity by entity; identities are different."""

    entities: tuple[Entity, ...] = ()

    def get(self, identity: str) -> Entity | None:
        """The entity of that identity."""
        return next((entity for entity in self.entities if entity.identity == identity), None)


def factored(entities: dict[str, dict[str, str]]) -> FactoredState:
    """The state of a mapping identity -> attribute -> value."""
    return FactoredState(entities=tuple(Entity(identity=name, attributes=has) for name, has in entities.items()))


def as_mapping(state: FactoredState) -> dict[str, dict[str, str]]:
    """The mapping that `factored` takes; changing it changes no state."""
    return {entity.identity: dict(entity.attributes) for entity in state.entities}


def coarsened(state: FactoredState, granularity: str, goal: FactoredState) -> FactoredState:
    """The same facts at a coarser granularity than `attribute`, in a form that is compared in the same way.

    `textual` has the unstructured form of `raw` (appendix C.5.1): one text, of what is known about the goal's objects.
    At `object` the facts of an object are one description of it. Both have them in a fixed order, so that no order is
    taken for a difference.
    """
    if granularity == "object":
        return factored({entity.identity: _entangled(entity) for entity in state.entities})
    return raw(_flat(state, goal)) if granularity == "textual" else state


def _entangled(entity: Entity) -> dict[str, str]:
    told = "; ".join(f"{name} {value}" for name, value in sorted(entity.attributes.items()))
    return {ENTANGLED: told} if told else {}


def _flat(state: FactoredState, goal: FactoredState) -> str:
    named = {entity.identity for entity in goal.entities}
    relevant = [entity for entity in state.entities if entity.identity in named] or state.entities
    told = (sentence for entity in sorted(relevant, key=lambda one: one.identity) for sentence in entity.sentences())
    return ". ".join(told)


def raw(text: str) -> FactoredState:
    """A text as it is; nothing where it is blank."""
    return factored({text: {}} if text.strip() else {})


# State of the graphs that predict rewards along recorded trajectories, and the views of their operators.

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


# State of the agents that look ahead: candidates for the next action, what they would lead to, what that is worth.


class Foreseen(Record):
    """What a world model says that an action leads to."""

    action: str
    observation: str
    accepted: bool = True
    done: bool = False
    solved: bool = False
    """Whether the world says that the goal is reached; no model's prediction says so."""


class Appraisal(Record):
    """What a candidate's outcome is worth."""

    action: str
    reward: float
    gain: float
    """The reward of the outcome less that of the state before it (StateFactory Eq. 15)."""
    seen: bool = False
    """Whether the episode was in that state before, as far as states are extracted."""


class Imagined(Record):
    """An outcome as a state, for who looks further ahead from there."""

    foreseen: Foreseen
    appraisal: Appraisal
    factored: FactoredState
    goal: FactoredState


class AppraisingState(ActingState, total=False):
    """ReAct's state with where it stands (`factored`, `goal`, `reward`) and what it has in mind to do."""

    factored: FactoredState
    goal: FactoredState
    reward: float
    candidates: tuple[str, ...]
    foreseen: tuple[Foreseen, ...]
    appraisals: tuple[Appraisal, ...]
    visited: Log[str]
    """Digests of the states that the episode was in."""


class LookaheadView(DecideView):
    """What proposes actions and imagines their outcomes: as who decides, and where they would be taken."""

    path: tuple[str, ...]
    """Imagined actions that lead there from the present; the last of `turns` are theirs."""
    candidates: tuple[str, ...]


class AppraiseView(TypedDict):
    """What appraises outcomes: the state that the candidates start from, and the outcomes."""

    task: Task
    factored: FactoredState
    goal: FactoredState
    reward: float
    foreseen: tuple[Foreseen, ...]


class ChooseView(DecideView):
    """What the agent that chooses sees: as who decides, and what every candidate is worth."""

    appraisals: tuple[Appraisal, ...]


def standing_view(state: AppraisingState) -> FactorView:
    """What StateFactory's operators see of the live world: the latest step."""
    history = state["history"]
    step = Seen(action=history[-1].action.text if history else "", observation=state["observation"].text)
    return {"task": state["task"], "step": step, "factored": state["factored"], "goal": state["goal"]}


def lookahead_view(state: AppraisingState) -> LookaheadView:
    """Candidates and outcomes of the next action."""
    return {**decide_view(state), "path": (), "candidates": state["candidates"]}


def appraise_view(state: AppraisingState) -> AppraiseView:
    """Outcomes that start from where the agent is."""
    return {
        "task": state["task"],
        "factored": state["factored"],
        "goal": state["goal"],
        "reward": state["reward"],
        "foreseen": state["foreseen"],
    }


def choose_view(state: AppraisingState) -> ChooseView:
    """The part of the state that the agent chooses by."""
    return {**decide_view(state), "appraisals": state["appraisals"]}


def turns_of(outcomes: Sequence[Foreseen]) -> tuple[Turn, ...]:
    """Imagined steps as turns."""
    return tuple(Turn(action=o.action, observation=o.observation, accepted=o.accepted) for o in outcomes)


def digest(state: FactoredState) -> str:
    """Sixteen hex digits that tell two states apart, in whatever order their facts came to be known."""
    return hashlib.sha256(json.dumps(as_mapping(state), sort_keys=True).encode()).hexdigest()[:16]


# The search tree of MCTS: nodes as imagined, and simulations as a log from which every statistic is counted.

Path = tuple[str, ...]
"""Actions from the present to a node; the root's is empty."""


class Node(Record):
    """A state that was imagined."""

    path: Path
    foreseen: Foreseen
    reward: float
    factored: FactoredState
    goal: FactoredState

    @property
    def value(self) -> float:
        """What it is worth to the search: its reward; 1 where the goal is reached, 0 where the world ended without."""
        if self.foreseen.solved:
            return 1.0
        return 0.0 if self.foreseen.done else self.reward


class Simulation(Record):
    """One pass through the tree: the node that it came to, and what that was worth."""

    path: Path
    value: float


class TreeState(AppraisingState, total=False):
    """What MCTS knows beside where it stands."""

    tree: Log[Node]
    simulations: Log[Simulation]
    leaf: Path
    """The node that is expanded now."""
    searched: int
    """Expansions for the present action."""
    searching: bool
    imagined: tuple[Node, ...]
    """What was imagined from the leaf, before it is in the tree."""


class TreeView(TypedDict):
    """What the operators on the tree see: the tree, the node that is expanded, and what was imagined from there."""

    task: Task
    tree: Sequence[Node]
    simulations: Sequence[Simulation]
    leaf: Path
    searched: int
    visited: Sequence[str]
    imagined: Sequence[Node]


class Tally(NamedTuple):
    """Visits of every node and the sum of what they came to, by path."""

    visits: Counter[Path]
    totals: Counter[Path]

    def mean(self, path: Path) -> float:
        """Q: what a visit came to on average."""
        return self.totals[path] / self.visits[path] if self.visits[path] else 0.0

    def uct(self, path: Path, c: float) -> float:
        """Upper confidence bound of a node below the root (Kocsis and Szepesvari, 2006)."""
        visits, above = self.visits[path], self.visits[path[:-1]]
        return self.mean(path) + c * sqrt(log(above) / visits) if visits else float("inf")


def tally(simulations: Iterable[Simulation]) -> Tally:
    """Every simulation counts for all nodes on its path."""
    visits, totals = Counter[Path](), Counter[Path]()
    for one in simulations:
        for length in range(len(one.path) + 1):
            visits[one.path[:length]] += 1
            totals[one.path[:length]] += one.value  # type: ignore[assignment]
    return Tally(visits, totals)


def leaf_of(tree: Sequence[Node], counts: Tally, c: float, random: Random) -> Path:
    """The node to expand: down from the root by the highest bound, ties by lot."""
    here: Path = ()
    while below := children(tree, here):
        random.shuffle(below)
        here = max(below, key=lambda node: counts.uct(node.path, c)).path
    return here


def children(tree: Sequence[Node], path: Path) -> list[Node]:
    """The nodes one action below."""
    return [node for node in tree if node.path[:-1] == path and node.path]


def found(tree: Sequence[Node], path: Path) -> Node | None:
    """The node of a path; None for the root, which is the world itself."""
    return next((node for node in tree if node.path == path), None)


def solution(tree: Sequence[Node]) -> Path | None:
    """The shortest path on which the world says that the goal is reached."""
    return min((node.path for node in tree if node.foreseen.solved), key=len, default=None)


def below(tree: Sequence[Node], simulations: Sequence[Simulation], action: str) -> tuple[list[Node], list[Simulation]]:
    """The part of a search under an action, once that is taken: what is left to reuse."""
    nodes = [node.model_copy(update={"path": node.path[1:]}) for node in tree if node.path[:1] == (action,)]
    kept = [one.model_copy(update={"path": one.path[1:]}) for one in simulations if one.path[:1] == (action,)]
    return [node for node in nodes if node.path], kept
