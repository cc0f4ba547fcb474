"""Rows -> the figures of each method and how its scores and costs differ from the first one's, paired."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from certigraph.evaluation.comparing.costs import Need, needs_of
from certigraph.evaluation.comparing.plan import Outline
from certigraph.evaluation.comparing.rows import Cost, Row, by_task, cost_of
from certigraph.evaluation.faults import fault_warnings
from certigraph.evaluation.precision import GoalPrecision, Outcome, goal_precision
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.statistics import LEAST, holm, mean_of, paired, pass_hat_k, told_apart
from certigraph.state.endings import METHODS_OWN
from certigraph.state.records import Record

Scores = Mapping[str, Sequence[float]]
"""Task -> the scores of its trials, 0 to 100."""


class Summary(Cost):
    """A method over n tasks, `runs` runs: scores 0 to 100; calls, tokens, steps and seconds in all.

    `low` and `high` bound the 95 % interval of the mean score, trials of one task taken together. `pass_all` is the
    probability in percent that all trials of a task succeed (pass^k, k the number of trials); None with one trial.
    `faults` of `begun` runs are in no other figure: the world or its data failed.
    """

    method: str
    n: int
    runs: int
    score: float
    stderr: float
    low: float | None
    high: float | None
    successes: int
    faults: int = 0
    begun: int = 0
    pass_all: float | None = None
    goals: GoalPrecision = GoalPrecision()
    """How many of the runs that ended `goal` the scorer confirms."""
    endings: dict[str, int]


class Difference(Record):
    """A method's score minus the first method's on the same n tasks, trials of a task averaged first.

    `low` and `high` bound the 95 % interval; `p_adjusted` is Holm's, over all differences of the comparison;
    `detectable` is the least difference that n tasks of this spread would show in four of five repetitions.
    `faults` counts the tasks that are left out because a run of either method met a fault.
    """

    method: str
    against: str
    n: int
    mean: float
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None = None
    detectable: float | None
    faults: int = 0

    @property
    def told_apart(self) -> bool:
        """Whether it is more than noise, by its interval and its p."""
        found = None if self.low is None or self.high is None else (self.low, self.high)
        return told_apart(found, self.n, self.p if self.p_adjusted is None else self.p_adjusted)

    @property
    def equal(self) -> bool:
        """Whether the scores are the same on every task, of two at least."""
        return self.low == self.high == self.mean == 0

    @property
    def words(self) -> str:
        """What may be said of it, and how many pairs a fault took."""
        return self._words + (f"; {counted(self.faults, 'pair')} left out for faults" if self.faults else "")

    @property
    def _words(self) -> str:
        if not self.n:
            return "no task that both finished"
        if self.equal:
            return f"equal on every task at n={self.n}"
        if self.n < LEAST:
            return f"too few tasks to tell: n={self.n}, it takes {LEAST}"
        if not self.told_apart:
            return f"cannot be told from noise at n={self.n}"
        return f"{'above' if self.mean > 0 else 'below'} {self.against} at n={self.n}"


class Comparison(Record):
    """The table of a comparison, over the tasks that every method has finished without a fault."""

    benchmark: str
    model: str
    n: int
    planned: int
    trials: int
    methods: tuple[Summary, ...]
    differences: tuple[Difference, ...]
    needs: tuple[Need, ...] = ()
    rows: tuple[Row, ...]
    """Every run with an ending, those of tasks that some method has not finished included."""
    faults: int = 0
    """Tasks that are left out because a run met a fault of the world or its data."""
    warnings: tuple[str, ...] = ()
    """What must be known of the figures, a sentence each."""

    @property
    def left(self) -> int:
        """Runs that the next call carries out: those without an ending, and those that an error ended."""
        done = sum(not row.ending.startswith("error:") for row in self.rows)
        return self.planned * self.trials * len(self.methods) - done


def comparison_of(outline: Outline, rows: Sequence[Row]) -> Comparison:
    """The comparison as far as it has come: tasks that a method lacks are left out for all, so n is one number."""
    by_method = shared_rows(outline, rows)
    shared = {row.task for mine in by_method.values() for row in mine}
    differences = _differences({name: scores_of(mine) for name, mine in by_method.items()})
    methods = tuple(_summary(name, mine, rows, outline.trials) for name, mine in by_method.items())
    faults = fault_warnings(_endings(outline, rows), "give the same command once more")
    return Comparison(
        benchmark=outline.benchmark,
        model=outline.model,
        n=len(shared),
        planned=len(outline.tasks),
        trials=outline.trials,
        methods=methods,
        differences=tuple(with_faults(difference, rows) for difference in differences),
        needs=needs_of(by_method),
        rows=tuple(rows),
        faults=len({row.task for row in rows if row.fault} - shared),
        warnings=(*faults, *limit_warnings(methods)),
    )


def limit_warnings(summaries: Sequence[Summary]) -> Iterator[str]:
    """A line for each limit of a method's own that ended runs of it: such runs say little about the method."""
    options = {**dict(zip(METHODS_OWN, METHODS_OWN, strict=True)), "subtasks": "subtasks=N or failures"}
    for summary in summaries:
        for kind, option in options.items():
            if count := summary.endings.get(f"limit:{kind}", 0):
                ended = f"{count} of {counted(summary.runs, 'run')} ended at limit:{kind}"
                yield f"{summary.method}: {ended}; raise it with --budget {option}=N"


def shared_rows(outline: Outline, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Each method's runs of the tasks that `shared_tasks` names, faults left out."""
    shared = set(shared_tasks(outline, rows))
    counted = [row for row in rows if row.task in shared and not row.fault]
    return {method: [row for row in counted if row.method == method] for method in outline.methods}


def shared_tasks(outline: Outline, rows: Sequence[Row]) -> list[str]:
    """The tasks of which every method has finished every trial without a fault, in order.

    Methods without any such run are left out.
    """
    counted = [row for row in rows if not row.fault]
    done, begun = Counter(row.task for row in counted), {row.method for row in counted}
    return [task for task in outline.tasks if done[task] == len(begun) * outline.trials > 0]


def scores_of(rows: Sequence[Row]) -> Scores:
    """The scores of each task's trials."""
    return by_task(rows, "score")


def difference_of(method: str, against: str, other: Scores, first: Scores) -> Difference:
    """How far one lies above another, over the tasks of both."""
    found = paired(first, other)
    return Difference(method=method, against=against, **found._asdict())


def _endings(outline: Outline, rows: Sequence[Row]) -> dict[str, list[str]]:
    return {method: [row.ending for row in rows if row.method == method] for method in outline.methods}


def with_faults(difference: Difference, rows: Sequence[Row]) -> Difference:
    """The same with the number of tasks that are left out because a run of either method met a fault."""
    pair = (difference.method, difference.against)
    left_out = {row.task for row in rows if row.fault and row.method in pair}
    return difference.model_copy(update={"faults": len(left_out)})


def _summary(method: str, rows: Sequence[Row], begun: Sequence[Row], trials: int) -> Summary:
    told = mean_of([row.score for row in rows], [row.task for row in rows], top=100)
    solved = {task: list(map(bool, trials)) for task, trials in by_task(rows, "solved").items()}
    return Summary(
        method=method,
        n=len(solved),
        runs=len(rows),
        score=told.mean,
        stderr=told.stderr,
        low=told.low,
        high=told.high,
        successes=sum(row.solved for row in rows),
        faults=sum(row.fault for row in begun if row.method == method),
        begun=sum(row.method == method for row in begun),
        pass_all=100 * pass_hat_k(solved, trials).mean if trials > 1 and rows else None,
        goals=goal_precision(Outcome(row.task, row.ending, row.verdict) for row in rows),
        endings=dict(Counter(row.ending for row in rows)),
        **cost_of(rows).model_dump(),
    )


def _differences(scores: Mapping[str, Scores]) -> tuple[Difference, ...]:
    first, *others = scores
    found = [difference_of(name, first, scores[name], scores[first]) for name in others]
    adjusted = holm([difference.p for difference in found])
    return tuple(d.model_copy(update={"p_adjusted": p}) for d, p in zip(found, adjusted, strict=True))
