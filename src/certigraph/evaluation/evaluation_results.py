"""Results of an evaluation: metrics with intervals, a row for each run, and the printed table.

`Evaluation` is the result, `read_evaluation` reads it from an Inspect log, and `print_evaluations` prints it. The code
calls the metrics of a benchmark figures.
"""

import json
import shlex
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import Field
from rich.console import Console
from rich.table import Table

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.chat_models import describe_error_rates, describe_model, is_scripted
from certigraph.evaluation.jobs import is_url
from certigraph.evaluation.measures import (
    EVALUATION_METHODS,
    MISSING_VALUE,
    GoalPrecision,
    fault_warnings,
    format_fault_share,
    goal_precision,
    run_outcome_of,
)
from certigraph.evaluation.published_matches import (
    PUBLISHED_TITLE,
    FigureRow,
    PublishedMatch,
    RunSetting,
    find_matches,
    view_matches,
)
from certigraph.evaluation.statistics import Interval, MeanEstimate, figure_intervals, pass_hat_k
from certigraph.evaluation.tables import format_interval
from certigraph.runtime.result import ROW_KEY, BenchmarkRow, Result
from certigraph.runtime.run import has_run
from certigraph.runtime.texts import format_count
from certigraph.state.endings import INTERRUPTED, Boundary, Fault, UnknownName
from certigraph.state.records import Record
from certigraph.state.trajectory import Footer

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


# Intervals of a benchmark's figures (metrics), whatever a figure computes.

FigureFunction = Callable[[Sequence[tuple[str, Footer]]], dict[str, float]]
"""Type of the method `figures` of a benchmark, which computes its figures from pairs of task id and footer."""


def has_interval(name: str) -> bool:
    """Return whether a figure has an interval and a row in tables: all except the count and standard errors."""
    return name != "n" and not name.endswith("_stderr")


def intervals_of(
    figures: Mapping[str, float], rows: Sequence[BenchmarkRow], compute: FigureFunction
) -> dict[str, Interval | None]:
    """Compute the 95 % interval of every figure (metric) except counts and standard errors, clustered by task.

    Args:
        figures: the value of each figure over all rows, by name.
        rows: the runs.
        compute: the method `figures` of the benchmark; see `statistics.figure_intervals`.
    """
    wanted = {name: value for name, value in figures.items() if has_interval(name)}
    return figure_intervals(wanted, [(row.id, row.footer) for row in rows], [row.id for row in rows], compute)


def estimate_pass_hat(rows: Sequence[BenchmarkRow]) -> dict[str, MeanEstimate]:
    """Estimate `pass^k`, the probability that k runs of a task all succeed, for several k.

    The values of k are 2, 4, 8, ... and the number of trials that every task has.

    Returns:
        The estimates by name, such as `pass^2`; empty if a task has only one trial.
    """
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        outcomes[row.id].append(row.value >= 1)
    trials = min(map(len, outcomes.values()), default=0)
    powers = (2**n for n in range(1, trials.bit_length()))
    return {f"pass^{k}": pass_hat_k(outcomes, k) for k in sorted({*powers, trials} - {0, 1})}


# The result of an evaluation, and its reader.

UNUSED_SAMPLE_FIELDS = frozenset({"events", "store", "attachments", "messages"})
"""Fields of an Inspect log's samples that are not read, because for thousands of runs they would take gigabytes."""


MIN_FREE_BYTES = 1 << 20
"""Number of free bytes below which a disk counts as full; Inspect's buffer for a log was larger."""


class Evaluation(Record):
    """Result of a graph on a benchmark: the benchmark's official metrics (`figures`) and a row for every run."""

    graph: str
    benchmark: str
    model: str
    roles: dict[str, str] = Field(default_factory=dict)
    """Other models for some roles."""
    swaps: dict[str, str]
    """Operators that replaced the graph's own, by slot."""
    budget: tuple[str, ...] = ()
    """Values of the budget and limits that differ from the defaults, as `KEY=N`."""
    figures: dict[str, float]
    """The benchmark's metrics; with several trials also `pass^k`, the probability that k runs of a task all succeed."""
    intervals: dict[str, Interval | None]
    """95 % interval of each figure, clustered by task; None if there are too few tasks or no spread."""
    rows: tuple[BenchmarkRow, ...]
    log: str
    """Path of the Inspect log, for `inspect view`."""

    @property
    def scored(self) -> tuple[BenchmarkRow, ...]:
        """The runs that count for the figures: those that ended, and not because the world or its data failed."""
        return tuple(row for row in self.rows if row.scored)

    @property
    def n(self) -> int:
        """Number of scored runs."""
        return len(self.scored)

    @property
    def faults(self) -> int:
        """Number of runs in which the world or its data failed; they do not count for the figures."""
        return sum(row.fault for row in self.rows)

    @property
    def tasks(self) -> int:
        """Number of tasks with a scored run; intervals are computed over tasks."""
        return len({row.id for row in self.scored})

    @property
    def trials(self) -> int:
        """Maximum number of runs of one task."""
        return max(Counter(row.id for row in self.rows).values(), default=0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about runs that ended in an error, which the figures leave out or count as failures."""
        return tuple(fault_warnings({self.graph: [row.ending for row in self.rows]}, "certigraph eval --retry LOG"))

    @property
    def endings(self) -> dict[str, int]:
        """Number of runs by ending."""
        return dict(Counter(row.ending for row in self.rows))

    @property
    def goals(self) -> GoalPrecision:
        """Goal precision: share of the runs with the ending `goal` whose task is solved according to the scorer."""
        return goal_precision(run_outcome_of(row.id, row.footer) for row in self.rows)

    @property
    def setting(self) -> RunSetting:
        """Setting of the scored runs, for which there may be published figures."""
        return RunSetting(
            graph=self.graph,
            swaps=self.swaps,
            benchmark=self.benchmark,
            models={self.model, *self.roles.values()},
            tasks={row.id for row in self.scored},
            limited=bool(self.budget),
        )

    @property
    def published(self) -> tuple[PublishedMatch, ...]:
        """Published figures of the same method and benchmark, each with what is different in these runs."""
        return find_matches(self.setting, self.figures.keys())

    @property
    def failed(self) -> tuple[BenchmarkRow, ...]:
        """Runs that ended in an error or were interrupted; `certigraph eval --retry LOG` repeats only these."""
        return tuple(row for row in self.rows if row.ending.startswith(("error:", INTERRUPTED)))


def read_evaluation(log: Path | str) -> Evaluation:
    """Read an evaluation from an Inspect log.

    Raises:
        Fault: the file is not the log of an evaluation, or no run was evaluated.
    """
    return evaluation_of(read_log(log, without=UNUSED_SAMPLE_FIELDS))


def read_log(log: Path | str, *, without: Set[str] = frozenset()) -> "EvalLog":
    """Read an Inspect log that certigraph wrote.

    Args:
        log: a file, or its URL.
        without: fields of the samples that are not read.

    Raises:
        Fault: the file is missing, is not an Inspect log, or is the log of a task that is not certigraph's.
    """
    from inspect_ai.log import read_eval_log

    if not is_url(str(log)) and not Path(log).is_file():
        unbegun = "an evaluation that was stopped in its first seconds has none: give its command again"
        fix = "else a file that `certigraph eval` wrote, as in --retry runs/NAME.eval"
        raise Fault("data", f"no log at {log}; {unbegun}, {fix}")
    try:
        content = read_eval_log(str(log), exclude_fields={*without})
    except Exception as error:  # the reader tries several formats, each with exceptions of other types
        raise Fault("data", f"{log} is no log of inspect's ({error}): give a file that ends in .eval") from error
    if "graph" not in (content.eval.metadata or {}):
        raise Fault("data", f"{log} is of the task {content.eval.task!r}, not certigraph's: use `inspect eval-retry`")
    return content


def evaluation_of(log: "EvalLog") -> Evaluation:
    """Build the result of an evaluation from its Inspect log.

    Raises:
        Fault: no run was evaluated; the message has the reason and the command that finishes the evaluation.
    """
    if not log.results or not log.samples:
        reason, boundary = _explain_missing_results(log)
        raise Fault(boundary, f"nothing was evaluated: {reason}; resume with: certigraph eval --retry {log.location}")
    metadata = log.eval.metadata or {}
    rows = tuple(
        BenchmarkRow.model_validate(sample.scores[ROW_KEY].metadata) for sample in log.samples if sample.scores
    )
    scored = [row for row in rows if row.scored]
    figures = {name: float(metric.value) for name, metric in log.results.scores[0].metrics.items()}
    estimates = estimate_pass_hat(scored)
    return Evaluation(
        graph=metadata["graph"],
        benchmark=metadata["benchmark"],
        model=metadata["model"] or log.samples[0].output.model,
        roles=metadata.get("roles", {}),
        swaps=metadata["swaps"],
        budget=tuple(metadata["budget"]),
        figures={**figures, **{name: estimate.mean for name, estimate in estimates.items()}},
        intervals={
            **_intervals(log, figures, scored),
            **{name: estimate.interval for name, estimate in estimates.items()},
        },
        rows=rows,
        log=log.location,
    )


def _explain_missing_results(log: "EvalLog") -> tuple[str, Boundary]:
    """Explain why a log has no results. Inspect reports its own errors, but not a full disk."""
    if log.error:
        return log.error.message, "operator"
    folder = Path(log.location.removeprefix("file://")).parent
    if folder.is_dir() and shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        return f"no space is left on the disk of {folder}: free space", "data"
    return f"the log ends with the status {log.status!r}, as after a crash", "operator"


def _intervals(
    log: "EvalLog", figures: Mapping[str, float], rows: Sequence[BenchmarkRow]
) -> dict[str, Interval | None]:
    metadata = log.eval.metadata or {}
    try:  # the log may be somebody else's, so that no code which it names is imported
        benchmark = load_benchmark(metadata["benchmark"], log.eval.task_args.get("data") or None, import_own=False)
    except UnknownName:
        return dict.fromkeys(filter(has_interval, figures))
    return intervals_of(figures, rows, benchmark.figures)


# The table that `certigraph eval` prints.

MAX_REASONS = 3
"""Maximum number of different error messages in the output; `certigraph report RUN` shows the message of a run."""

MAX_MESSAGE_CHARACTERS = 300
"""Maximum number of characters of an error message in the output."""


def print_evaluations(done: Sequence[Evaluation], *, as_json: bool) -> None:
    """Print the figures (metrics) of evaluations as a table, with two columns for each, or as one JSON object."""
    if as_json:
        typer.echo(json.dumps(_to_json(done)))
        return
    plain = Console(highlight=False, soft_wrap=True, emoji=False)
    for evaluation in done:
        about = f"{evaluation.graph} on {evaluation.benchmark}, model {describe_model(evaluation.model)}"
        for line in filter(None, (about, describe_error_rates(evaluation.model, evaluation.roles))):
            plain.print(line, markup=False)
    table = Table("figure", box=None)
    for evaluation in done:
        table.add_column(evaluation.benchmark, justify="right")
        table.add_column("95 % interval")
    for name in dict.fromkeys(name for evaluation in done for name in evaluation.figures if has_interval(name)):
        table.add_row(name, *(cell for evaluation in done for cell in _figure_cells(evaluation, name)))
    table.add_row("goal precision", *(cell for evaluation in done for cell in _goal_precision_cells(evaluation.goals)))
    table.add_row("n", *(cell for evaluation in done for cell in (str(evaluation.n), _format_counts(evaluation))))
    faults = [format_fault_share(evaluation.faults, len(evaluation.rows)) for evaluation in done]
    table.add_row("faults", *(cell for share in faults for cell in (share, "runs that no figure counts")))
    Console().print(table)
    for evaluation in done:
        _print_published(evaluation)
    for evaluation in done:
        endings = ", ".join(f"{count} {ending}" for ending, count in evaluation.endings.items())
        typer.echo(f"{evaluation.benchmark}, {evaluation.model}: {endings}")
        for warning in evaluation.warnings:
            plain.print(f"warning: {warning}", markup=False)
        for reason in _failure_messages(evaluation):
            plain.print(f"  {reason}", markup=False)
        label = "resume or repeat what failed: certigraph eval --retry" if evaluation.failed else "log:"
        plain.print(f"{label} {evaluation.log}", style="dim", markup=False)


def _figure_cells(evaluation: Evaluation, name: str) -> tuple[str, str]:
    if name not in evaluation.figures:
        return "", ""
    if isnan(evaluation.figures[name]):
        return MISSING_VALUE, "no run that counts"
    low, high = evaluation.intervals.get(name) or (None, None)
    interval = format_interval(low, high, ".1%", missing="too few tasks or no spread")
    return f"{evaluation.figures[name]:.1%}", interval


def _print_published(evaluation: Evaluation) -> None:
    rows = [
        FigureRow(
            name,
            _figure_cells(evaluation, name)[0],
            [m for m in evaluation.published if m.figure.metric == name],
        )
        for name in evaluation.figures
    ]
    if view := view_matches(rows, "figure"):
        console = Console(highlight=False)
        console.print(f"\n{evaluation.benchmark}, {PUBLISHED_TITLE}:", markup=False)
        console.print(*view.terminal_tables(), sep="\n")


def _goal_precision_cells(goals: GoalPrecision) -> tuple[str, str]:
    if goals.value is None:
        return MISSING_VALUE, ""
    return f"{goals.value:.1%}", f"{goals.low:.1%} to {goals.high:.1%} of {format_count(goals.n, 'run')} ending goal"


def _failure_messages(evaluation: Evaluation) -> Iterator[str]:
    """Yield the error messages of failed runs with their counts, the most frequent first, and the runs that wait."""
    folders = {row.run: Path(evaluation.log).parent / row.run for row in evaluation.failed if row.ending == INTERRUPTED}
    waiting = {run: folder for run, folder in folders.items() if has_run(folder) and Result(folder).questions}
    failed = [row for row in evaluation.failed if row.run not in waiting]
    messages = Counter(" ".join((row.footer.message or row.ending).split())[:MAX_MESSAGE_CHARACTERS] for row in failed)
    yield from (f"{count} x {message}" for message, count in messages.most_common(MAX_REASONS))
    for folder in waiting.values():
        yield f"waits for an answer of a person: certigraph resume {shlex.quote(str(folder))}"


def _format_counts(evaluation: Evaluation) -> str:
    trials = f", {evaluation.trials} trials each" if evaluation.trials > 1 else ""
    return f"runs, {format_count(evaluation.tasks, 'task')}{trials}"


def _to_json(done: Sequence[Evaluation]) -> dict[str, object]:
    first, *others = done
    about = {
        "graph": first.graph,
        "benchmark": first.benchmark,
        "model": first.model,
        "language_model": not is_scripted(first.model),
        "statistics": EVALUATION_METHODS,
    }
    other_figures = {other.benchmark: _figures_to_json(other) for other in others}
    return {**about, **_figures_to_json(first), **({"beside": other_figures} if other_figures else {})}


def _figures_to_json(evaluation: Evaluation) -> dict[str, object]:
    """Convert the figures and counts of one evaluation for the JSON output."""
    published = evaluation.published
    return {
        **{name: None if isnan(value) else value for name, value in evaluation.figures.items()},
        "n": evaluation.n,
        "runs": len(evaluation.rows),
        "faults": evaluation.faults,
        "tasks": evaluation.tasks,
        "trials": evaluation.trials,
        "goal_precision": evaluation.goals.model_dump(),
        "endings": evaluation.endings,
        "intervals": evaluation.intervals,
        "log": evaluation.log,
        **({"published": [match.model_dump(mode="json") for match in published]} if published else {}),
        **({"warnings": list(evaluation.warnings)} if evaluation.warnings else {}),
    }
