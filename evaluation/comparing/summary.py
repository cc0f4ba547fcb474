"""Rows -> the figures of each method and its paired differences to the first."""

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.rows import Prompted, Row, merged
from certigraph.evaluation.comparing.statistics import (
    detectable,
    holm,
    interval,
    mean_difference,
    paired_p,
    standard_error,
    told_apart,
)
from certigraph.state.records import Record


class Summary(Record):
    """A method over n tasks: scores 0 to 100; calls, tokens, steps and seconds in all."""

    method: str
    n: int
    score: float
    stderr: float
    successes: int
    calls: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    steps: int
    seconds: float
    roles: dict[str, Prompted]
    endings: dict[str, int]


class Difference(Record):
    """A method's score minus the first method's on the same n tasks.

    `low` and `high` bound the 95 % interval; `p_adjusted` is Holm's, over all differences of the comparison;
    `detectable` is the least difference that n tasks of this spread would show in four of five repetitions.
    """

    method: str
    against: str
    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    detectable: float | None

    @property
    def words(self) -> str:
        """What may be said of it."""
        found = None if self.low is None or self.high is None else (self.low, self.high)
        if not told_apart(found, self.n):
            return f"cannot be told from noise at n={self.n}"
        return f"{'above' if self.mean > 0 else 'below'} {self.against} at n={self.n}"


class Comparison(Record):
    """The table of a comparison, over the tasks that every method has finished."""

    benchmark: str
    model: str
    n: int
    planned: int
    methods: tuple[Summary, ...]
    differences: tuple[Difference, ...]
    rows: tuple[Row, ...]
    """Every finished run, those of tasks that some method has not finished included."""


def comparison_of(plan: Plan, rows: Sequence[Row]) -> Comparison:
    """The comparison as far as it has come: tasks that a method lacks are left out for all, so n is one number."""
    shared = shared_tasks(plan, rows)
    by_method = [[row for row in rows if row.method == m.name and row.task in shared] for m in plan.methods]
    return Comparison(
        benchmark=plan.benchmark,
        model=plan.model,
        n=len(shared),
        planned=len(plan.tasks),
        methods=tuple(_summary(m.name, mine) for m, mine in zip(plan.methods, by_method, strict=True)),
        differences=_differences([m.name for m in plan.methods], [[r.score for r in mine] for mine in by_method]),
        rows=tuple(rows),
    )


def shared_tasks(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """The tasks that every method has finished, in the order of the plan."""
    done = Counter(row.task for row in rows)
    return [task for task in plan.tasks if done[task] == len(plan.methods)]


def _summary(method: str, rows: Sequence[Row]) -> Summary:
    scores = [row.score for row in rows]
    return Summary(
        method=method,
        n=len(rows),
        score=mean(scores) if scores else 0.0,
        stderr=standard_error(scores),
        successes=sum(row.solved for row in rows),
        calls=sum(row.calls for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        cached_tokens=sum(row.cached_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        steps=sum(row.steps for row in rows),
        seconds=sum(row.seconds for row in rows),
        roles=merged(row.roles for row in rows),
        endings=dict(Counter(row.ending for row in rows)),
    )


def _differences(names: Sequence[str], scores: Sequence[Sequence[float]]) -> tuple[Difference, ...]:
    first, *others = scores
    ps = [paired_p(first, other) for other in others]
    told = zip(names[1:], others, ps, holm(ps), strict=True)
    return tuple(_difference(name, names[0], first, other, p, adjusted) for name, other, p, adjusted in told)


def _difference(
    method: str, against: str, first: Sequence[float], other: Sequence[float], p: float | None, adjusted: float | None
) -> Difference:
    apart = [b - a for a, b in zip(first, other, strict=True)]
    low, high = interval(apart) or (None, None)
    return Difference(
        method=method,
        against=against,
        n=len(apart),
        mean=mean_difference(apart),
        low=low,
        high=high,
        p=p,
        p_adjusted=adjusted,
        detectable=detectable(apart),
    )
