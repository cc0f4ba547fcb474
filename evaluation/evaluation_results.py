"""Results of an evaluation: figures with intervals, rows and tables."""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.chat_models import describe_model, is_scripted
from certigraph.evaluation.measures import (
    EVALUATION,
    NONE,
    GoalPrecision,
    fault_warnings,
    goal_precision,
    outcome_of,
    share_text,
)
from certigraph.evaluation.statistics import ALIKE, LEAST, Estimate, Interval, pass_hat_k, resampled, wilson
from certigraph.evaluation.workers import is_url
from certigraph.runtime.html import counted
from certigraph.runtime.result import ROW, Row
from certigraph.state.records import INTERRUPTED, Boundary, Fault, Record
from certigraph.state.trajectory import Footer

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


# How far a benchmark's figures can be trusted: intervals by resampling tasks, whatever a figure computes.

Runs = Sequence[tuple[str, Footer]]
Figures = Callable[[Runs], dict[str, float]]


def intervals_of(figures: Mapping[str, float], rows: Sequence[Row], compute: Figures) -> dict[str, Interval | None]:
    """The 95 % interval of every figure but counts and standard errors.

    A percentile bootstrap over tasks: all runs of a task are drawn together, for they share its difficulty, and the
    benchmark computes its figures anew from each sample. Fewer than LEAST tasks, and figures that come out the same in
    every sample, have Wilson's interval where the figure is the share of successful runs, with one count a task, and
    none otherwise.

    Args:
        figures: the figures of all rows.
        rows: the runs.
        compute: the benchmark's `figures`.
    """
    tasks = _by_task(rows)
    drawn = resampled(list(tasks.values()), compute) if len(tasks) >= LEAST else {}
    alone = [compute([(row.id, row.footer)]) for row in rows]
    return {
        name: drawn.get(name) or _as_rate(value, [one.get(name) for one in alone], len(tasks))
        for name, value in figures.items()
        if name != "n" and not name.endswith("_stderr")
    }


def repeated_successes(rows: Sequence[Row]) -> dict[str, Estimate]:
    """`pass^k` by name, for k of 2, 4, 8, ... and the trials that every task has; nothing where a task has only one."""
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        outcomes[row.id].append(row.value >= 1)
    trials = min(map(len, outcomes.values()), default=0)
    doubled = (2**n for n in range(1, trials.bit_length()))
    return {f"pass^{k}": pass_hat_k(outcomes, k) for k in sorted({*doubled, trials} - {0, 1})}


def _by_task(rows: Sequence[Row]) -> dict[str, list[tuple[str, Footer]]]:
    tasks: dict[str, list[tuple[str, Footer]]] = defaultdict(list)
    for row in rows:
        tasks[row.id].append((row.id, row.footer))
    return dict(tasks)


def _as_rate(value: float, alone: Sequence[float | None], tasks: int) -> Interval | None:
    """Wilson's interval of a figure that is 0 or 1 for each run alone and their mean for all of them."""
    told = [one for one in alone if one is not None]
    if not told or {*told} - {0.0, 1.0} or abs(mean(told) - value) > ALIKE:
        return None
    return wilson(round(value * tasks), tasks)


# What an evaluation came to: its figures with their intervals, and a row for every run.

BULK = frozenset({"events", "store", "attachments", "messages"})
"""Parts of a log's samples that no figure needs; of thousands of runs they would take gigabytes of memory."""


LEAST_SPACE = 1 << 20
"""Free bytes of a disk below which it counts as full: what inspect buffers for a log was larger."""


class Evaluation(Record):
    """A graph on a benchmark: the official figures and a row for every run."""

    graph: str
    benchmark: str
    model: str
    swaps: dict[str, str]
    """The operators that were exchanged, by slot."""
    budget: tuple[str, ...] = ()
    """What was changed of budget and limits, as `KEY=N`."""
    figures: dict[str, float]
    """The benchmark's own; of several trials also `pass^k`, the chance that k runs of a task all succeed."""
    intervals: dict[str, Interval | None]
    """95 % interval of a figure over tasks; None where the sample cannot tell one."""
    rows: tuple[Row, ...]
    log: str
    """Path of inspect's log: `inspect view` shows it."""

    @property
    def scored(self) -> tuple[Row, ...]:
        """The runs that the figures are over: those with an ending, but for faults of the world or its data."""
        return tuple(row for row in self.rows if row.scored)

    @property
    def n(self) -> int:
        """Number of scored runs."""
        return len(self.scored)

    @property
    def faults(self) -> int:
        """Number of runs in which the world or its data failed; no figure counts them."""
        return sum(row.fault for row in self.rows)

    @property
    def tasks(self) -> int:
        """Number of tasks with a scored run, which are what an interval is over."""
        return len({row.id for row in self.scored})

    @property
    def trials(self) -> int:
        """The most runs of one task."""
        return max(Counter(row.id for row in self.rows).values(), default=0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be known of the figures: how many runs they leave out, or count although an error ended them."""
        return tuple(fault_warnings({self.graph: [row.ending for row in self.rows]}, "certigraph eval --retry LOG"))

    @property
    def endings(self) -> dict[str, int]:
        """How many runs ended how."""
        return dict(Counter(row.ending for row in self.rows))

    @property
    def goals(self) -> GoalPrecision:
        """How many of the runs that ended `goal` the scorer confirms."""
        return goal_precision(outcome_of(row.id, row.footer) for row in self.rows)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Runs without an ending of their own; `certigraph eval --retry LOG` runs just these again."""
        return tuple(row for row in self.rows if row.ending.startswith(("error:", INTERRUPTED)))


def read_evaluation(log: Path | str) -> Evaluation:
    """The evaluation in a log of inspect's.

    Raises:
        Fault: the file is no such log, or nothing was evaluated.
    """
    return evaluation_of(read_log(log, without=BULK))


def read_log(log: Path | str, *, without: Set[str] = frozenset()) -> "EvalLog":
    """A log of inspect's, parts of its samples left out. Raises Fault where it is none of one of certigraph's tasks."""
    from inspect_ai.log import read_eval_log

    if not is_url(str(log)) and not Path(log).is_file():
        raise Fault("data", f"no log at {log}: give a file that `certigraph eval` wrote, as in --retry runs/NAME.eval")
    try:
        found = read_eval_log(str(log), exclude_fields={*without})
    except Exception as error:  # whatever a reader of several formats raises for a file that has none of them
        raise Fault("data", f"{log} is no log of inspect's ({error}): give a file that ends in .eval") from error
    if "graph" not in (found.eval.metadata or {}):
        raise Fault("data", f"{log} is of the task {found.eval.task!r}, not certigraph's: use `inspect eval-retry`")
    return found


def evaluation_of(log: "EvalLog") -> Evaluation:
    """The evaluation in a log that was read. Raises Fault where nothing was evaluated."""
    if not log.results or not log.samples:
        why, boundary = _unfinished(log)
        raise Fault(boundary, f"nothing was evaluated: {why}; finish it with: certigraph eval --retry {log.location}")
    asked = log.eval.metadata or {}
    rows = tuple(Row.model_validate(sample.scores[ROW].metadata) for sample in log.samples if sample.scores)
    scored = [row for row in rows if row.scored]
    figures = {name: float(metric.value) for name, metric in log.results.scores[0].metrics.items()}
    repeated = repeated_successes(scored)
    return Evaluation(
        graph=asked["graph"],
        benchmark=asked["benchmark"],
        model=asked["model"] or log.samples[0].output.model,
        swaps=asked["swaps"],
        budget=tuple(asked["budget"]),
        figures={**figures, **{name: found.mean for name, found in repeated.items()}},
        intervals={**_intervals(log, figures, scored), **{name: _bounds(found) for name, found in repeated.items()}},
        rows=rows,
        log=log.location,
    )


def _unfinished(log: "EvalLog") -> tuple[str, Boundary]:
    """Why a log has no results: what inspect says, or a disk that is full, which inspect says nothing of."""
    if log.error:
        return log.error.message, "operator"
    folder = Path(log.location.removeprefix("file://")).parent
    if folder.is_dir() and shutil.disk_usage(folder).free < LEAST_SPACE:
        return f"no space is left on the disk of {folder}: free space", "data"
    return f"the log ends with the status {log.status!r}, as after a crash", "operator"


def _bounds(found: Estimate) -> Interval | None:
    return None if found.low is None or found.high is None else (found.low, found.high)


def _intervals(log: "EvalLog", figures: Mapping[str, float], rows: Sequence[Row]) -> dict[str, Interval | None]:
    asked = log.eval.metadata or {}
    benchmark = load_benchmark(asked["benchmark"], log.eval.task_args.get("data") or None)
    return intervals_of(figures, rows, benchmark.figures)


# An evaluation as the table that `certigraph eval` prints: every figure with its interval and what it is over.

REASONS = 3
"""Different messages of failed runs that are shown; `certigraph report RUN` tells of every one."""

MESSAGE = 300
"""Characters of each."""


def print_evaluations(done: Sequence[Evaluation], *, as_json: bool) -> None:
    """The figures of the first evaluation, those of the others beside it."""
    if as_json:
        typer.echo(json.dumps(_as_json(done)))
        return
    for evaluation in done:
        about = f"{evaluation.graph} on {evaluation.benchmark}, model {describe_model(evaluation.model)}"
        Console(highlight=False, soft_wrap=True, emoji=False).print(about, markup=False)
    names = dict.fromkeys(name for evaluation in done for name in evaluation.figures if not _told_elsewhere(name))
    table = Table("figure", box=None)
    for evaluation in done:
        table.add_column(evaluation.benchmark, justify="right")
        table.add_column("95 % interval")
    for name in names:
        table.add_row(name, *(cell for evaluation in done for cell in _cells(evaluation, name)))
    table.add_row("goal precision", *(cell for evaluation in done for cell in _precision(evaluation.goals)))
    table.add_row("n", *(cell for evaluation in done for cell in (str(evaluation.n), _counted(evaluation))))
    faults = [share_text(evaluation.faults, len(evaluation.rows)) for evaluation in done]
    table.add_row("faults", *(cell for share in faults for cell in (share, "runs that no figure counts")))
    Console().print(table)
    for evaluation in done:
        endings = ", ".join(f"{count} {ending}" for ending, count in evaluation.endings.items())
        typer.echo(f"{evaluation.benchmark}, {evaluation.model}: {endings}")
        for warning in evaluation.warnings:
            Console(highlight=False, soft_wrap=True).print(f"warning: {warning}", markup=False)
        for reason in _reasons(evaluation):
            Console(highlight=False, soft_wrap=True).print(f"  {reason}", markup=False)
        label = "go on with what failed: certigraph eval --retry" if evaluation.failed else "log:"
        Console(highlight=False, soft_wrap=True).print(f"{label} {evaluation.log}", style="dim", markup=False)


def _cells(evaluation: Evaluation, name: str) -> tuple[str, str]:
    if name not in evaluation.figures:
        return "", ""
    value, interval = evaluation.figures[name], evaluation.intervals.get(name)
    return f"{value:.1%}", f"{interval[0]:.1%} to {interval[1]:.1%}" if interval else "too few tasks or no spread"


def _precision(goals: GoalPrecision) -> tuple[str, str]:
    if goals.value is None:
        return NONE, ""
    return f"{goals.value:.1%}", f"{goals.low:.1%} to {goals.high:.1%} of {counted(goals.n, 'run')} ending goal"


def _told_elsewhere(name: str) -> bool:
    """Whether a figure is no row of its own: the number of runs, and standard errors, for which intervals stand."""
    return name == "n" or name.endswith("_stderr")


def _reasons(evaluation: Evaluation) -> Iterator[str]:
    """What runs that failed said, the most frequent first."""
    said = Counter(" ".join((row.footer.message or row.ending).split())[:MESSAGE] for row in evaluation.failed)
    yield from (f"{count} x {message}" for message, count in said.most_common(REASONS))


def _counted(evaluation: Evaluation) -> str:
    tasks = f"{evaluation.tasks} task{'s' if evaluation.tasks != 1 else ''}"
    return f"runs, {tasks}, {evaluation.trials} trials each" if evaluation.trials > 1 else f"runs, {tasks}"


def _as_json(done: Sequence[Evaluation]) -> dict[str, object]:
    first, *others = done
    about = {
        "graph": first.graph,
        "benchmark": first.benchmark,
        "model": first.model,
        "language_model": not is_scripted(first.model),
        "statistics": EVALUATION,
    }
    beside = {other.benchmark: _counts(other) for other in others}
    return {**about, **_counts(first), **({"beside": beside} if beside else {})}


def _counts(evaluation: Evaluation) -> dict[str, object]:
    """What one configuration came to, whether it is the first or another."""
    return {
        **evaluation.figures,
        "n": evaluation.n,
        "runs": len(evaluation.rows),
        "faults": evaluation.faults,
        "tasks": evaluation.tasks,
        "trials": evaluation.trials,
        "goal_precision": evaluation.goals.model_dump(),
        "endings": evaluation.endings,
        "intervals": evaluation.intervals,
        "log": evaluation.log,
        **({"warnings": list(evaluation.warnings)} if evaluation.warnings else {}),
    }
