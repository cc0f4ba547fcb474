"""Commands `compare` and `ablate`: progress messages, execution and output; `ablate` as a Python function."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from certigraph.adapters.benchmarks import is_own, load_benchmark, split_name
from certigraph.adapters.models.chat_models import check_model_available, describe_models, is_scripted
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.evaluation.comparison import (
    COMPARE_COMMAND,
    DEFAULT_OPTIONS,
    MODEL_SEPARATOR,
    CellListener,
    ComparedMethod,
    ComparisonCell,
    ComparisonOptions,
    ComparisonOutline,
    ComparisonPlan,
    build_plan,
    cells_of,
    compare,
    comparison_rows_of,
    is_finished,
    read_plan,
    save_or_check_plan,
    unfinished_cells,
)
from certigraph.evaluation.comparison_report import (
    COMPARISON_PAGE,
    ComparisonResults,
    comparison_line,
    comparison_to_json,
    published_view,
    terminal_tables,
    write_comparison_report,
)
from certigraph.evaluation.comparison_summary import (
    Comparison,
    ReplayEstimate,
    ablation_methods,
    add_published,
    comparison_of,
)
from certigraph.evaluation.evaluation_results import Evaluation, read_evaluation
from certigraph.evaluation.measures import ComparisonRow, comparison_row_of
from certigraph.evaluation.published.matching import PUBLISHED_TITLE
from certigraph.evaluation.tool_worlds import benchmark_name, check_evaluable, check_methods
from certigraph.runtime.registry import GRAPHS, check_encoders, check_priced, check_retrieval, load_settings
from certigraph.runtime.texts import format_count, format_duration, shorten_text
from certigraph.state.records import INTERRUPTED, Fault, Task
from certigraph.state.trajectory import Trajectory

# Estimates of the time that is left.


def seconds_per_call(rows: Sequence[ComparisonRow]) -> float | None:
    """Compute wall-clock seconds per model call over all runs; None if there was no call."""
    calls = sum(row.calls for row in rows)
    return sum(row.seconds for row in rows) / calls if calls else None


def seconds_left(
    rows: Sequence[ComparisonRow], waiting: Iterable[str], budget: int, pace: float | None
) -> float | None:
    """Estimate how many seconds the unfinished runs will take; None if `pace` is None.

    Args:
        rows: the finished runs. A run is assumed to make as many calls as the mean of its method's finished runs, or of
            all finished runs if its method has none.
        waiting: the method of each unfinished run.
        budget: number of calls that is assumed for a run if no run has finished.
        pace: seconds per model call.
    """
    if pace is None:
        return None
    return pace * sum(n * _expected_calls(rows, method, budget) for method, n in Counter(waiting).items())


def format_time_left(seconds: float | None) -> str:
    """Format the time that is left: "about 1 h 40 min left"."""
    if seconds is None:
        return "time left unknown"
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute left"
    hours, minutes = divmod(minutes, 60)
    return f"about {hours} h {minutes:02} min left" if hours else f"about {minutes} min left"


def _expected_calls(rows: Sequence[ComparisonRow], method: str, budget: int) -> float:
    counts = [row.calls for row in rows if row.method == method] or [row.calls for row in rows]
    return sum(counts) / len(counts) if counts else budget


# Progress messages: the amount of work, the outcome of each run, and the time that is left.

MAX_MESSAGE_CHARACTERS = 200
"""Maximum number of characters of a failed run's message."""


LONG_RUN_SECONDS = 0.5
"""Duration in seconds from which the outcome of a run is always printed; of shorter runs only some are."""

MAX_SILENT_SECONDS = 10.0
"""Maximum number of seconds between two printed outcomes."""


@contextmanager
def show_progress(
    plan: ComparisonPlan,
    waiting: Sequence[ComparisonCell],
    rows: Sequence[ComparisonRow],
    *,
    at_once: int = 1,
    silent: bool = False,
) -> Iterator[CellListener]:
    """Yield a listener that prints the progress of a comparison.

    `waiting` are the cells (method, task and trial) whose runs are not finished; `rows` are those of finished runs.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)
    console.print(format_opening(plan, waiting, rows, at_once), markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as progress:
        yield _ProgressListener(plan, waiting, rows, progress)


def format_opening(
    plan: ComparisonPlan, waiting: Sequence[ComparisonCell], rows: Sequence[ComparisonRow], at_once: int = 1
) -> str:
    """Format the first line of the progress: models, number of runs and calls, and the time that is left."""
    cells = len(plan.methods) * len(plan.tasks) * plan.trials
    size = f"{format_count(len(plan.methods), 'method')} x {format_count(len(plan.tasks), 'task')}"
    size += f" x {plan.trials} trials" if plan.trials > 1 else ""
    line = f"{format_count(cells, 'run')} ({size}): {cells - len(waiting)} done"
    if not is_scripted(plan.model):
        most = f"at most {format_count(plan.budget.calls, 'call')} each"
        line = f"{line}, {most}, at most {format_count(len(waiting) * plan.budget.calls, 'call')} to go"
    line = f"{describe_models(plan.model, plan.roles)}; {line}"
    pace = seconds_per_call(rows)
    return line + (f", {_format_left(plan, waiting, rows, pace and pace / at_once)}" if rows and waiting else "")


class _ProgressListener:
    def __init__(
        self, plan: ComparisonPlan, waiting: Sequence[ComparisonCell], rows: Sequence[ComparisonRow], progress: Progress
    ) -> None:
        self.plan, self.waiting, self.rows, self.progress = plan, list(waiting), list(rows), progress
        self.bar = progress.add_task(_cell_label(waiting[0]) if waiting else "", total=len(waiting))
        self.began = self.printed = time.monotonic()
        self.calls = 0

    def __call__(self, cell: ComparisonCell, trajectory: Trajectory) -> None:
        self.waiting.remove(cell)
        row = comparison_row_of(cell.method.name, cell.task, trajectory, cell.trial)
        self.calls += row.calls
        if is_finished(trajectory):
            self.rows.append(row)
        if self._should_print(row, trajectory):
            self.printed = time.monotonic()
            self.progress.console.print(f"{format_outcome(row, trajectory)} · {self._left()}", markup=False)
        self.progress.update(self.bar, advance=1, description=_cell_label(self.waiting[0]) if self.waiting else "")

    def _should_print(self, row: ComparisonRow, trajectory: Trajectory) -> bool:
        # Long runs, failed runs and the last one; of short ones, which may be thousands, one every MAX_SILENT_SECONDS.
        late = time.monotonic() - self.printed > MAX_SILENT_SECONDS
        return row.seconds >= LONG_RUN_SECONDS or late or not is_finished(trajectory) or not self.waiting

    def _left(self) -> str:
        pace = (time.monotonic() - self.began) / self.calls if self.calls else None
        return _format_left(self.plan, self.waiting, self.rows, pace)


def format_outcome(row: ComparisonRow, trajectory: Trajectory) -> str:
    """Format the outcome of a run on one line, with the error message if the run will be tried again."""
    tokens = f"{row.prompt_tokens:,} + {row.output_tokens:,} tokens"
    figures = f"score {row.score:.4g}, {format_count(row.calls, 'call')}, {tokens}, {format_duration(row.seconds)}"
    number = f" trial {row.trial}" if row.trial else ""
    line = f"{row.method} {row.task}{number}: {row.ending}, {figures}"
    if is_finished(trajectory):
        return line
    message = trajectory.footer.message if trajectory.footer else "it waits for an answer"
    return f"{line}; tried again next time: {shorten_text(' '.join(message.split()), MAX_MESSAGE_CHARACTERS)}"


def _format_left(
    plan: ComparisonPlan, waiting: Sequence[ComparisonCell], rows: Sequence[ComparisonRow], pace: float | None
) -> str:
    if not waiting:
        return "none left"
    seconds = seconds_left(rows, [cell.method.name for cell in waiting], plan.budget.calls, pace)
    return f"{len(waiting)} to go, {format_time_left(seconds)}" + (
        f" at {format_duration(pace)} a call" if pace is not None else ""
    )


def _cell_label(cell: ComparisonCell) -> str:
    return f"{cell.method.name} {cell.task}" + (f" trial {cell.trial}" if cell.trial else "")


# Comparison of Inspect logs that `certigraph eval` wrote.

MAX_SHOWN_TASKS = 5
"""Maximum number of tasks in a message about tasks that two evaluations do not share."""


def compare_logs(paths: Sequence[Path]) -> Comparison:
    """Compare several evaluations of one benchmark on the same tasks; the first one is the reference.

    Args:
        paths: Inspect logs that `certigraph eval` wrote.

    Raises:
        Fault: a file is not a log or is given twice, or the evaluations are of different benchmarks or tasks.
    """
    _check_distinct(paths)
    evaluations = [read_evaluation(path) for path in paths]
    names = _evaluation_names(evaluations)
    rows = [row for name, one in zip(names, evaluations, strict=True) for row in _evaluation_rows(name, one)]
    first = evaluations[0]
    for path, other in zip(paths[1:], evaluations[1:], strict=True):
        _check_same_tasks(paths[0], first, path, other)
    models = MODEL_SEPARATOR.join(dict.fromkeys(one.model for one in evaluations))
    tasks = tuple(dict.fromkeys(row.id for row in first.rows))
    outline = ComparisonOutline(first.benchmark, models, names, tasks, first.trials)
    settings = {name: one.setting for name, one in zip(names, evaluations, strict=True)}
    return add_published(comparison_of(outline, rows), outline, settings)


def _evaluation_names(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    # Graphs with their swaps, and model, configuration and budget if these differ; equal names are numbered.
    others = [(one.model, one.benchmark, " ".join(one.budget) or "usual budget") for one in evaluations]
    differ = [len(set(values)) > 1 for values in zip(*others, strict=True)]
    more = [[part for part, shown in zip(parts, differ, strict=True) if shown] for parts in others]
    names = [", ".join([_method_name(one), *rest]) for one, rest in zip(evaluations, more, strict=True)]
    return tuple(name if names.count(name) == 1 else f"{name} no. {n}" for n, name in enumerate(names, 1))


def _method_name(one: Evaluation) -> str:
    return " ".join([one.graph, *(f"{slot}={operator}" for slot, operator in one.swaps.items())])


def _evaluation_rows(name: str, one: Evaluation) -> list[ComparisonRow]:
    return [
        ComparisonRow(
            method=name,
            task=row.id,
            trial=row.trial,
            ending=row.ending,
            score=100 * row.value,
            solved=row.value >= 1,
            scored=row.footer.scores is not None,
            run=row.run,
            usd=row.footer.usage.usd,
            calls=row.footer.usage.calls,
            prompt_tokens=row.footer.usage.input_tokens,
            cached_tokens=row.footer.usage.cached_tokens,
            output_tokens=row.footer.usage.output_tokens,
            steps=row.steps,
            seconds=row.seconds,
            roles={},
        )
        for row in one.rows
        if row.ending != INTERRUPTED
    ]


def _check_distinct(paths: Sequence[Path]) -> None:
    resolved = [path.resolve() for path in paths]
    if twice := [path for path, target in zip(paths, resolved, strict=True) if resolved.count(target) > 1]:
        raise Fault("data", f"{twice[0]} is given twice: give each log once")


def _check_same_tasks(path: Path, first: Evaluation, other_path: Path, other: Evaluation) -> None:
    if split_name(first.benchmark)[0] != split_name(other.benchmark)[0]:
        reason = f"{path} is about {first.benchmark}, {other_path} about {other.benchmark}"
        raise Fault("data", f"{reason}: compare evaluations of one benchmark")
    one, two = {(r.id, r.trial) for r in first.rows}, {(r.id, r.trial) for r in other.rows}
    if one == two:
        return
    parts = [(path, sorted(one - two)), (other_path, sorted(two - one))]
    differing = "; ".join(f"only in {log}: {_list_tasks(tasks)}" for log, tasks in parts if tasks)
    fix = "evaluate both with the same --split, --limit, --task and --trials"
    raise Fault("data", f"these were run on different tasks and cannot be compared ({differing}): {fix}")


def _list_tasks(tasks: Sequence[tuple[str, int]]) -> str:
    names = [f"{task} trial {trial}" if trial else task for task, trial in tasks]
    return ", ".join(names[:MAX_SHOWN_TASKS]) + (
        f" and {len(names) - MAX_SHOWN_TASKS} more" if len(names) > MAX_SHOWN_TASKS else ""
    )


# Execution of the command.

PIPED_WIDTH = 200
"""Width of a table that is written to a file or pipe, in columns."""


class ComparisonJob(NamedTuple):
    """Plan of a comparison, with the context and the benchmark that its runs need."""

    plan: ComparisonPlan
    context: Context
    benchmark: Benchmark | None
    """The loaded benchmark; None: it is loaded when a run is started."""
    command: str = COMPARE_COMMAND
    """The command that continues the comparison, for messages."""


class Choice(NamedTuple):
    """Selection of tasks, and number of trials of each.

    Tasks are chosen by `ids`, or by `split` and `limit`, the maximum number of tasks (0: all). With a limit the first
    tasks are taken, or with `stratify` tasks spread over difficulty, length and kind.
    """

    ids: Sequence[str] = ()
    split: str = ""
    limit: int = 0
    trials: int = 1
    stratify: bool = False


def build_job(
    methods: Sequence[ComparedMethod], benchmark: str | Benchmark, choice: Choice, context: Context
) -> ComparisonJob:
    """Build the comparison that the options of a command line describe; `benchmark` may be an object.

    Raises:
        UnknownName: a benchmark, split or task is unknown, or the runs would need a person or undo nothing.
        Fault: the budget limits the dollars of a run, and the price of a model is not known.
    """
    check_priced((context.model, *context.roles.values()), context.budget)
    benchmark = benchmark_name(benchmark, context.data)
    live = load_benchmark(benchmark, context.data)
    for method in methods:
        check_encoders(method.operators)
        check_retrieval(method.operators, live)
    check_methods(methods, live)
    models = (context.model, *context.roles.values()) if any(method.graph in GRAPHS for method in methods) else ()
    check_evaluable(live, models, episodes=len(methods) * choice.trials)
    for task in choice.ids:
        live.task(task)
    chosen = choice.ids or [task.id for task in _tasks_of_split(live, choice)]
    return ComparisonJob(
        build_plan(benchmark, methods, chosen[: choice.limit or None], context, choice.trials), context, live
    )


def _tasks_of_split(live: Benchmark, choice: Choice) -> Sequence[Task]:
    tasks = live.tasks(choice.split)
    if not (choice.stratify and choice.limit):
        return tasks
    from certigraph.evaluation.inspect_tasks import select_stratified_tasks

    return select_stratified_tasks(tasks, choice.limit)


def load_job(folder: Path, *, report_only: bool = False) -> ComparisonJob:
    """Load the comparison that a folder holds, so that it can be continued or reported.

    Args:
        folder: the folder of the comparison.
        report_only: do not load a user's own benchmark, because a report needs none.

    Raises:
        Fault: the folder holds no comparison, or it was started on another machine.
    """
    plan, context = read_plan(folder), load_settings(folder)
    for name in {context.model, *context.roles.values()}:
        check_model_available(name)
    keeps_out = report_only and is_own(plan.benchmark)
    return ComparisonJob(plan, context, None if keeps_out else load_benchmark(plan.benchmark, context.data))


def print_logs(paths: Sequence[Path], *, as_json: bool) -> None:
    """Compare evaluations by their Inspect logs and print the tables. Raises Fault as `compare_logs` does."""
    print_tables(compare_logs(paths), as_json=as_json)


def finish_comparison(job: ComparisonJob, folder: Path, *, at_once: int, report_only: bool, as_json: bool) -> int:
    """Execute the unfinished runs of a comparison, unless `report_only` is set, and print the report.

    Returns:
        The exit status: 1 while runs are unfinished, else 0.
    """
    if not report_only:
        run_comparison(job, folder, at_once=at_once, silent=as_json)
    return print_comparison(job, folder, as_json=as_json)


def run_comparison(
    job: ComparisonJob,
    folder: Path,
    *,
    at_once: int = 1,
    silent: bool = False,
    part: ComparisonOptions = DEFAULT_OPTIONS,
) -> None:
    """Execute the unfinished runs of a comparison and print the progress. Raises the same errors as `compare`."""
    plan, context, benchmark, command = job
    benchmark = benchmark or load_benchmark(plan.benchmark, context.data)
    save_or_check_plan(plan, folder, command)
    cells = cells_of(plan, folder)
    waiting = unfinished_cells(cells)
    rows = comparison_rows_of(plan, folder) if 0 < len(waiting) < len(cells) else []
    with show_progress(plan, waiting, rows, at_once=at_once, silent=silent) as listener:
        compare(plan, context, benchmark, folder, listener=listener, at_once=at_once, command=command, part=part)


def print_comparison(job: ComparisonJob, folder: Path, *, as_json: bool) -> int:
    """Write the report of a comparison, print its tables and return the exit status, which is 1 while runs are left."""
    findings = write_comparison_report(job.plan, folder)
    print_tables(findings.comparison, findings.estimates, as_json=as_json)
    if not as_json:
        Console(highlight=False, soft_wrap=True).print(f"report: {folder / COMPARISON_PAGE}", style="dim", markup=False)
    return 1 if findings.comparison.left else 0


def print_tables(comparison: Comparison, estimates: Sequence[ReplayEstimate] = (), *, as_json: bool) -> None:
    """Print a comparison as tables or as one JSON object."""
    if as_json:
        typer.echo(json.dumps(comparison_to_json(comparison, estimates), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)
    console.print(comparison_line(comparison), *terminal_tables(comparison, estimates), sep="\n\n", markup=False)
    if view := published_view(comparison):
        console.print(f"\n{PUBLISHED_TITLE}:")
        console.print(*view.terminal_tables(), sep="\n")
    for warning in comparison.warnings:
        console.print(f"\nwarning: {warning}", markup=False, soft_wrap=True)


# The Python function for ablations.

ALL_TASKS = Choice()
"""Every task of the benchmark's default split, one trial each."""


def ablate(
    graph: str = "sdp",
    benchmark: str | Benchmark = "blocksworld",
    swaps: Sequence[str] = (),
    choice: Choice = ALL_TASKS,
    *,
    context: Context | None = None,
    out: Path | str = "ablation",
    at_once: int = 1,
) -> ComparisonResults:
    """Run a graph and one variant for each swap on the same tasks, trials and budget, and write the report.

    Args:
        graph: the name of a graph, or a user's own graph: `mypackage.graphs:build`.
        benchmark: the name of a benchmark, which may have a configuration: `travelplanner:paper`; or a user's own
            benchmark: `mypackage.worlds:MyBenchmark`, or the object, such as `Tools(...)`.
        swaps: one `SLOT=OPERATOR` per variant, or several joined by `+`; by default, for the graph `sdp`, the three
            ablations of the SDP paper.
        choice: selection of tasks and number of trials: `Choice(limit=30, trials=5)`.
        context: model, budget and limits; by default the model is a simulated agent.
        out: the folder of the ablation; an unfinished ablation in it is continued.
        at_once: maximum number of runs at the same time.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: the folder holds another comparison.
    """
    context = context or Context(model="simulated")
    benchmark = benchmark_name(benchmark, context.data)
    limits = context.limits or load_benchmark(benchmark, context.data).limits
    context = context.model_copy(update={"limits": limits})
    plan = build_job(ablation_methods(graph, swaps), benchmark, choice, context).plan
    live = load_benchmark(benchmark, context.data)
    compare(plan, context, live, Path(out), listener=lambda cell, trajectory: None, at_once=at_once)
    return write_comparison_report(plan, Path(out))
