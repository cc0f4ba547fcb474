"""What a benchmark and its world must offer. Anything with these methods will do; no base class is needed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from pydantic import Field

from certigraph.state.records import Action, Observation, Record, Scores, Task
from certigraph.state.trajectory import Footer

Operator = Callable[..., Awaitable[dict[str, Any]]]
"""`async def operator(state, runtime) -> dict`: reads its view of the state, returns a partial update."""

Responder = Callable[[str, dict[str, Any]], Any]
"""A scripted mind: (prompt, JSON schema) -> a JSON value that fits the schema."""


class Limits(Record):
    """A method's own limits, per task. Defaults are each benchmark's, from the papers."""

    attempts: int = Field(3, ge=1, description="tries at one target before replanning")
    replans: int = Field(5, ge=0, description="replans at one predicate before giving up")
    steps: int = Field(60, ge=1, description="world steps per episode")
    options: int = Field(30, ge=1, description="options shown to the model in one question")


class Environment(Protocol):
    """One live episode. Methods block; the node `act` calls them from a worker thread, one at a time."""

    concurrent: bool
    """True when several actions may be stepped in parallel (read-only tools), False for simulators."""

    def reset(self) -> Observation: ...

    def step(self, action: Action) -> Observation: ...

    def admissible(self) -> list[str] | None: ...

    def score(self) -> Scores: ...

    def close(self) -> None: ...


class Benchmark(Protocol):
    """A family of tasks with its world, scorer and specialised operators."""

    name: str
    configurations: Sequence[str]
    """Named variants of its operators, asked for as BENCHMARK:CONFIGURATION."""
    limits: Limits

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The tasks of a split; the empty string names the default split."""
        ...

    def task(self, task_id: str) -> Task:
        """One task. Raises UnknownName whose message lists some valid ids."""
        ...

    def open(self, task: Task) -> Environment: ...

    def operators(self) -> Mapping[str, Operator]:
        """Operators that replace the generic, prompted ones, by slot: propose, realize, validate, replan."""
        ...

    def expert(self) -> Responder | None:
        """The mind behind `scripted:expert`; None when the first option is as good."""
        ...

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """The figures that are reported for several runs, each with its task's id; `n` is their number."""
        ...
