"""What a run is given besides its state: models, budget, limits, data, and live objects that never enter state."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from certigraph.adapters.protocols import Limits
from certigraph.state.records import Record, Spent
from certigraph.state.run import Entry

ROLES = ("planner", "executor", "validator", "extractor", "memory", "judge")
"""The roles in which operators ask models."""


class Budget(Record):
    """What a run may spend before it ends `limit:<kind>`; checked before every model call and world step.

    Calls are never more than that. Of tokens and dollars, which an answer's length decides, the call that reaches the
    limit is the last one. A call that is under way when the seconds are over is broken off.
    """

    calls: int = Field(1_000, ge=0, description="model calls")
    tokens: int = Field(2_000_000, ge=0, description="input and output tokens together")
    usd: float = Field(5.0, ge=0, description="US dollars; set, it refuses a model without a known price")
    seconds: float = Field(3_600.0, ge=0, description="wall-clock seconds inside nodes")
    priced: bool = Field(False, description="whether a model needs a known price; true where usd is set")

    @model_validator(mode="before")
    @classmethod
    def _dollars_need_prices(cls, given: Any) -> Any:
        return {"priced": True, **given} if isinstance(given, dict) and "usd" in given else given


class Context(BaseModel):
    """The context of every graph. All of it has defaults, so a graph runs without one."""

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
    limits: Limits | None = Field(None, description="unset: the benchmark's own")
    memory: str = Field(
        "", description="a memory of lessons that runs in one folder, or on one store, share; unset: each run its own"
    )
    cache: str | None = Field(
        None, description="folder that keeps the replies of models, so that a question is paid once; unset: none"
    )
    faults: str = Field(
        "", description="faults to inject into models and world, as in `timeout=0.1,crash=0.01,seed=3`; unset: none"
    )
    checkpoints: Literal["", "postgres"] = Field(
        "", description="postgres: the server that CERTIGRAPH_POSTGRES names; unset: a file in the run's folder"
    )
    trial: int = Field(0, ge=0, description="which repetition of the task this is; simulated models draw by it")
    lost: SkipJsonSchema[Spent] = Field(Spent(), exclude=True, description="spent, but in no checkpoint: by a crash")
    benchmark: SkipJsonSchema[Any] = Field(None, exclude=True, description="a live benchmark instead of the named one")
    environment: SkipJsonSchema[Any] = Field(None, exclude=True, description="a live environment to act in")
    chat: SkipJsonSchema[Any] = Field(None, exclude=True, description="a live LangChain chat model for every role")
    callbacks: SkipJsonSchema[Any] = Field(None, exclude=True, description="LangChain callbacks of the run")
    entry: SkipJsonSchema[Entry | None] = Field(None, exclude=True, description="where a part of another run begins")
    admissible: SkipJsonSchema[Any] = Field(None, exclude=True, description="lists what the live world admits now")
    rehearse: SkipJsonSchema[Any] = Field(None, exclude=True, description="what a copy of the live world would answer")
