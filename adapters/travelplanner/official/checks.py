"""What a constraint check is, and the judgement it leads to."""

from collections.abc import Callable, Iterator

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.plans import Plan
from certigraph.state.records import Record

Check = Callable[[Query, Plan, Sandbox], Iterator[str]]
"""Yields the violations found; none means the constraint holds. Plans come cut to the query's days."""


class Judgement(Record):
    """Whether a constraint holds; None if it was not requested or not evaluated."""

    passed: bool | None = None
    message: str = ""


def judge(check: Check, query: Query, plan: Plan, sandbox: Sandbox) -> Judgement:
    """Judges by the first violation."""
    violation = next(check(query, plan, sandbox), None)
    return Judgement(passed=violation is None, message=violation or "")
