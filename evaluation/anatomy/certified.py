"""A certificate on record, or a pass that a policy forced, and what it took."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from certigraph.state.records import Usage

Plain = Mapping[str, Any]
"""A record as its trajectory line has it: fields of default value are left out."""


class Cost(NamedTuple):
    """Steps taken in the world, model calls, and tokens of prompts and answers."""

    steps: int = 0
    calls: int = 0
    tokens: int = 0

    def plus(self, usage: Usage, steps: int) -> "Cost":
        """With one more execution of a node."""
        return Cost(self.steps + steps, self.calls + usage.calls, self.tokens + _tokens(usage))


class Certified(NamedTuple):
    """A certificate, the number of rejected tries at its first predicate, and all that was spent since the last one."""

    record: Plain
    rejected: int
    cost: Cost

    @property
    def targets(self) -> Sequence[Plain]:
        """The predicates it discharged."""
        found: Sequence[Plain] = self.record["targets"]
        return found

    @property
    def returns(self) -> bool:
        """Whether it returned to an earlier certified state instead of discharging predicates of the task."""
        return self.record.get("restores") is not None

    @property
    def forced(self) -> bool:
        """Whether a policy let its predicates pass, which certifies none."""
        return bool(self.record.get("forced"))

    def status(self, *, stands: bool) -> str:
        """What became of its predicates, as in `frames.Frames`; `stands`: no return went behind it."""
        if self.returns:
            return "return"
        if self.forced:
            return "forced" if stands else "dropped"
        return "certified" if stands else "undone"


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
