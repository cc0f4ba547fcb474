"""Protocols of benchmarks and environments, limits, and the context of a run.

`Benchmark` and `Environment` are what a world must offer, `Limits` and `Budget` bound a run, and `Context` holds
everything else that a run is given besides its state.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from certigraph.state.records import Action, Observation, Record, Scores, Spent, Task
from certigraph.state.run import NestedStart
from certigraph.state.trajectory import Footer

# What a benchmark and its world must offer. Any class with these methods will do; no base class is needed.

Operator = Callable[..., Awaitable[dict[str, Any]]]
"""Signature `async def operator(state, runtime) -> dict`: reads its view of the state, returns a partial update."""

Responder = Callable[[str, dict[str, Any]], Any]
"""Function of a scripted model: (prompt, JSON schema) -> a JSON value that fits the schema.

The shipped ones never read the prompt: they answer from the schema and from `scripts.current_situation()`.
A responder with an attribute `blocks = True` may take long and is called in a worker thread.
"""


MIN_PLAN, MIN_SUBTASKS, MIN_FAILURES, MIN_NODES = 40, 16, 8, 8
"""Minimum of the limits that follow the number of steps, so that a run with few steps can be resumed with its plan."""


class Limits(Record):
    """Limits of a method, per task. The defaults of each benchmark are those of the papers.

    A field that is None follows the number of steps, as its description says; `effective` returns the numbers.
    """

    attempts: int = Field(3, ge=1, description="attempts at one target before replanning")
    replans: int = Field(5, ge=0, description="replans at one predicate before giving up")
    steps: int = Field(60, ge=1, description="world steps per episode")
    options: int = Field(30, ge=1, description="options shown to the model in one question")
    trials: int = Field(5, ge=1, description="episodes of an agent that learns between them")
    subqueries: int = Field(5, ge=1, description="queries of one search for evidence")
    passages: int = Field(10, ge=1, description="passages that one retrieval returns (k)")
    repeats: int = Field(5, ge=0, description="equal actions in a row that end an episode; 0: off")
    substeps: int = Field(8, ge=1, description="actions for one of STEP's subtasks before it is refined")
    plan: int | None = Field(None, ge=1, description="conditions or steps of one plan; unset: max(40, steps)")
    subtasks: int | None = Field(
        None, ge=1, description="completed subtasks after which STEP's episode is a loop; unset: max(16, steps)"
    )
    failures: int | None = Field(
        None, ge=1, description="failed subtasks after which STEP's episode is a loop; unset: max(8, steps // 4)"
    )
    nodes: int | None = Field(None, ge=1, description="sub-tasks of TDP's task graph; unset: max(8, steps // 8)")
    revisions: int | None = Field(None, ge=0, description="Self-Revisions of TDP's graph; unset: nodes, at least 8")
    rounds: int = Field(
        0, ge=0, description="rounds of a search agent; 0: the method's own (IRCoT 10, ReAct 7, ...), else steps"
    )
    context: int = Field(24_000, ge=500, description="characters of earlier rounds in a search agent's prompt")
    excerpt: int = Field(1_000, ge=50, description="characters of one passage in a prompt")
    gold: float = Field(
        0, ge=0, description="ends STEP's episodes at this many gold lengths, which leaks the gold; 0: off"
    )

    def effective(self) -> "EffectiveLimits":
        """Return the limits with a number in every field.

        One action may make several conditions true, and a subtask takes at least one action: with as many conditions
        and subtasks as steps, the steps end a run first. A sub-task of TDP gets eight steps, what STEP allows for one.
        """
        nodes = max(MIN_NODES, self.steps // 8) if self.nodes is None else self.nodes
        derived = {
            "plan": max(MIN_PLAN, self.steps),
            "subtasks": max(MIN_SUBTASKS, self.steps),
            "failures": max(MIN_FAILURES, self.steps // 4),
            "nodes": nodes,
            "revisions": max(MIN_NODES, nodes),
        }
        explicit = {name: value for name, value in self if value is not None}
        return EffectiveLimits.model_validate({**derived, **explicit})


class EffectiveLimits(Limits):
    """Limits as operators read them: every field that followed the number of steps holds a number."""

    plan: int
    subtasks: int
    failures: int
    nodes: int
    revisions: int


class Environment(Protocol):
    """One live episode. Methods block; the node `act` calls them from a worker thread, one at a time."""

    concurrent: bool
    """True when several actions may be stepped in parallel (read-only tools), False for simulators."""

    def reset(self) -> Observation: ...

    def step(self, action: Action) -> Observation: ...

    def view(self) -> str:
        """Return what the world shows now, independent of the last action. Does not change the world."""
        ...

    def admissible(self) -> list[str] | None:
        """Return the actions that the world accepts now; None if they cannot be listed. Called only when needed."""
        ...

    def score(self) -> Scores: ...

    def close(self) -> None: ...


class Benchmark(Protocol):
    """A family of tasks with its world, scorer and specialised operators.

    Optional attributes: `signals_goal = True` if `Observation.solved` reports whether a task's goal is reached;
    `replans_undone = True` if its own `replan` plans the conditions of `ReplanView.undone` again. Without the latter, a
    graph with the optional slot `revalidate` is refused.
    """

    name: str
    briefing: str
    """What an agent must know of this world apart from its tasks: rules and forms of actions. Opens every prompt."""
    configurations: Sequence[str]
    """Named variants of its operators, selected as BENCHMARK:CONFIGURATION."""
    limits: Limits

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the tasks of a split; the empty string names the default split."""
        ...

    def task(self, task_id: str) -> Task:
        """Return one task. Raises UnknownName, whose message lists some valid ids."""
        ...

    def open(self, task: Task) -> Environment: ...

    def operators(self) -> Mapping[str, Operator]:
        """Return operators that replace the generic, prompted ones, by name: propose, realize, validate, decide, ..."""
        ...

    def expert(self) -> Responder | None:
        """Return the responder of the model `scripted:expert`; None if the first option is as good."""
        ...

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Compute the metrics of several runs, each given with its task's id; `n` is the number of runs."""
        ...


# What a run is given besides its state: models, budget, limits, data, and live objects that are never stored in state.

ROLES = ("planner", "executor", "validator", "extractor", "memory", "judge")
"""Roles in which operators ask models."""


class Budget(Record):
    """Limits on what a run may spend before it ends `limit:<kind>`; checked before every model call and world step.

    The number of calls is never exceeded. Tokens and dollars depend on the length of an answer, so the call that
    reaches the limit is the last one. A call that is running when the seconds are over is cancelled.
    """

    calls: int = Field(1_000, ge=0, description="model calls")
    tokens: int = Field(2_000_000, ge=0, description="input and output tokens together")
    usd: float = Field(5.0, ge=0, description="US dollars; if set, a model without a known price is refused")
    seconds: float = Field(3_600.0, ge=0, description="wall-clock seconds inside nodes")
    priced: bool = Field(False, description="whether a model needs a known price; true if usd is set")

    @model_validator(mode="before")
    @classmethod
    def _dollars_need_prices(cls, values: Any) -> Any:
        return {"priced": True, **values} if isinstance(values, dict) and "usd" in values else values


class Context(BaseModel):
    """Context of every graph. Every field has a default, so that a graph runs without a context."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    model: str = Field(
        "scripted:expert",
        description="openai:NAME, local, local:qwen-0.5b, local:FILE.gguf, scripted:first, scripted:expert, simulated",
        json_schema_extra={"langgraph_type": "model"},
    )
    roles: dict[str, str] = Field(
        default_factory=dict,
        description="other models for some roles: planner, executor, validator, extractor, memory, judge",
    )
    data: str | None = Field(None, description="data folder; unset: CERTIGRAPH_DATA, else a generated world")
    budget: Budget = Budget()
    limits: Limits | None = Field(None, description="unset: those of the benchmark")
    memory: str = Field(
        "",
        description="name of a memory of lessons, shared by the runs in one folder or on one store; unset: one per run",
    )
    cache: str | None = Field(
        None, description="folder that caches the replies of models, so that a request is paid once; unset: none"
    )
    faults: str = Field(
        "", description="faults to inject into models and world, as in `timeout=0.1,crash=0.01,seed=3`; unset: none"
    )
    checkpoints: Literal["", "postgres"] = Field(
        "", description="postgres: the server that CERTIGRAPH_POSTGRES names; unset: a file in the run's folder"
    )
    trial: int = Field(
        0, ge=0, description="number of this repetition of the task; part of the seed of simulated models"
    )
    lost: SkipJsonSchema[Spent] = Field(Spent(), exclude=True, description="spent before a crash and in no checkpoint")
    benchmark: SkipJsonSchema[Any] = Field(None, exclude=True, description="a live benchmark instead of the named one")
    environment: SkipJsonSchema[Any] = Field(None, exclude=True, description="a live environment to act in")
    chat: SkipJsonSchema[Any] = Field(None, exclude=True, description="a live LangChain chat model for every role")
    callbacks: SkipJsonSchema[Any] = Field(None, exclude=True, description="LangChain callbacks of the run")
    entry: SkipJsonSchema[NestedStart | None] = Field(
        None, exclude=True, description="where a part of another run starts"
    )
    admissible: SkipJsonSchema[Any] = Field(
        None, exclude=True, description="lists the actions that the live world admits now"
    )
    rehearse: SkipJsonSchema[Any] = Field(
        None, exclude=True, description="returns what a copy of the live world would answer"
    )


# Every benchmark's default limits, in one table: the papers' own where a paper ran it.

_RESEARCH_LIMITS = Limits(attempts=3, replans=2, steps=30, subqueries=5, excerpt=3_000)

PAPER_LIMITS: Mapping[str, Limits] = {
    "alfworld": Limits(steps=50, options=60),
    "ask": _RESEARCH_LIMITS,
    "assistantbench": _RESEARCH_LIMITS,
    "blocksworld": Limits(),
    "hotpotqa": Limits(attempts=3, replans=2, steps=20, passages=10),
    "hotpotqa:interactive": Limits(attempts=3, replans=2, steps=30, passages=10),
    "locomo": Limits(replans=2, steps=20),
    "musique": Limits(attempts=3, replans=2, steps=25, passages=10),
    "rewardprediction": Limits(steps=1),
    "scienceworld": Limits(attempts=30, replans=5, steps=500, options=20, subtasks=16, failures=8),
    "scienceworld:tdp": Limits(attempts=30, replans=2, steps=60, options=20, repeats=0),
    "swe_qa": Limits(replans=2, steps=30, passages=5),
    "textworld": Limits(steps=50),
    "travelplanner": Limits(attempts=3, replans=5, steps=60),
    "travelplanner:tools": Limits(steps=50, replans=2),
    "web": _RESEARCH_LIMITS,
    "webshop": Limits(replans=2, steps=20),
}
"""Default limits of every benchmark.

Attempts, replans and steps are those of SDP (appendix A); BlocksWorld, LoCoMo and SWE-QA, which SDP did not run, have
our own. In the named configurations, steps are TDP's (appendix B), which gives no number of replans. The 50 steps of
ALFWorld and TextWorld are what papers usually allow; they were not checked against a source. For STEP, ScienceWorld's
subtasks and failures are those of its public code. All other lengths of plans and task graphs follow the steps,
because no paper gives them.
"""
