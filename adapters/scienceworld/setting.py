"""What determines an episode, and the form of a protocol, which makes one of each variation."""

from typing import Literal

from pydantic import Field

from certigraph.state.records import Record

Unit = Literal["moves", "calls"]
"""moves: as the simulator counts them; looking is free, `wait` costs eleven. calls: one for every action."""

Rule = Literal["last_non_negative", "last_positive"]
"""Which score counts: the last one seen that is >= 0 (SwiftSage, `no_stop`), or > 0 (STEP). A fatal -100 is neither."""


class Setting(Record):
    """Everything that determines an episode; the constants of its task.

    An episode ends after `limit` units: when moves exceed it, as in the simulator, or when calls reach it. `calls`
    bounds the calls in any case, for free actions could go on for ever. None: no bound.
    """

    task: str
    variation: int = Field(ge=0)
    simplification: str
    unit: Unit
    limit: int | None
    calls: int | None
    rule: Rule


class Split(Record):
    """A protocol. `limits` are those of tasks that have their own."""

    source: str
    variations: dict[str, tuple[int, ...]]
    simplification: str = "easy"
    unit: Unit = "calls"
    limit: int | None = None
    limits: dict[str, int] = Field(default_factory=dict)
    calls: int | None = 500
    rule: Rule = "last_non_negative"
    episodes: int = Field(1, description="episodes on each variation, of which the best counts")

    def setting(self, task: str, variation: int) -> Setting:
        """The episode that this protocol makes of a variation."""
        limit = self.limits.get(task, self.limit)
        calls = limit if self.unit == "calls" else self.calls
        shared = {"simplification": self.simplification, "unit": self.unit, "rule": self.rule}
        return Setting.model_validate({"task": task, "variation": variation, "limit": limit, "calls": calls, **shared})
