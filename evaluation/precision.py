"""Goal precision: the share of runs ending `goal` that the benchmark's scorer confirms."""

from collections.abc import Iterable
from typing import NamedTuple

from certigraph.evaluation.report.graded import is_solved
from certigraph.state.endings import GOAL
from certigraph.state.records import Record
from certigraph.state.trajectory import Footer

NONE = "-"
"""Shown where no run ended `goal` with a score."""


class Outcome(NamedTuple):
    """How one run of a task ended, and whether its scorer says that the task is solved; None without a score."""

    task: str
    ending: str
    solved: bool | None


class GoalPrecision(Record):
    """Of `n` runs that ended `goal` and were scored, `confirmed` solved their task.

    `value` and the bounds `low` and `high` of its 95 % interval lie in 0 to 1 (Wilson's interval, runs of one task
    taken together). They are None where n is 0.
    """

    n: int = 0
    confirmed: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """`42/63, 67 % (54 to 77)`, or `-`."""
        if self.value is None or self.low is None or self.high is None:
            return NONE
        percent = f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f})"
        return f"{self.confirmed}/{self.n}, {percent}"


def goal_precision(outcomes: Iterable[Outcome]) -> GoalPrecision:
    """The goal precision of several runs. Runs without a score are not counted."""
    goals = [(task, solved) for task, ending, solved in outcomes if ending == GOAL and solved is not None]
    if not goals:
        return GoalPrecision()
    from certigraph.evaluation.statistics import share_of  # needs the extra `eval`, a run does not

    found = share_of([solved for _, solved in goals], [task for task, _ in goals])
    confirmed = sum(solved for _, solved in goals)
    return GoalPrecision(n=found.n, confirmed=confirmed, value=found.value, low=found.low, high=found.high)


def outcome_of(task: str, footer: Footer) -> Outcome:
    """The outcome that a footer records."""
    return Outcome(task, footer.ending, is_solved(footer.scores))
