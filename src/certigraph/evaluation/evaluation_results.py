"""Results of evaluations under Inspect: metrics with intervals, and a row for each run.

`Evaluation` is the result, and `read_evaluation` reads it from an Inspect log. What is printed of it is its
`comparison`, a comparison of one method. `compare_logs` compares several. The code calls the metrics of a benchmark
figures.
"""

import json
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import Field
from rich.console import Console

from certigraph.adapters.benchmarks import load_benchmark, split_name
from certigraph.adapters.models.chat_models import is_scripted
from certigraph.evaluation.comparison import MODEL_SEPARATOR, ComparisonOutline
from certigraph.evaluation.comparison_summary import (
    REPEAT_ADVICE,
    Comparison,
    FigureEstimate,
    add_published,
    comparison_of,
    estimate_figures,
    figure_estimate,
    has_interval,
    shared_tasks,
)
from certigraph.evaluation.jobs import is_url
from certigraph.evaluation.measures import (
    EVALUATION_METHODS,
    ComparisonRow,
    GoalPrecision,
    RunOutcome,
    fault_warnings,
    goal_precision,
)
from certigraph.evaluation.published_matches import PublishedMatch, RunSetting, find_matches
from certigraph.evaluation.result_tables import print_comparison
from certigraph.evaluation.statistics import Interval
from certigraph.runtime.result import ROW_KEY, BenchmarkRow, Result, is_solved
from certigraph.runtime.run import has_run
from certigraph.state.endings import INTERRUPTED, Boundary, Fault, UnknownName
from certigraph.state.records import Record

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


# The result of an evaluation, and its reader.

RETRY_COMMAND = "certigraph eval --retry LOG"
"""Command that repeats the failed runs of an evaluation, in warnings."""

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
        return tuple(fault_warnings({self.graph: [row.ending for row in self.rows]}, RETRY_COMMAND))

    @property
    def method(self) -> str:
        """Name of the method in tables: the graph, with the operators that replaced its own."""
        return " ".join([self.graph, *(f"{slot}={operator}" for slot, operator in self.swaps.items())])

    @property
    def comparison(self) -> Comparison:
        """The evaluation as a comparison of one method, by which it is printed."""
        return compare_evaluations({self.method: self}, RETRY_COMMAND)

    def comparison_rows(self, method: str) -> Iterator[ComparisonRow]:
        """Yield the runs that ended as rows of a comparison; a run does not say which role read how many tokens."""
        for row in self.rows:
            if row.ending != INTERRUPTED:
                usage = row.footer.usage
                yield ComparisonRow(
                    method=method,
                    task=row.id,
                    trial=row.trial,
                    run=row.run,
                    ending=row.ending,
                    score=100 * row.value,
                    solved=row.value >= 1,
                    scored=row.footer.scores is not None,
                    steps=row.steps,
                    prompt_tokens=usage.input_tokens,
                    roles={},
                    **usage.model_dump(exclude={"node", "input_tokens"}),
                )

    @property
    def endings(self) -> dict[str, int]:
        """Number of runs by ending."""
        return dict(Counter(row.ending for row in self.rows))

    @property
    def goals(self) -> GoalPrecision:
        """Goal precision: share of the runs with the ending `goal` whose task is solved according to the scorer."""
        return goal_precision(RunOutcome(row.id, row.ending, is_solved(row.footer.scores)) for row in self.rows)

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
        raise Fault("data", f"{log} is not a log of inspect's ({error}): give a file that ends in .eval") from error
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
    runs = [(row.id, row.footer) for row in rows if row.scored]
    figures = {name: float(metric.value) for name, metric in log.results.scores[0].metrics.items()}
    try:  # the log may be somebody else's, so that no code which it names is imported
        data = log.eval.task_args.get("data") or None
        benchmark = load_benchmark(metadata["benchmark"], data, import_own=False)
    except UnknownName:
        estimates = estimate_figures("", runs, lambda runs: {})  # only pass^k
    else:
        estimates = estimate_figures("", runs, benchmark.figures)
    known = {one.figure: nan if one.value is None else one.value for one in estimates}
    bounds = {one.figure: None if one.low is None or one.high is None else (one.low, one.high) for one in estimates}
    return Evaluation(
        graph=metadata["graph"],
        benchmark=metadata["benchmark"],
        model=metadata["model"] or log.samples[0].output.model,
        roles=metadata.get("roles", {}),
        swaps=metadata["swaps"],
        budget=tuple(metadata["budget"]),
        figures={**figures, **{name: value for name, value in known.items() if name not in figures}},
        intervals={**dict.fromkeys(filter(has_interval, figures)), **bounds},
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


# Several evaluations as one comparison.

MAX_SHOWN_TASKS = 5
"""Maximum number of tasks in a message about tasks that two evaluations do not share."""


def compare_logs(paths: Sequence[Path]) -> Comparison:
    """Compare several evaluations of one benchmark on the same tasks; the first one is the reference.

    Args:
        paths: Inspect logs that `certigraph eval` wrote.

    Raises:
        Fault: a file is not a log or is given twice, or the evaluations are of different benchmarks or tasks.
    """
    resolved = [path.resolve() for path in paths]
    if twice := [path for path, target in zip(paths, resolved, strict=True) if resolved.count(target) > 1]:
        raise Fault("data", f"{twice[0]} is given twice: give each log once")
    evaluations = [read_evaluation(path) for path in paths]
    first = evaluations[0]
    for path, other in zip(paths[1:], evaluations[1:], strict=True):
        _check_same_tasks(paths[0], first, path, other)
    return compare_evaluations(dict(zip(_evaluation_names(evaluations), evaluations, strict=True)))


def compare_evaluations(by_name: Mapping[str, Evaluation], repeat: str = REPEAT_ADVICE) -> Comparison:
    """Compute the comparison of evaluations of one benchmark on the same tasks, by the names of the methods.

    `repeat` is what warnings name as the way to run failed runs again.
    """
    first = next(iter(by_name.values()))
    models = dict.fromkeys(model for one in by_name.values() for model in (one.model, *one.roles.values()))
    tasks = tuple(dict.fromkeys(row.id for row in first.rows))
    outline = ComparisonOutline(first.benchmark, MODEL_SEPARATOR.join(models), tuple(by_name), tasks, first.trials)
    rows = [row for name, one in by_name.items() for row in one.comparison_rows(name)]
    certifying = [name for name, one in by_name.items() if any(row.planned for row in one.rows)]
    found = comparison_of(outline, rows, repeat, certifying)
    shared = {*shared_tasks(outline, rows)}
    figures = tuple(figure for name, one in by_name.items() for figure in _figures_over(shared, name, one))
    settings = {name: one.setting for name, one in by_name.items()}
    return add_published(found.model_copy(update={"figures": figures}), settings)


def _figures_over(tasks: Set[str], method: str, one: Evaluation) -> Iterable[FigureEstimate]:
    """Estimate the official figures of an evaluation over some of its tasks; none if its benchmark is not loaded."""
    if tasks == {row.id for row in one.scored}:
        values = {name: value for name, value in one.figures.items() if has_interval(name)}
        return [figure_estimate(method, name, value, one.intervals.get(name)) for name, value in values.items()]
    try:  # the log may be somebody else's
        benchmark = load_benchmark(one.benchmark, import_own=False)
    except UnknownName:
        return []
    return estimate_figures(method, [(row.id, row.footer) for row in one.scored if row.id in tasks], benchmark.figures)


def _evaluation_names(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    # Graphs with their swaps, and model, configuration and budget if these differ; equal names are numbered.
    others = [(one.model, one.benchmark, " ".join(one.budget) or "usual budget") for one in evaluations]
    differ = [len(set(values)) > 1 for values in zip(*others, strict=True)]
    names = []
    for one, parts in zip(evaluations, others, strict=True):
        names.append(", ".join([one.method, *(part for part, shown in zip(parts, differ, strict=True) if shown)]))
    return tuple(name if names.count(name) == 1 else f"{name} no. {n}" for n, name in enumerate(names, 1))


def _check_same_tasks(path: Path, first: Evaluation, other_path: Path, other: Evaluation) -> None:
    if split_name(first.benchmark)[0] != split_name(other.benchmark)[0]:
        reason = f"{path} is about {first.benchmark}, {other_path} about {other.benchmark}"
        raise Fault("data", f"{reason}: compare evaluations of one benchmark")
    one, two = ({(row.id, row.trial) for row in evaluation.rows} for evaluation in (first, other))
    differing = []
    for log, tasks in ((path, sorted(one - two)), (other_path, sorted(two - one))):
        names = [f"{task} trial {trial}" if trial else task for task, trial in tasks]
        more = f" and {len(names) - MAX_SHOWN_TASKS} more" if len(names) > MAX_SHOWN_TASKS else ""
        differing += [f"only in {log}: {', '.join(names[:MAX_SHOWN_TASKS])}{more}"] if names else []
    if differing:
        fix = "evaluate both with the same --split, --limit, --task and --trials"
        raise Fault("data", f"these were run on different tasks and cannot be compared ({'; '.join(differing)}): {fix}")


# What `certigraph eval` prints.

MAX_REASONS = 3
"""Maximum number of different error messages in the output; `certigraph report RUN` shows the message of a run."""

MAX_MESSAGE_CHARACTERS = 300
"""Maximum number of characters of an error message in the output."""


def print_evaluations(done: Sequence[Evaluation], *, as_json: bool) -> None:
    """Print evaluations one after the other, as comparisons of one method, or all of them as one JSON object."""
    if as_json:
        typer.echo(json.dumps(_to_json(done)))
        return
    console = Console(highlight=False, soft_wrap=True, emoji=False)
    for evaluation in done:
        print_comparison(evaluation.comparison)
        for line in _list_failures(evaluation):
            console.print(line, markup=False)
        label = "resume or repeat what failed: certigraph eval --retry" if evaluation.failed else "log:"
        console.print(f"{label} {evaluation.log}", style="dim", markup=False)


def _list_failures(evaluation: Evaluation) -> Iterator[str]:
    """Yield the error messages of failed runs with their counts, the most frequent first, and the runs that wait."""
    folders = {row.run: Path(evaluation.log).parent / row.run for row in evaluation.failed if row.ending == INTERRUPTED}
    waiting = {run: folder for run, folder in folders.items() if has_run(folder) and Result(folder).questions}
    failed = [row for row in evaluation.failed if row.run not in waiting]
    messages = Counter(" ".join((row.footer.message or row.ending).split())[:MAX_MESSAGE_CHARACTERS] for row in failed)
    yield from (f"  {count} x {message}" for message, count in messages.most_common(MAX_REASONS))
    for folder in waiting.values():
        yield f"  waits for an answer of a person: certigraph resume {shlex.quote(str(folder))}"


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
