"""Statistics of comparisons and ablations.

`comparison_of` computes scores, paired differences and costs of every method over the tasks that all methods have
finished.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isnan
from operator import not_
from statistics import mean
from typing import Any

from pydantic import Field

from certigraph.adapters.models.chat_models import is_simulated
from certigraph.evaluation.comparison import (
    ComparedMethod,
    ComparisonOutline,
    ComparisonPlan,
    build_method,
    parse_methods,
)
from certigraph.evaluation.frames import Frames
from certigraph.evaluation.measures import (
    ComparisonRow,
    GoalPrecision,
    RoleUsage,
    RunCost,
    RunOutcome,
    fault_warnings,
    goal_precision,
    sum_costs,
    values_by_task,
)
from certigraph.evaluation.published_matches import PublishedMatch, RunSetting, find_matches
from certigraph.evaluation.statistics import (
    CONFIDENCE,
    MIN_PAIRS,
    Interval,
    ScoresByTask,
    adjust_p_values,
    bootstrap_interval,
    compare_paired,
    figure_intervals,
    is_significant,
    mean_difference,
    mean_of,
    pass_hat_k,
    relative_change,
)
from certigraph.nodes.specs import split_swaps
from certigraph.runtime.graph_sources import slots_of
from certigraph.runtime.registry import GRAPHS, build_graph
from certigraph.runtime.result import is_solved
from certigraph.runtime.texts import format_count
from certigraph.state.endings import GOAL, METHOD_LIMITS, UnknownName
from certigraph.state.records import Record
from certigraph.state.trajectory import EmptyCalls, Footer

# One row for each run.


def comparison_rows(frames: Frames) -> list[ComparisonRow]:
    """Convert the runs in data frames to rows of a comparison, in order. A run without a score counts as 0."""
    amounts = ["calls", "input_tokens", "cached_tokens", "output_tokens"]
    used = frames.calls.assign(calls=1).groupby(["run", "role"], sort=False)[amounts].sum()
    roles = defaultdict[str, dict[str, RoleUsage]](dict)
    for (run, role), (calls, read, cached, written) in zip(used.index, used.to_numpy().tolist(), strict=True):
        roles[run][role] = RoleUsage(calls=calls, prompt_tokens=read, cached_tokens=cached, output_tokens=written)
    runs = frames.runs.assign(score=100 * frames.runs["score"]).rename(columns={"input_tokens": "prompt_tokens"})
    reasons = {f"empty_{reason}": reason for reason in EmptyCalls._fields}
    columns = [name for name in ComparisonRow.model_fields if name not in ("roles", "empty")]
    records: list[dict[str, Any]] = runs[[*columns, *reasons]].to_dict("records")  # type: ignore[assignment]
    rows = []
    for record in records:
        empty = {reason: record.pop(column) for column, reason in reasons.items()}
        shown = json.loads(record.pop("shown") or "{}")
        known = {reason: count for reason, count in empty.items() if count}
        rows.append(ComparisonRow(**record, shown=shown, empty=known, roles=roles[record["run"]]))
    return rows


# Needs: the amounts of calls, tokens and steps that a run takes, and paired differences from the first method.

AMOUNT_LABELS = {
    "output_tokens": "output tokens",
    "prompt_tokens": "prompt tokens",
    "calls": "calls",
    "steps": "world steps",
}
"""Label of each amount that a run takes; the keys are fields of `ComparisonRow`."""


class AmountNeed(Record):
    """Mean amount of calls, tokens or steps that a method uses per run, compared with the first method (`against`).

    `difference` is in the unit of the amount, with the trials of a task averaged first; `percent` is the change of the
    sums: -50 means half. The bounds are 95 % bootstrap intervals over tasks. All of these are None for the first
    method, and if the methods share no task.
    """

    method: str
    against: str
    amount: str
    n: int
    mean: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    percent: float | None = None
    percent_low: float | None = None
    percent_high: float | None = None


def needs_of(rows: Mapping[str, Sequence[ComparisonRow]]) -> tuple[AmountNeed, ...]:
    """Compute how much of each amount in AMOUNT_LABELS every method uses per run, compared with the first method.

    `rows` has the runs of each method by name.
    """
    return tuple(need for amount in AMOUNT_LABELS if any(rows.values()) for need in _compute_needs(rows, amount))


def _compute_needs(rows: Mapping[str, Sequence[ComparisonRow]], amount: str) -> Iterator[AmountNeed]:
    amounts = {name: values_by_task(method_rows, amount) for name, method_rows in rows.items()}
    first = next(iter(amounts))
    for name, method_amounts in amounts.items():
        means, reference = ([mean(one[task]) for task in sorted(one)] for one in (method_amounts, amounts[first]))
        need = AmountNeed(method=name, against=first, amount=amount, n=len(method_amounts), mean=mean_difference(means))
        if name == first or not means or not reference:
            yield need
            continue
        differences = [after - before for before, after in zip(reference, means, strict=True)]
        low, high = bootstrap_interval(differences) or (None, None)
        change = relative_change(amounts[first], method_amounts)
        bounds = {"percent": change.percent, "percent_low": change.low, "percent_high": change.high}
        compared = {"difference": mean_difference(differences), "low": low, "high": high, **bounds}
        yield need.model_copy(update=compared)


# The official figures (metrics) of a benchmark, with intervals, whatever a figure computes.

FigureFunction = Callable[[Sequence[tuple[str, Footer]]], Mapping[str, float]]
"""Type of the method `figures` of a benchmark, which computes its figures from pairs of task id and footer."""


class FigureEstimate(Record):
    """An official figure of a benchmark over the runs of a method that count.

    `low` and `high` bound its 95 % interval, clustered by task; None if there are too few tasks or no spread. `value`
    is None if no run counts for the figure.
    """

    method: str
    figure: str
    value: float | None
    low: float | None = None
    high: float | None = None


def estimate_figures(method: str, runs: Sequence[tuple[str, Footer]], compute: FigureFunction) -> list[FigureEstimate]:
    """Estimate the figures of a method from the task and the footer of each run, without counts and standard errors.

    With several trials of each task `pass^k` is estimated too, the probability that k runs of a task all succeed, for
    k = 2, 4, 8, ... and the number of trials.
    """
    values = {name: value for name, value in compute(runs).items() if has_interval(name)} if runs else {}
    bounds = figure_intervals(values, runs, [task for task, _ in runs], compute)
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for task, footer in runs:
        outcomes[task].append(bool(is_solved(footer.scores)))
    trials = min(map(len, outcomes.values()), default=0)
    for k in sorted({*(2**n for n in range(1, trials.bit_length())), trials} - {0, 1}):
        estimate = pass_hat_k(outcomes, k)
        values[f"pass^{k}"], bounds[f"pass^{k}"] = estimate.mean, estimate.interval
    return [figure_estimate(method, name, value, bounds.get(name)) for name, value in values.items()]


def has_interval(figure: str) -> bool:
    """Return whether a figure has an interval and a row in tables: all except the count and standard errors."""
    return figure != "n" and not figure.endswith("_stderr")


def figure_estimate(method: str, figure: str, value: float, interval: Interval | None) -> FigureEstimate:
    """Build the estimate of a figure; a value of NaN means that no run counts."""
    low, high = interval or (None, None)
    return FigureEstimate(method=method, figure=figure, value=None if isnan(value) else value, low=low, high=high)


# Scores of each method, and paired differences from the first method.


class MethodSummary(RunCost):
    """Statistics of a method over `n` tasks and `runs` runs: mean score, 0 to 100, and sums of calls, tokens and steps.

    `low` and `high` bound the 95 % interval of the mean score, clustered by task (`statistics.mean_of`). `pass_all` is
    the probability in percent that all trials of a task succeed (pass^k, where k is the number of trials); None if
    there is one trial. In `faults` of the `begun` runs the world or its data failed; these runs count in no other
    statistic.
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
    """Goal precision: share of the runs ending `goal` that solved their task; none where nothing is certified."""
    endings: dict[str, int]
    shown: dict[str, float] = Field(default_factory=dict, exclude_if=not_)
    """Means of the parts that the benchmark shows in place of the score, 0 to 1, by label."""


class Difference(Record):
    """Mean score of a method minus that of another (`against`) on the same `n` tasks, trials of a task averaged first.

    `low` and `high` bound the 95 % BCa bootstrap interval, and `p` is the p-value of the paired t-test. `p_adjusted` is
    adjusted by Holm's method over all differences of the comparison. `detectable` is the smallest mean difference that
    the test finds with a power of 0.8. `faults` counts the tasks that are left out because the world or its data failed
    in a run of either method.
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
    def significant(self) -> bool:
        """Whether the difference is significant: the interval excludes 0 and the (adjusted) p-value is at most 0.05."""
        return is_significant(self.low, self.high, self.n, self.p if self.p_adjusted is None else self.p_adjusted)

    @property
    def reservation(self) -> str:
        """Why a difference is not significant where only one of interval and p is the reason; else empty."""
        if self.low is None or self.n < MIN_PAIRS:
            return ""
        p = self.p if self.p_adjusted is None else self.p_adjusted
        if p is not None and p <= 1 - CONFIDENCE:
            return " (the interval includes 0)"
        which = "p" if self.p_adjusted in (None, self.p) else "Holm's p"
        return f" ({which} above 0.05)" if is_significant(self.low, self.high, self.n) else ""

    @property
    def equal(self) -> bool:
        """Whether both methods have equal scores on every task, and there are at least two tasks."""
        return self.low == self.high == self.mean == 0

    @property
    def words(self) -> str:
        """The conclusion in words, with the number of tasks that are left out because of faults."""
        if not self.n:
            found = "no task that both finished"
        elif self.equal:
            found = f"equal on every task at n={self.n}"
        elif self.n < MIN_PAIRS:
            found = f"too few tasks for a conclusion: n={self.n}, at least {MIN_PAIRS} needed"
        elif not self.significant:
            found = f"no significant difference at n={self.n}{self.reservation}"
        else:
            found = f"{'above' if self.mean > 0 else 'below'} {self.against} at n={self.n}"
        return found + (f"; {format_count(self.faults, 'pair')} left out for faults" if self.faults else "")


class Comparison(Record):
    """Statistics of a comparison over the tasks that every method has finished without a fault.

    An evaluation is a comparison of one method, over all runs without a fault.
    """

    benchmark: str
    model: str
    n: int
    planned: int
    trials: int
    methods: tuple[MethodSummary, ...]
    differences: tuple[Difference, ...]
    needs: tuple[AmountNeed, ...] = ()
    figures: tuple[FigureEstimate, ...] = ()
    """The official figures of each method; none if the benchmark cannot be loaded."""
    rows: tuple[ComparisonRow, ...]
    """Every run that ended, including those of tasks that some method has not finished."""
    variants: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    """What the exchanged operators of each variant of the first method do, by method."""
    faults: int = 0
    """Number of tasks that are left out because the world or its data failed in a run."""
    published: dict[str, tuple[PublishedMatch, ...]] = Field(default_factory=dict)
    """Published figures by method; no statistic uses them."""
    warnings: tuple[str, ...] = ()
    """Warnings about the statistics, one sentence each."""

    @property
    def left(self) -> int:
        """Number of runs that are still to be executed: those that are not finished, or ended in an error."""
        done = sum(not row.ending.startswith("error:") for row in self.rows)
        return self.planned * self.trials * len(self.methods) - done

    @property
    def outline(self) -> ComparisonOutline:
        """The names of the methods, the tasks that have a run, and the number of trials."""
        names, tasks = (summary.method for summary in self.methods), dict.fromkeys(row.task for row in self.rows)
        return ComparisonOutline(self.benchmark, self.model, tuple(names), tuple(tasks), self.trials)


REPEAT_ADVICE = "give the same command once more"
"""What a warning names as the way to run failed runs again."""


def comparison_of(
    outline: ComparisonOutline,
    rows: Sequence[ComparisonRow],
    repeat: str = REPEAT_ADVICE,
    certifying: Collection[str] | None = None,
) -> Comparison:
    """Compute the statistics of a comparison from the runs so far, over the tasks that every method has finished.

    Args:
        outline: methods, tasks and trials.
        rows: the runs.
        repeat: what warnings name as the way to run failed runs again.
        certifying: names of the methods that certify predicates. Only they have a goal precision, and a warning about
            solved tasks that they did not certify. None: all have a goal precision, and there is no such warning.
    """
    by_method = shared_rows(outline, rows)
    shared = {row.task for method_rows in by_method.values() for row in method_rows}
    scores = {name: values_by_task(method_rows) for name, method_rows in by_method.items()}
    first, *others = scores
    differences = adjust_family([compute_difference(name, first, scores[name], scores[first]) for name in others])
    methods = tuple(
        _summarize_method(name, method_rows, rows, certifies=certifying is None or name in certifying)
        for name, method_rows in by_method.items()
    )
    endings = {method: [row.ending for row in rows if row.method == method] for method in outline.methods}
    faults = fault_warnings(endings, repeat)
    return Comparison(
        benchmark=outline.benchmark,
        model=outline.model,
        n=len(shared),
        planned=len(outline.tasks),
        trials=outline.trials,
        methods=methods,
        differences=tuple(add_faults(difference, rows) for difference in differences),
        needs=needs_of(by_method),
        rows=tuple(rows),
        faults=len({row.task for row in rows if row.fault} - shared),
        warnings=(*faults, *limit_warnings(methods), *uncertified_warnings(rows, certifying or ())),
    )


def add_published(comparison: Comparison, settings: Mapping[str, RunSetting]) -> Comparison:
    """Return a copy of a comparison with the published figures of its methods.

    Args:
        comparison: the comparison, with its official figures.
        settings: settings of the runs, by method; their tasks are replaced by those that the figures are about.
    """
    tasks = {*shared_tasks(comparison.outline, comparison.rows)}
    figures = {name: {one.figure for one in comparison.figures if one.method == name} for name in settings}
    found = {name: find_matches(one._replace(tasks=tasks), figures[name]) for name, one in settings.items()}
    return comparison.model_copy(update={"published": {name: matches for name, matches in found.items() if matches}})


def adapt_to_methods(comparison: Comparison, plan: ComparisonPlan) -> Comparison:
    """Return a copy of a comparison with descriptions of the variants, and a warning if its scores rank no methods."""
    models = [plan.model, *plan.roles.values()]
    ranked = len({method.graph for method in plan.methods}) == 1 or not any(map(is_simulated, models))
    warnings = (*comparison.warnings, *(() if ranked else (RANKING_WARNING,)))
    return comparison.model_copy(update={"warnings": warnings, "variants": plan.variants})


RANKING_WARNING = (
    "the error rates of the simulated agent hit methods in different places: conditions and verdicts exist only in "
    "methods that plan or validate, so that these scores rank no methods"
)


def uncertified_warnings(rows: Sequence[ComparisonRow], certifying: Collection[str]) -> Iterator[str]:
    """Yield a warning for each method that certifies predicates, but not the goal in most of the runs that it solved.

    A script that answers at random, or a validator that is too strict, is seen here and not in the score.
    """
    for method in dict.fromkeys(row.method for row in rows if row.method in certifying):
        solved = [row for row in rows if row.method == method and row.verdict]
        endings = Counter(row.ending for row in solved if row.ending != GOAL)
        if endings.total() > len(solved) / 2:
            count, ended = f"{endings.total()} of the {len(solved)} runs", ", ".join(endings)
            missed = f"{method}: the goal was not certified in {count} that the scorer calls solved (ended {ended})"
            yield f"{missed}: their reports say what the validator missed"


def limit_warnings(summaries: Sequence[MethodSummary]) -> Iterator[str]:
    """Yield a warning for each method-specific limit that ended runs, because such runs say little about the method."""
    options = {**dict(zip(METHOD_LIMITS, METHOD_LIMITS, strict=True)), "subtasks": "subtasks=N or failures"}
    for summary in summaries:
        for kind, option in options.items():
            if count := summary.endings.get(f"limit:{kind}", 0):
                ended = f"{count} of {format_count(summary.runs, 'run')} ended at limit:{kind}"
                yield f"{summary.method}: {ended}; raise it with --budget {option}=N"


def shared_rows(outline: ComparisonOutline, rows: Sequence[ComparisonRow]) -> dict[str, list[ComparisonRow]]:
    """Group the runs of the tasks in `shared_tasks` by method, without runs in which the world or its data failed."""
    shared = set(shared_tasks(outline, rows))
    counted = [row for row in rows if row.task in shared and not row.fault]
    return {method: [row for row in counted if row.method == method] for method in outline.methods}


def shared_tasks(outline: ComparisonOutline, rows: Sequence[ComparisonRow]) -> list[str]:
    """List the tasks, in order, of which every method has ended every trial without a fault of the world or its data.

    Methods without any such run are ignored. Of a single method every task with such a run is listed, since nothing is
    paired.
    """
    valid = [row for row in rows if not row.fault]
    done, started = Counter(row.task for row in valid), {row.method for row in valid}
    if len(outline.methods) == 1:
        return [task for task in outline.tasks if done[task]]
    return [task for task in outline.tasks if done[task] == len(started) * outline.trials > 0]


def compute_difference(method: str, against: str, other: ScoresByTask, first: ScoresByTask) -> Difference:
    """Compute the paired difference between the scores `other` and `first` over the tasks that both have.

    `method` and `against` are the names of the two methods.
    """
    return Difference(method=method, against=against, **compare_paired(first, other)._asdict())


def add_faults(difference: Difference, rows: Sequence[ComparisonRow]) -> Difference:
    """Return a copy of a difference with `faults` set.

    It is the number of tasks left out because the world or its data failed in a run of either method.
    """
    pair = (difference.method, difference.against)
    left_out = {row.task for row in rows if row.fault and row.method in pair}
    return difference.model_copy(update={"faults": len(left_out)})


def _summarize_method(
    method: str, rows: Sequence[ComparisonRow], all_rows: Sequence[ComparisonRow], *, certifies: bool
) -> MethodSummary:
    estimate = mean_of([row.score for row in rows], [row.task for row in rows], top=100)
    solved = {task: list(map(bool, trials)) for task, trials in values_by_task(rows, "solved").items()}
    trials = min(map(len, solved.values()), default=0)  # of a single method some trials of a task may be missing
    return MethodSummary(
        method=method,
        n=len(solved),
        runs=len(rows),
        score=estimate.mean,
        stderr=estimate.stderr,
        low=estimate.low,
        high=estimate.high,
        successes=sum(row.solved for row in rows),
        faults=sum(row.fault for row in all_rows if row.method == method),
        begun=sum(row.method == method for row in all_rows),
        pass_all=100 * pass_hat_k(solved, trials).mean if trials > 1 else None,
        goals=goal_precision(RunOutcome(row.task, row.ending, row.verdict) for row in rows if certifies),
        endings=dict(Counter(row.ending for row in rows)),
        shown=_mean_parts(rows),
        **sum_costs(rows).model_dump(),
    )


def _mean_parts(rows: Sequence[ComparisonRow]) -> dict[str, float]:
    labels = dict.fromkeys(label for row in rows for label in row.shown)
    return {label: mean(row.shown[label] for row in rows if label in row.shown) for label in labels}


def adjust_family(differences: Sequence[Difference]) -> list[Difference]:
    """Set the p-values of a family of differences that are adjusted by Holm's method, since some differ by chance."""
    adjusted = adjust_p_values([difference.p for difference in differences])
    return [one.model_copy(update={"p_adjusted": p}) for one, p in zip(differences, adjusted, strict=True)]


# Methods of an ablation.

DEFAULT_SWAPS = {
    "sdp": ("validate=always_pass", "replan=give_up", "validate=capped:depth=1"),
    "sdp:paper": ("validate=always_pass", "replan=give_up", "validate=capped:validate=validate_always,depth=1"),
}
"""Swaps of an ablation by default, by graph. Each removes one of SDP's three mechanisms (SDP paper, section 4.3)."""


def ablation_methods(graph: str, swaps: Sequence[str]) -> tuple[ComparedMethod, ...]:
    """Build the methods of an ablation: the graph, then a variant named after each swap.

    Several swaps of one variant are joined by `+`.

    Raises:
        UnknownName: the graph, a slot or an operator is unknown, a swap is given twice, or there is no swap.
    """
    full = parse_methods([graph])
    swaps = swaps or DEFAULT_SWAPS.get(graph, ())
    if not swaps:
        slots = ", ".join(slots_of(build_graph(graph, {})))
        where = f"`certigraph list {graph if graph in GRAPHS else 'operators'}` shows their operators"
        fix = f"give --swap SLOT=OPERATOR; the slots are {slots}; {where}"
        raise UnknownName(f"nothing to ablate in {graph}: {fix}")
    if twice := sorted({swap for swap in swaps if swaps.count(swap) > 1}):
        raise UnknownName(f"swap {twice[0]} is given twice; give each swap once")
    return (*full, *(build_method(swap, graph, split_swaps(swap)) for swap in swaps))
