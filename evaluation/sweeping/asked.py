"""What a sweep's file may say: the record of it, key by key."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from certigraph.state.records import Record

Name = Annotated[str, Field(min_length=1)]
Amounts = dict[str, float]


def _case(given: Any) -> Any:
    return {"name": given} if isinstance(given, str) else given


class Choosing(Record):
    """Which tasks of a benchmark: ids, or a split and how many of it."""

    tasks: tuple[Name, ...] = ()
    split: str = ""
    limit: int = Field(0, ge=0)
    """The first ones; 0: all."""
    stratify: bool = False
    """Spread the limit over difficulty and length instead."""


class Case(Choosing):
    """One benchmark of a sweep. What it does not say of its tasks, the file's own `limit`, `split`, ... say."""

    name: Name
    label: str = ""
    """What tables call it; told apart by this, a benchmark may stand in a sweep twice."""

    @property
    def title(self) -> str:
        """The label, else the name."""
        return self.label or self.name


class Most(Record):
    """What all runs of a sweep may spend together. Once it is reached no run is begun; those under way end."""

    usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Refuses models without a known price."""
    tokens: int | None = Field(None, gt=0)
    """Input and output tokens together."""
    calls: int | None = Field(None, gt=0)
    hours: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Wall-clock hours of one start of the sweep: the same command goes on for as many again."""


class Sweep(Choosing):
    """Everything a sweep's file may say. `most` and `at_once` may change between two starts, the rest may not.

    Each of `operators` is a variant, slot -> operator; `{}` is the graph as it is. `budget` is a run's, with the
    graph's limits, as `--budget` names them.
    """

    benchmarks: tuple[Annotated[Case, BeforeValidator(_case)], ...] = Field(min_length=1, max_length=100)
    graphs: tuple[Name, ...] = Field(min_length=1, max_length=100)
    operators: tuple[dict[str, Name], ...] = Field(({},), min_length=1, max_length=100)
    model: Name = "scripted:expert"
    roles: dict[str, Name] = Field(default_factory=dict)
    trials: int = Field(1, ge=1, le=1_000)
    budget: Amounts = Field(default_factory=dict)
    most: Most = Most()
    at_once: int = Field(1, ge=1, le=1_000)
    """Runs under way at a time."""
    data: Name | None = None
    """Folders are seen from the folder of the file."""
    cache: Name | None = None
    faults: str = ""
    checkpoints: Literal["", "postgres"] = ""

    def choosing(self, case: Case) -> Choosing:
        """The tasks of a benchmark: what its entry says, and for the rest the file."""
        said = {key: getattr(case, key) for key in Choosing.model_fields if key in case.model_fields_set}
        return Choosing(**{**{key: getattr(self, key) for key in Choosing.model_fields}, **said})
