"""Measures of evaluated runs: one row per run, goal precision, fault warnings, and names of statistical methods."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import not_
from typing import NamedTuple

from pydantic import Field

from certigraph.runtime.history import LOST
from certigraph.runtime.result import is_goal_denied
from certigraph.runtime.terminal import DENIED
from certigraph.state.endings import FAULT_ENDINGS, GOAL
from certigraph.state.records import Record

# Descriptions of the statistical methods, which JSON output and printed tables hold next to the numbers.

MEAN_INTERVAL = (
    "95 %, clustered by task: Wilson for scores that are 0 or the maximum, with the effective number of runs; else t "
    "with a cluster-robust standard error"
)
PAIRED_BOOTSTRAP = "95 %, BCa bootstrap over tasks of the paired difference, 10,000 resamples"
PAIRED_T = "two-sided paired t-test over tasks, not adjusted; the sign test where all differences are equal"
HOLM = "the same p after Holm (1979)"
DETECTABLE = "least mean difference of a two-sided paired t-test, 5 %, power 0.8"

EVALUATION_METHODS = {
    "intervals": f"{MEAN_INTERVAL}; figures that are not means of runs: BCa bootstrap over tasks, 1,000 resamples"
}
"""Statistical methods behind the intervals in the output of `certigraph eval` and `certigraph score`."""

COMPARISON_METHODS = {
    "methods.low, methods.high": MEAN_INTERVAL,
    "differences.low, differences.high": PAIRED_BOOTSTRAP,
    "differences.p": PAIRED_T,
    "differences.p_adjusted": f"{HOLM}, over all differences of the comparison",
    "differences.detectable": DETECTABLE,
    "replayed.optimism": f"interval: {PAIRED_BOOTSTRAP}; p: {PAIRED_T}",
}
"""Statistical method behind each field in the output of `compare --json` and `ablate --json`, and in `table.json`."""

RECALL_METHODS = {
    "low, high": "95 %, over questions: Wilson for recalls that are 0 or 1, else t",
    "difference_low, difference_high": "95 %, BCa bootstrap over questions of the paired difference, 10,000 resamples",
    "p": "two-sided paired t-test over questions, not adjusted",
    "p_holm": f"{HOLM}, over all differences of the split",
}
"""Statistical method behind each field in the output of `certigraph study retrieval --json`."""


# One run as a row of a comparison.


class RoleUsage(Record):
    """Model calls of one role, such as `planner`: their number, and their tokens.

    Of the prompt tokens, `cached_tokens` were served by the model's prompt cache.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    @property
    def share(self) -> float:
        """Cached tokens per prompt token, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class RunCost(Record):
    """Cost of one or more runs.

    Counts model calls, those of them that brought no information (`state.trajectory.EmptyCalls`), tokens, US dollars,
    steps in the world, and wall-clock seconds inside the graph's nodes. `roles` has the calls and tokens of each model
    role.
    """

    calls: int
    empty_calls: int | None = Field(default=None, exclude_if=lambda count: count is None)
    """None for runs of which only a table is left, in which they were not counted."""
    empty: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    """These calls by reason: the fields of `EmptyCalls` that are not 0."""
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    steps: int
    seconds: float
    usd: float = 0.0
    roles: dict[str, RoleUsage]

    @property
    def empty_shares(self) -> dict[str, float]:
        """Share of all calls that brought no information, 0 to 1, by reason."""
        return {reason: count / self.calls for reason, count in self.empty.items()} if self.calls else {}


class ComparisonRow(RunCost):
    """One run as a row of a comparison; `score` is 0 to 100, and `trial` counts the repetitions of a task from 0."""

    method: str
    task: str
    trial: int = 0
    ending: str
    score: float
    solved: bool
    scored: bool = True
    """Whether the world gave a score."""
    shown: dict[str, float] = Field(default_factory=dict, exclude_if=not_)
    """Parts that the benchmark shows in place of the score, 0 to 1, by label."""
    loss: str = Field(default="", exclude_if=not_)
    """What the world reports of a run that it ended without the goal."""
    run: str

    @property
    def verdict(self) -> bool | None:
        """Whether the task is solved; None if the world gave no score."""
        return self.solved if self.scored else None

    @property
    def ending_words(self) -> str:
        """The ending, and what the score says where that is another thing, or the world where the run was lost."""
        if is_goal_denied(self.ending, self.verdict):
            return f"{self.ending}, {DENIED}"
        if self.verdict and self.ending != GOAL:
            return f"{self.ending}, solved"
        return f"{self.ending}, {self.loss}" if self.loss.startswith(LOST) else self.ending

    @property
    def fault(self) -> bool:
        """Whether the world or its data failed; such runs are left out of all statistics."""
        return self.ending in FAULT_ENDINGS


def sum_costs(rows: Sequence[ComparisonRow]) -> RunCost:
    """Sum the cost of several runs."""
    amounts = ("calls", "prompt_tokens", "cached_tokens", "output_tokens", "steps", "seconds", "usd")
    roles = defaultdict[str, Counter[str]](Counter)
    for row in rows:
        for role, used in row.roles.items():
            roles[role].update(used.model_dump())
    sums = {name: sum(getattr(row, name) for row in rows) for name in amounts}
    empty = [row.empty_calls for row in rows if row.empty_calls is not None]
    counted = {"empty_calls": sum(empty)} if len(empty) == len(rows) else {}
    reasons = Counter[str]()
    for row in rows:
        reasons.update(row.empty)
    by_role = {role: RoleUsage(**used) for role, used in roles.items()}
    return RunCost(**sums, **counted, empty=dict(reasons) if counted else {}, roles=by_role)


def values_by_task(rows: Sequence[ComparisonRow], figure: str = "score") -> dict[str, list[float]]:
    """Group the values of the column `figure` by task; each trial of a task adds one value."""
    values = defaultdict[str, list[float]](list)
    for row in rows:
        values[row.task].append(float(getattr(row, figure)))
    return dict(values)


# Goal precision: the share of runs with the ending `goal` whose task is solved according to the scorer.

MISSING_VALUE = "-"
"""Text of a cell without a value, for example a goal precision for which no run counts."""


class RunOutcome(NamedTuple):
    """Ending of one run of a task, and whether the task is solved (None if the run has no score)."""

    task: str
    ending: str
    solved: bool | None


class GoalPrecision(Record):
    """Share of correct claims of success: of `n` scored runs with the ending `goal`, `confirmed` solved their task.

    `value` is the share, 0 to 1, and `low` to `high` its 95 % Wilson interval, in which the runs of a task form a
    cluster. The three are None if n is 0.
    """

    n: int = 0
    confirmed: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """Format as `42/63, 67 % (54 to 77)`, or `-`."""
        if self.value is None or self.low is None or self.high is None:
            return MISSING_VALUE
        percent = f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f})"
        return f"{self.confirmed}/{self.n}, {percent}"


def goal_precision(outcomes: Iterable[RunOutcome]) -> GoalPrecision:
    """Compute the goal precision of several runs. Runs without a score are not counted."""
    goals = [(task, solved) for task, ending, solved in outcomes if ending == GOAL and solved is not None]
    if not goals:
        return GoalPrecision()
    from certigraph.evaluation.statistics import mean_of  # needs the extra `eval`, which runs do not

    share = mean_of([float(solved) for _, solved in goals], [task for task, _ in goals], top=1.0)
    confirmed = sum(solved for _, solved in goals)
    return GoalPrecision(n=share.n, confirmed=confirmed, value=share.mean, low=share.low, high=share.high)


# Faults: the number of runs that no statistic counts, and when that may bias a comparison.

MAX_FAULT_SHARE = 0.05
"""Share of a method's runs that end in a fault above which a warning says that the other runs may be easier tasks."""


def fault_warnings(endings: Mapping[str, Sequence[str]], command: str) -> Iterator[str]:
    """Yield warnings about runs that ended in an error.

    Args:
        endings: the endings of all runs, by method.
        command: the shell command that repeats the failed runs.
    """
    faults = {method: sum(ending in FAULT_ENDINGS for ending in ended) for method, ended in endings.items()}
    if any(faults.values()):
        counts = ", ".join(f"{method} {faults[method]}/{len(ended)}" for method, ended in endings.items())
        doubt = _format_doubt(faults, endings)
        yield f"faults of the world or its data ended runs that no figure counts: {counts}{doubt}"
    for method, ended in endings.items():
        errors = Counter(ending for ending in ended if ending.startswith("error:") and ending not in FAULT_ENDINGS)
        for ending, count in errors.items():
            message = f"{method}: {count} of {len(ended)} runs ended {ending} and count as failures"
            yield f"{message}; their reports have the error, and if it has passed, run them again: {command}"


def _format_doubt(faults: Mapping[str, int], endings: Mapping[str, Sequence[str]]) -> str:
    shares = {method: faults[method] / len(ended) for method, ended in endings.items() if ended}
    if min(shares.values()) == 1:
        return ". No run is left to score"
    if len(set(shares.values())) > 1:
        most = max(shares, key=lambda method: shares[method])
        return f". The shares differ: what fails under {most} may be its hardest tasks, and the rest flatter it"
    if max(shares.values()) > MAX_FAULT_SHARE:
        return f". That is more than {MAX_FAULT_SHARE:.0%}: the others may be the easier tasks"
    return ""
