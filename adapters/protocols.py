"""Protocols of benchmarks, environments and operators, limits, and the context of a run.

`Benchmark` and `Environment` are base classes of worlds, `Limits` and `Budget` bound a run, and `Context` holds
everything else that a run is given besides its state.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from certigraph.adapters.files import unknown_task_error
from certigraph.state.endings import GOAL
from certigraph.state.records import Action, Observation, Record, Scores, Spent, Task
from certigraph.state.rewards import FactoredState, RecordedStep
from certigraph.state.run import FINISH, SEARCH, Commitment, NestedStart
from certigraph.state.trajectory import Footer

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
    from langchain_core.language_models import BaseChatModel

Responder = Callable[[str, dict[str, Any]], Any]
"""Function of a scripted model: (prompt, JSON schema) -> a JSON value that fits the schema.

The shipped ones never read the prompt: they answer from the schema and from `scripts.current_situation()`.
A responder with an attribute `blocks = True` may take long and is called in a worker thread.
"""


MIN_PLAN, MIN_SUBTASKS, MIN_FAILURES, MIN_NODES = 40, 16, 8, 8
"""Minimum of the limits `plan`, `subtasks`, `failures` and `nodes` if they are derived from the number of steps.

A run that starts with few steps thus has a complete plan, with which it can be resumed when it is allowed more steps.
"""


class Limits(Record):
    """Limits of a method on one task. The defaults are those of the benchmark (`Benchmark.limits`).

    A field that is None follows the number of steps, as its description says; `effective` returns the numbers.
    """

    attempts: int = Field(default=3, ge=1, description="attempts at one target before replanning")
    replans: int = Field(default=5, ge=0, description="replans at one predicate before giving up")
    steps: int = Field(default=60, ge=1, description="world steps per episode")
    options: int = Field(default=30, ge=1, description="options shown to the model in one question")
    trials: int = Field(default=5, ge=1, description="episodes of an agent that learns between them")
    subqueries: int = Field(default=5, ge=1, description="queries of one search for evidence")
    passages: int = Field(default=10, ge=1, description="passages that one retrieval returns (k)")
    repeats: int = Field(
        default=5, ge=0, description="equal actions in a row, with equal answers, that end an episode; 0: off"
    )
    substeps: int = Field(default=8, ge=1, description="actions for one of STEP's subtasks before it is refined")
    plan: int | None = Field(default=None, ge=1, description="conditions or steps of one plan; unset: max(40, steps)")
    subtasks: int | None = Field(
        default=None, ge=1, description="completed subtasks after which STEP's episode is a loop; unset: max(16, steps)"
    )
    failures: int | None = Field(
        default=None,
        ge=1,
        description="failed subtasks after which STEP's episode is a loop; unset: max(8, steps // 4)",
    )
    nodes: int | None = Field(
        default=None, ge=1, description="sub-tasks of TDP's task graph; unset: max(8, steps // 8)"
    )
    revisions: int | None = Field(
        default=None, ge=0, description="Self-Revisions of TDP's graph; unset: nodes, at least 8"
    )
    rounds: int = Field(
        default=0,
        ge=0,
        description="rounds of a search agent; 0: the method's own (IRCoT 10, ReAct 7, ...), else steps",
    )
    gold: float = Field(
        default=0, ge=0, description="ends STEP's episodes at this many gold lengths, which leaks the gold; 0: off"
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_former(cls, values: Any) -> Any:
        # Saved limits of an earlier version have fields that bounded the prompts of small models.
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if name not in ("context", "excerpt")}

    def effective(self) -> "EffectiveLimits":
        """Return the limits with a number in every field.

        One action may make several conditions true, and a subtask takes at least one action: with as many conditions
        and subtasks as steps, the steps end a run first. A sub-task of TDP gets eight steps, what STEP allows for one.
        """
        return _effective_limits(self)


@lru_cache(maxsize=64)
def _effective_limits(limits: Limits) -> "EffectiveLimits":  # every prompt asks for them
    nodes = max(MIN_NODES, limits.steps // 8) if limits.nodes is None else limits.nodes
    derived = {
        "plan": max(MIN_PLAN, limits.steps),
        "subtasks": max(MIN_SUBTASKS, limits.steps),
        "failures": max(MIN_FAILURES, limits.steps // 4),
        "nodes": nodes,
        "revisions": max(MIN_NODES, nodes),
    }
    explicit = {name: value for name, value in limits if value is not None}
    return EffectiveLimits.model_validate({**derived, **explicit})


class EffectiveLimits(Limits):
    """Limits as operators read them, with a number in every field."""

    plan: int
    subtasks: int
    failures: int
    nodes: int
    revisions: int


# Worlds. A world of one's own inherits from `Environment` and `Benchmark`, which have a default for everything that not
# every world has. An object of another class is accepted too: `complete_benchmark` adds the defaults that it lacks.


class StateCheck(NamedTuple):
    """Whether a condition holds in the world's own state."""

    holds: bool
    shown: str
    """What the state shows about it, in words."""


class Decision(NamedTuple):
    """What a rule decides about a condition by what the world answered and shows."""

    holds: bool
    quote: str
    """The words of the world that decide it."""


class Environment(Protocol):
    """One live episode of a task. Users' own worlds inherit from this class and define `reset`, `step` and `score`.

    Methods may block; the node `act` calls them from a worker thread, one at a time.
    """

    concurrent: bool = False
    """Whether several actions may be stepped in parallel: true for read-only tools, false for simulators."""
    replayable: bool = True
    """Whether a lost world is rebuilt by repeating its logged actions. If not, `recall` gets them instead of `step`."""
    listing_draws: bool = False
    """Whether `admissible` draws random numbers, so that it is repeated too where a lost world is rebuilt."""
    instant: bool = False
    """Whether its methods answer from memory in microseconds, so that a live world passed in by the caller
    (`Context.environment`) needs no worker thread. Other worlds: see `Benchmark.instant`."""

    @abstractmethod
    def reset(self) -> Observation:
        """Start the episode from its beginning and return the first observation."""

    @abstractmethod
    def step(self, action: Action) -> Observation:
        """Take an action. An action that the world refuses changes nothing: `Observation(..., accepted=False)`."""

    @abstractmethod
    def score(self) -> Scores:
        """Return the official score of the world in its present state."""

    def recall(self, action: Action) -> None:
        """Note an action that was taken before, without taking it again, in a world that is not replayable."""
        return

    def view(self) -> str:
        """Return what the world shows now, independent of the last action. Does not change the world."""
        return ""

    def admissible(self) -> Sequence[str] | None:
        """Return the actions that the world accepts now; None if they cannot be listed. Called only when needed."""
        return None

    def sources(self) -> tuple[str, ...]:
        """Return the ids of the passages that the world has shown so far, for claims that cite them."""
        return ()

    def check_state(self, condition: str) -> StateCheck | None:
        """Check a condition in the world's own state, which agents never see; None if it cannot be decided there.

        Only scripted and simulated models use it: their verdicts are then decided by the state, as by an oracle.
        """
        return None

    def close(self) -> None:
        """Free what the episode holds. It is called once, at the end of the run."""
        return


class Factors(Protocol):
    """Symbolic extractor: rules that read the text of one world into factored states, objects with attributes.

    Both methods are pure functions of their arguments. The rules are written by hand for one world, from its templates
    and types of tasks. They have more knowledge than the language model of StateFactory's extraction (here
    `prompted_state`): report with results which one was used.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Return the state after a step (StateFactory Eq. 4).

        Args:
            state: the state before it; empty at the start of a trajectory.
            goal: the goal in words.
            action: the action; empty if the world was only observed.
            observation: the world's answer.
        """
        ...

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """Return the goal as a state (StateFactory Eq. 6); empty if it cannot be read.

        Objects of the goal are named as the world has shown them so far. The state may contain milestones: states that
        the task implies for any agent. No demonstration is used, and nothing is planned.

        Args:
            goal: the goal in words.
            state: the world's state now.
            before: the goal as interpreted one step ago; empty at the start of a trajectory.
        """
        ...


class Benchmark(Protocol):
    """A family of tasks. Users' own benchmarks inherit from this class and define `name`, `tasks` and `open`.

    Everything else has a default. Flags say what the benchmark's worlds are like and are set in the class or in
    `__init__`.
    """

    name: str
    briefing: str = ""
    """What an agent must know of this world apart from its tasks: rules and forms of actions. Opens every prompt."""
    configurations: Sequence[str] = ()
    """Named variants of the benchmark's operators, selected as BENCHMARK:CONFIGURATION."""
    limits: Limits = Limits()
    """Default limits of a run; the paper's own where a paper ran the benchmark."""
    configured_limits: Mapping[str, Limits] = {}
    """Default limits of the configurations that have others than `limits`."""
    score_metrics: Sequence[str] = ()
    """Names of those metrics in `figures` that are the mean score of the runs, for comparisons with published ones."""
    published: Path | None = None
    """JSON file with the figures that papers published on it, in the layout of `evaluation.published_figures`."""
    operator_slots: Mapping[str, str] = {}
    """Slot of each operator in `operators` that replaces no generic one."""
    former_names: Mapping[str, str] = {}
    """Names in `operators` by other names under which the headers of old runs have them."""

    answers: bool = False
    """Whether an episode ends with an answer, which an agent hands in by the tool `finish`."""
    tools: Sequence[str] = (SEARCH, FINISH)
    """Names of the tools in a benchmark with `answers`: an action is written as `search[...]`."""
    longest_answer: int = 300
    """Maximum characters of an answer; the default suits a name or a sentence."""
    longest_query: int = 2_000
    """Maximum characters of what any other tool is given, such as the words of a search."""
    answer_style: str = "the shortest answer"
    """What an agent hands in, as a noun phrase: a name, or an explanation where answers are judged as prose."""
    unknown_answer: str = ""
    """What is handed in where the answer cannot be found; empty where a guess costs nothing."""
    no_written_actions: str = ""
    """What to do where an agent would have to write an action whose form only the benchmark's own operators know."""
    delivers: bool = False
    """Whether an action delivers the result and so ends the episode, in a benchmark without `answers`."""
    signals_goal: bool = False
    """Whether `Observation.solved` reports that a task's goal is reached."""
    replans_undone: bool = False
    """Whether the benchmark's own operator `replan`, if there is one, plans conditions again that were undone.

    Without it, a graph with the optional slot `revalidate` is refused.
    """
    shortlists: bool = False
    """Whether agents choose among the most relevant actions where too many are admissible, instead of writing one."""
    wordings: str = ""
    """Wordings of conditions that `decide` decides, each as a sentence, for the prompts that ask for conditions."""
    synonyms: Mapping[str, str] = {}
    """Opening phrases of actions in lower case, and the world's own phrase: "take" -> "pick up"."""
    free_names: bool = False
    """Whether the world takes more names of its things than it lists, so that actions are sent as they are written."""
    status_lines: Sequence[str] = ()
    """Beginnings of the lines of a world's view that are not news after an action, such as a number of moves."""
    accumulates: bool = False
    """Whether the world's view consists of its answers so far. Prompts that show the answers leave such a view out."""
    instant: bool = False
    """Whether worlds answer in microseconds, so that they are called without a thread."""
    queues: bool = False
    """Whether a world may wait for other runs to end, because the number of simulators is limited."""
    simulated: bool = False
    """Whether the world comes with its package and needs no data folder."""
    reranks: bool = False
    """Whether searches in the world take `rerank`, the name of a cross-encoder that reorders the first results."""

    @abstractmethod
    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the tasks of a split; the empty string names the default split."""

    @abstractmethod
    def open(self, task: Task) -> Environment:
        """Create the world of a task. The same task gives the same world, so that a run can be resumed."""

    def task(self, task_id: str) -> Task:
        """Return one task, by default one of `tasks()`.

        Raises:
            UnknownName: there is no such task; the message lists some valid ids.
        """
        known = {task.id: task for task in self.tasks()}
        if task_id not in known:
            raise unknown_task_error(self.name, task_id, "those of its tasks", known)
        return known[task_id]

    def for_task(self, task: Task) -> "Benchmark":
        """Return the benchmark that a run of a task works with: by default this one.

        A benchmark whose tasks have different tools or rules returns a benchmark of its own for each kind of task.
        """
        return self

    def brief(self, tools: Collection[str]) -> str:
        """Return the briefing for an agent that may call only some tools, by default the briefing of all."""
        return self.briefing

    def ready(self) -> None:
        """Check, before a run starts, that needed packages, keys and servers are there.

        Raises:
            Fault, UnknownName: something is missing; the message says what to set.
        """
        return

    def describe_limits(self, task: Task) -> str:
        """Say for prompts what the world itself allows in an episode, such as a number of moves and what costs one.

        The empty string, which is the default, says that only the run's limit of actions counts. A world that has
        limits shows in its view what is used and left of them.
        """
        return ""

    def operators(self) -> Mapping[str, "Operator | OperatorFactory"]:
        """Return the benchmark's own operators by name, and functions that create some.

        An operator named as a generic one (propose, realize, validate, decide, ...) replaces it. Headers of runs,
        reports and command lines name it BENCHMARK.OPERATOR, as in `travelplanner.propose`.
        """
        return {}

    def factors(self) -> Factors | None:
        """Return the rules that read this world's text into factored states (symbolic extractor); None if none do."""
        return None

    def horizon(self, task: Task) -> tuple[float, str] | None:
        """Return the length of a task, known before any run, and its label, as in `(7, "7 days")`; None if unknown."""
        return None

    def expert(self) -> Responder | None:
        """Return the responder that answers for the model `scripted:expert`; None if the first option is as good.

        `certigraph.adapters.models.experts.demonstration_expert` makes a responder of a function that lists, for a task
        and the actions so far, the actions that reach the goal.
        """
        return None

    def knows(self, task: Task) -> bool:
        """Return whether `expert` can solve a task."""
        return self.expert() is not None

    def gold_length(self, task: Task) -> int | None:
        """Return the number of actions of the gold solution; None if there is none."""
        return None

    def decide(self, condition: str, observation: Observation, view: str) -> Decision | None:
        """Decide exactly whether a condition holds after an action; None if a model has to judge.

        A rule never guesses. `wordings` names the conditions that are decided either way.

        Args:
            condition: the condition.
            observation: what the world answered to the action.
            view: what the world shows after it.
        """
        return None

    def find_action(self, written: str, actions: Sequence[str], view: str) -> str | None:
        """Return the action that a written one means without doubt; None if code cannot tell.

        Args:
            written: what a model wrote.
            actions: the actions that the world lists. It may take others, which can be returned too.
            view: what the world shows.
        """
        return None

    def find_meanings(self, written: str, actions: Sequence[str]) -> Sequence[str]:
        """Return the listed actions that a written one may mean, by the grammar of the world's actions."""
        return ()

    def likely_meanings(self, written: str, options: Sequence[str]) -> Sequence[str]:
        """Return those of the world's options that a written action may mean, each once, the others left out."""
        return list(dict.fromkeys(options))

    def carry_over(self, action: str, written: str, meant: str) -> str:
        """Return an action of a chain with the names that a correction gave to things.

        Args:
            action: an action that was written together with `written`.
            written: an action that the world refused.
            meant: the action that was meant by it.
        """
        return action

    def is_ready(self, action: str, view: str) -> bool:
        """Return whether an action that was chosen ahead may be taken in what the world shows now.

        It may not where it cannot be undone and the view does not show what it is about.
        """
        return True

    def select_visible(self, actions: Sequence[str], view: str) -> Sequence[str]:
        """Return the listed actions without those that the view shows to be impossible, if the world lists such."""
        return actions

    def shown_names(self, view: str) -> Mapping[str, str]:
        """Return what a view calls things that the world lists by other names: "substance in pot" -> "water"."""
        return {}

    def oracle(self, task: Task) -> Sequence[RecordedStep]:
        """Return an expert's recorded trajectory, whose end gives `offline_goal` the goal state; empty if none."""
        return ()

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Compute the metrics of several runs, each given with its task's id; `n` is the number of runs.

        By default these are the mean score, in which a run without a score counts 0, and the rate of runs that ended
        with `goal`.
        """
        if not runs:
            return {"n": 0}
        scores = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        goals = [footer.ending == GOAL for _, footer in runs]
        return {"n": len(runs), "score": fmean(scores), "goal": fmean(goals)}


@runtime_checkable
class TaskDemonstrator(Protocol):
    """A benchmark that can list actions which solve a task."""

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Return actions that reach the goal from the start, or from the state after the actions `before`.

        Raises:
            Fault: ("data") there are no such actions.
        """
        ...


@runtime_checkable
class FileScorer(Protocol):
    """A benchmark that scores answers which were made elsewhere and are read from a file."""

    def score_file(self, path: Path, split: str = "") -> Sequence[Any]:
        """Score the answers of a file against the tasks of a split."""
        ...

    def rates(self, scores: Sequence[Any]) -> dict[str, float]:
        """Compute the benchmark's official metrics from the scores that `score_file` returned."""
        ...


@runtime_checkable
class LeaderboardBenchmark(Protocol):
    """A benchmark whose leaderboard takes the answers to a split's tasks as a file."""

    splits: Sequence[str]
    """Names of the splits."""

    def ids(self, split: str) -> Sequence[str]:
        """Return the ids of the tasks of a split.

        Raises:
            Fault: ("data") the split's file is missing.
        """
        ...

    def write_submission(self, path: Path, ids: Sequence[str], answers: Mapping[str, JsonValue]) -> None:
        """Write the file for the leaderboard, in the order of the ids. A task without an answer has an empty one."""
        ...


T = TypeVar("T")


def complete_benchmark(benchmark: Benchmark) -> Benchmark:
    """Return the benchmark, with the defaults of `Benchmark` for members that an object of another class lacks."""
    return _with_defaults(benchmark, Benchmark)  # type: ignore[type-abstract]


def complete_environment(environment: Environment) -> Environment:
    """Return the environment, with the defaults of `Environment` for members that an object of another class lacks."""
    return _with_defaults(environment, Environment)  # type: ignore[type-abstract]


def missing_methods(given: object, protocol: type) -> list[str]:
    """Return the methods that a protocol requires and an object lacks, by name in alphabetical order."""
    required = [name for name, member in vars(protocol).items() if getattr(member, "__isabstractmethod__", False)]
    return sorted(name for name in required if not callable(getattr(given, name, None)))


def _with_defaults(given: T, protocol: type[T]) -> T:
    if protocol in type(given).__mro__ or isinstance(given, _WithDefaults):
        return given
    members = [name for name in vars(protocol) if not name.startswith("_")]
    return given if all(hasattr(given, name) for name in members) else cast(T, _WithDefaults(given, protocol))


class _WithDefaults:
    """Wrapper of an object that adds the defaults of a protocol for members that the object lacks."""

    def __init__(self, given: object, protocol: type) -> None:
        self._given, self._protocol = given, protocol

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # not set yet while the object is being copied
            raise AttributeError(name)
        given, protocol = self._given, self._protocol
        if hasattr(given, name):
            return getattr(given, name)
        default = vars(protocol).get(name)
        if name not in vars(protocol) or getattr(default, "__isabstractmethod__", False):
            advice = f"let the class inherit from certigraph.{protocol.__name__}, and define it"
            raise AttributeError(f"{type(given).__name__} has no {name!r}: {advice}")
        return MethodType(default, self) if isinstance(default, FunctionType) else default

    def __repr__(self) -> str:
        return repr(self._given)


# What a run is given besides its state: models, budget, limits, data, and live objects that are never stored in state.

ROLES = ("planner", "executor", "validator", "extractor", "memory", "judge", "world")
"""Roles in which operators ask models."""


class Budget(Record):
    """Limits on what a run may spend before it ends with `limit:<kind>`.

    They are checked before every model call and world step.

    The number of calls is never exceeded. Tokens and dollars depend on the length of an answer, so the call that
    reaches the limit is the last one. A call that is running when the seconds are over is cancelled.
    """

    calls: int = Field(default=1_000, ge=0, description="model calls")
    tokens: int = Field(default=2_000_000, ge=0, description="input and output tokens together")
    usd: float = Field(
        default=5.0,
        ge=0,
        allow_inf_nan=False,
        description="US dollars; if set, a model without a known price is refused",
    )
    seconds: float = Field(default=3_600.0, ge=0, allow_inf_nan=False, description="wall-clock seconds inside nodes")
    priced: bool = Field(default=False, description="whether a model needs a known price; true if usd is set")

    @model_validator(mode="before")
    @classmethod
    def _dollars_need_prices(cls, values: Any) -> Any:
        return {"priced": True, **values} if isinstance(values, dict) and "usd" in values else values


# Types of the live objects in a context. Checkers see the types; at run time any object is accepted, so that pydantic
# neither copies a live object nor builds a schema of a chat model.
if TYPE_CHECKING:
    LiveBenchmark: TypeAlias = Benchmark | None
    LiveEnvironment: TypeAlias = Environment | None
    LiveChat: TypeAlias = BaseChatModel | None
    LiveChats: TypeAlias = dict[str, BaseChatModel]
    LiveCallbacks: TypeAlias = list[BaseCallbackHandler] | BaseCallbackManager | None
    ActionListing: TypeAlias = Callable[[], Sequence[str] | None] | None
else:
    LiveBenchmark = LiveEnvironment = LiveChat = LiveChats = LiveCallbacks = ActionListing = Any


def _as_chat_model(given: Any, where: str) -> Any:
    from certigraph.adapters.composed_chat import as_chat_model

    model = as_chat_model(given)
    if model is None:
        raise ValueError(f"{where}={given!r:.100} is not a LangChain chat model, nor a Runnable that answers as one")
    return model


FORMER_SMALL_WINDOW = 4_096
"""Tokens of the context window of what was the profile `small` in an earlier version."""


class Context(BaseModel):
    """Context of a run, the same type for every graph. Every field has a default: a graph runs without a context."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    model: str = Field(
        default="scripted:expert",
        description="openai:NAME, local, local:qwen-0.5b, local:FILE.gguf, scripted:first, scripted:expert, simulated",
        json_schema_extra={"langgraph_type": "model"},
    )
    roles: dict[str, str] = Field(
        default_factory=dict,
        description="other models for some roles: planner, executor, validator, extractor, memory, judge",
    )

    @field_validator("roles")
    @classmethod
    def _check_roles(cls, roles: dict[str, Any]) -> dict[str, Any]:
        if unknown := sorted(set(roles) - set(ROLES)):
            raise ValueError(f"no role {unknown[0]!r}; the roles are {', '.join(ROLES)}")
        return roles

    window: int = Field(
        default=0,
        ge=0,
        description="tokens of the models' context window, where neither they nor their endpoint say it, or where less "
        "of it is to be used; 0: what they say, else 128,000",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_profile(cls, values: Any) -> Any:
        # Saved settings of an earlier version have a field `profile`, whose `small` was for windows of 4,096 tokens.
        if not isinstance(values, dict) or "profile" not in values:
            return values
        others = {name: value for name, value in values.items() if name != "profile"}
        return {"window": FORMER_SMALL_WINDOW, **others} if values["profile"] == "small" else others

    data: str | None = Field(default=None, description="data folder; unset: CERTIGRAPH_DATA, else a generated world")
    budget: Budget = Budget()
    limits: Limits | None = Field(default=None, description="unset: those of the benchmark")
    on_limit: SkipJsonSchema[Literal["answer", "raise"]] = Field(
        default="raise", exclude=True, description="what an agent does where a limit is reached"
    )
    memory: str = Field(
        default="",
        description="name of a memory of lessons, shared by the runs in one folder or on one store; unset: one per run",
    )
    cache: str | None = Field(
        default=None,
        description="folder that caches the replies of models, so that a request is paid once; unset: none",
    )
    faults: str = Field(
        default="",
        description="faults to inject into models and world, as in `timeout=0.1,crash=0.01,seed=3`; unset: none",
    )
    checkpoints: Literal["", "postgres"] = Field(
        default="", description="postgres: the server that CERTIGRAPH_POSTGRES names; unset: a file in the run's folder"
    )
    trial: int = Field(
        default=0, ge=0, description="number of this repetition of the task; part of the seed of simulated models"
    )
    group: SkipJsonSchema[str] = Field(
        default="", description="what the run is a part of, for its report: an ablation, its variant, the trial"
    )
    lost: SkipJsonSchema[Spent] = Field(
        default=Spent(), exclude=True, description="spent before a crash and in no checkpoint"
    )
    benchmark: SkipJsonSchema[LiveBenchmark] = Field(
        default=None, exclude=True, description="a live benchmark instead of the named one"
    )
    environment: SkipJsonSchema[LiveEnvironment] = Field(
        default=None, exclude=True, description="a live environment to act in"
    )
    chat: SkipJsonSchema[LiveChat] = Field(
        default=None, exclude=True, description="a live LangChain chat model for every role"
    )
    chats: SkipJsonSchema[LiveChats] = Field(
        default_factory=dict, exclude=True, description="live LangChain chat models for some roles"
    )

    @field_validator("chat", mode="before")
    @classmethod
    def _check_chat(cls, chat: Any) -> Any:
        return chat if chat is None or hasattr(type(chat), "for_role") else _as_chat_model(chat, "chat")

    @field_validator("chats", mode="before")
    @classmethod
    def _check_chats(cls, chats: Any) -> Any:
        cls._check_roles(chats)
        return {role: _as_chat_model(chat, f"chats[{role!r}]") for role, chat in chats.items()}

    own: SkipJsonSchema[Any] = Field(default=None, exclude=True, description="the caller's own context of an agent")
    callbacks: SkipJsonSchema[LiveCallbacks] = Field(
        default=None, exclude=True, description="LangChain callbacks of the run"
    )
    entry: SkipJsonSchema[NestedStart | None] = Field(
        default=None, exclude=True, description="where a part of another run starts"
    )
    commitment: SkipJsonSchema[Commitment | None] = Field(
        default=None, exclude=True, description="what the running agent committed to"
    )
    attachments: SkipJsonSchema[tuple[dict[str, Any], ...]] = Field(
        default=(), exclude=True, description="pictures and files of the request that the running agent works on"
    )
    message_id: SkipJsonSchema[str] = Field(
        default="", exclude=True, description="id of the message as which the next action stands in the conversation"
    )
    admissible: SkipJsonSchema[ActionListing] = Field(
        default=None, exclude=True, description="lists the actions that the live world admits now"
    )
    rehearse: SkipJsonSchema[Any] = Field(
        default=None, exclude=True, description="returns what a copy of the live world would answer"
    )


# Operators, which a user may write in any of these forms.

AsyncOperator: TypeAlias = Callable[[Any, Runtime[Context]], Awaitable[dict[str, Any]]]
"""Operator in the form that all shipped ones have: `async def operator(state, runtime) -> dict`."""

Operator: TypeAlias = (
    Callable[[Any, Runtime[Context]], Awaitable[Mapping[str, Any]] | Mapping[str, Any]]
    | Callable[[Any], Awaitable[Mapping[str, Any]] | Mapping[str, Any]]
    | Runnable[Any, Any]
)
"""Function that fills a slot of a graph: it reads its view of the state and returns an update with the slot's keys.

It may be an async or plain function of (state, runtime) or of (state), a method, a partial, an object with such a
`__call__`, or a LangChain Runnable.
"""

OperatorFactory: TypeAlias = Callable[..., Operator]
"""Function that creates operators from arguments, decorated with `certigraph.factory`."""
