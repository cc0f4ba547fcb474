"""Commands `compare` and `ablate`, also as Python functions: progress messages, execution and output."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import typer

from certigraph.adapters.benchmarks import is_object_name, is_own, load_benchmark
from certigraph.adapters.models.chat_models import (
    check_model_available,
)
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.adapters.user_warnings import warn_user
from certigraph.evaluation.comparison import (
    ALL_TASKS,
    COMPARISON_PAGE,
    CellListener,
    Choice,
    ComparedMethod,
    ComparisonCell,
    ComparisonPlan,
    build_plan,
    cells_of,
    changed_keys,
    lock_folder,
    parse_methods,
    read_plan,
    run_cells,
    save_or_check_plan,
    select_stratified_tasks,
    unfinished_cells,
)
from certigraph.evaluation.comparison_report import (
    ComparisonResults,
    comparison_to_json,
    write_comparison_report,
)
from certigraph.evaluation.comparison_summary import Comparison, ablation_methods
from certigraph.evaluation.progress_display import format_work, run_label, show_runs
from certigraph.evaluation.replays import ReplayEstimate
from certigraph.evaluation.result_tables import print_comparison
from certigraph.evaluation.tables import print_report_path
from certigraph.evaluation.tool_worlds import (
    add_digests,
    benchmark_name,
    check_evaluable,
    check_methods,
    check_no_agents,
    describe_effective_rates,
)
from certigraph.evaluation.workers import HERE, WorkerOptions, check_worker_models, run_slots
from certigraph.runtime.registry import (
    GRAPHS,
    check_encoders,
    check_priced,
    check_retrieval,
    check_takes_answers,
    load_settings,
    save_settings,
)
from certigraph.runtime.result import BenchmarkRow
from certigraph.runtime.run import run_blocking
from certigraph.state.endings import Fault, Interrupted, UnknownName

# A comparison that can be executed.

COMPARE_COMMAND = "certigraph compare"
"""Command that messages name by default as the one that continues a comparison."""

ABLATE_COMMAND = "certigraph ablate"
"""Command that messages name as the one that continues an ablation."""

SAME_CALL = "the same call in Python"
"""What messages name in place of a command where the benchmark is an object, which no command can find."""


class ComparisonJob(NamedTuple):
    """Plan of a comparison, with the context and the benchmark that its runs need."""

    plan: ComparisonPlan
    context: Context
    benchmark: Benchmark | None
    """The loaded benchmark; None: it is loaded when a run is started."""
    command: str = COMPARE_COMMAND
    """The command that continues the comparison, for messages."""

    def with_prompts(self, keep: bool) -> Self:
        """Return a copy whose runs keep their prompts if `keep` is set, or if they do already."""
        return self._replace(plan=self.plan.model_copy(update={"keep_prompts": keep or self.plan.keep_prompts}))


def build_job(
    methods: Sequence[ComparedMethod], benchmark: str | Benchmark, choice: Choice, context: Context
) -> ComparisonJob:
    """Build the comparison that the options of a command line describe; `benchmark` may be an object.

    Raises:
        UnknownName: a benchmark, split or task is unknown, or the runs would need a person or undo nothing.
        Fault: the budget limits the dollars of a run, and the price of a model is not known.
    """
    models = (context.model, *context.roles.values())
    check_priced(models, context.budget)
    benchmark = benchmark_name(benchmark, context.data)
    live = load_benchmark(benchmark, context.data)
    for method in methods:
        check_encoders(method.operators)
        check_takes_answers(method.graph, live)
        check_retrieval(method.operators, live)
    check_methods(methods, live)
    shipped = any(method.graph in GRAPHS for method in methods)
    check_evaluable(live, models if shipped else (), episodes=len(methods) * choice.trials)
    tasks = [live.task(task) for task in choice.ids] or live.tasks(choice.split)
    if choice.stratify and choice.limit and not choice.ids:
        tasks = select_stratified_tasks(tasks, choice.limit)
    chosen = choice.ids or [task.id for task in tasks]
    plan = build_plan(benchmark, methods, chosen[: choice.limit or None], context, choice.trials)
    return ComparisonJob(plan, context, live)


def load_job(folder: Path, *, report_only: bool = False) -> ComparisonJob:
    """Load the comparison that a folder holds, so that it can be continued or reported.

    Args:
        folder: the folder of the comparison.
        report_only: do not load a user's own benchmark, because a report needs none.

    Raises:
        UnknownName: the comparison was begun in Python with a benchmark object.
        Fault: the folder holds no comparison, or it was started on another machine.
    """
    plan, context = read_plan(folder), load_settings(folder)
    for name in {context.model, *context.roles.values()}:
        check_model_available(name)
    if report_only and is_own(plan.benchmark):
        return ComparisonJob(plan, context, None)
    try:
        return ComparisonJob(plan, context, load_benchmark(plan.benchmark, context.data))
    except UnknownName as unknown:
        if not is_object_name(plan.benchmark):
            raise
        reason = f"{folder} was begun in Python with the benchmark object {plan.benchmark!r}, which no command can find"
        raise UnknownName(f"{reason}: give {SAME_CALL} again; --report-only writes the report") from unknown


# Execution and output.

MAX_EQUAL_FAILURES = 3
"""Number of runs at the start that stop the comparison if all of them fail with the same message."""

CHANGED_NOTE = """\
{changed} changed since {folder} was begun; runs that ended before, {kept} of {planned}, stay as they are: to run them \
again, give another folder (--out, in Python out=)"""
"""Warning that a comparison mixes runs from before and after a change of the user's code."""

OUTSIDE_FAILURES = ("error:data", "error:environment", "error:model")
"""Endings of runs by a failure outside the method: of the data, the world or the model."""


def run_comparison(
    job: ComparisonJob,
    folder: Path,
    *,
    at_once: int = 1,
    workers: WorkerOptions = HERE,
    silent: bool = False,
    resume: str = "",
    title: str = "",
    group: str = "",
    listener: CellListener = lambda cell, row: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Execute the run of every cell that is not finished. The next call tries runs again that ended in an error.

    Args:
        job: methods, tasks, and what their runs need. If the folder holds a plan already, both must be the same; if
            the runs of that plan keep their prompts, those of this call do too.
        folder: the folder for plan and runs.
        at_once: maximum number of runs at the same time; more than one saves time if they wait for an endpoint. With
            workers, 1 means as many as they allow.
        workers: processes that execute the runs.
        silent: do not print the progress on stderr.
        resume: shell command that continues the comparison; by default that of the job, or the same call in Python.
        title: what the progress calls the comparison; by default the benchmark.
        group: what reports of the runs name as the whole; by default the kind of the comparison and its folder.
        listener: called after each cell.
        should_stop: called before each run; if it returns True, no further runs are started.

    Raises:
        UnknownName: a method is an agent.
        Fault: the folder holds another plan, another process is using it, or the first runs all failed with the same
            message.
        Interrupted: Ctrl-C was pressed; the message has the command that continues the comparison.
    """
    plan, context, live, command = job
    resume = resume or _resume_command(plan, command, folder)
    kind = "ablation" if command == ABLATE_COMMAND else "comparison"
    whole = " ".join(dict.fromkeys([kind, folder.resolve().name]))  # a folder may have the name of its kind
    named = context.model_copy(update={"group": group or whole})
    live = live or load_benchmark(plan.benchmark, context.data)
    if workers.is_shared:
        models = (context.model, *context.roles.values())
        check_worker_models(*models)
        check_evaluable(live, (), episodes=1, shared=True)
    check_no_agents(plan.methods)
    with lock_folder(folder):
        plan, cells = _open_plan(job, live, folder, resume)
        sizes = {"method": len(plan.methods), "task": len(plan.tasks), "trial": plan.trials}
        title, calls = title or plan.benchmark, plan.budget.calls
        notices = (
            format_work(title, plan.model, plan.roles, sizes, len(cells), calls),
            describe_effective_rates(live, plan.model, plan.roles),
            f"to resume: {resume}" if cells else "",
        )
        try:
            slots = run_slots(workers if cells else HERE, context.model, at_once if at_once > 1 else None)
            with slots as concurrent, show_runs(title, len(cells), notices, silent=silent) as show:

                def show_cell(cell: ComparisonCell, row: BenchmarkRow) -> None:
                    show(run_label(cell.method.name, cell.task, cell.trial), row)

                listeners, most = (show_cell, listener, _stop_on_equal_failures(resume)), concurrent or 1
                run_blocking(run_cells(plan, cells, named, live, listeners, at_once=most, should_stop=should_stop))
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; resume with: {resume}") from None


def _open_plan(
    job: ComparisonJob, live: Benchmark, folder: Path, resume: str
) -> tuple[ComparisonPlan, list[ComparisonCell]]:
    """Save the plan of a comparison, or check it against the saved one, and return it with the unfinished cells.

    A warning names the user's own code that has changed since runs of the folder ended.
    """
    plan = add_digests(job.plan, live)
    save_or_check_plan(plan, folder, resume)
    saved = read_plan(folder)
    save_settings(folder, job.context)
    planned = cells_of(plan, folder)
    cells = unfinished_cells(planned)
    changed, kept = ", ".join(changed_keys(saved.sources, plan.sources)), len(planned) - len(cells)
    if changed and kept:
        warn_user(CHANGED_NOTE.format(changed=changed, kept=kept, planned=len(planned), folder=folder))
    return job.with_prompts(saved.keep_prompts).plan, cells


def _resume_command(plan: ComparisonPlan, command: str, folder: Path) -> str:
    # studies have commands that make their benchmark themselves
    from_python = command in (COMPARE_COMMAND, ABLATE_COMMAND) and is_object_name(plan.benchmark)
    return SAME_CALL if from_python else f"{command} --out {shlex.quote(str(folder))}"


def _stop_on_equal_failures(resume: str) -> CellListener:
    # If the first runs all fail alike outside the method, thousands of others would fail as well.
    messages: list[str] = []

    def listener(cell: ComparisonCell, row: BenchmarkRow) -> None:
        messages.append(row.footer.message if row.ending in OUTSIDE_FAILURES else "")
        if len(messages) == MAX_EQUAL_FAILURES and messages[0] and len(set(messages)) == 1:
            failure = f"the first {MAX_EQUAL_FAILURES} runs failed alike ({messages[0]})"
            raise Fault("data", f"{failure}: fix the cause and resume with: {resume}")

    return listener


def finish_comparison(
    job: ComparisonJob,
    folder: Path,
    *,
    at_once: int,
    workers: WorkerOptions = HERE,
    report_only: bool,
    as_json: bool,
) -> int:
    """Execute the unfinished runs of a comparison, unless `report_only` is set, and write and print the report.

    Returns:
        The exit status: 1 while runs are unfinished, else 0.
    """
    if not report_only:
        run_comparison(job, folder, at_once=at_once, workers=workers, silent=as_json)
    findings = write_comparison_report(job.plan, folder)
    print_tables(findings.comparison, findings.estimates, as_json=as_json)
    if not as_json:
        print_report_path(folder / COMPARISON_PAGE)
    return 1 if findings.comparison.left else 0


def print_tables(comparison: Comparison, estimates: Sequence[ReplayEstimate] = (), *, as_json: bool) -> None:
    """Print a comparison as tables, or with `as_json` as one JSON object."""
    if as_json:
        typer.echo(json.dumps(comparison_to_json(comparison, estimates), ensure_ascii=False))
    else:
        print_comparison(comparison, estimates)


# The Python functions.


def compare(
    methods: Sequence[str],
    benchmark: str | Benchmark = "",
    swaps: Sequence[str] = (),
    choice: Choice = ALL_TASKS,
    *,
    context: Context | None = None,
    out: Path | str = "comparison",
    at_once: int = 1,
    workers: int | None = None,
    keep_prompts: bool = False,
) -> ComparisonResults:
    """Run methods on the same tasks, trials and budget, and write the report: `compare(["sdp", "react"], tools)`.

    Args:
        methods: names of graphs, `mypackage.graphs:build` for a user's own; `NAME=GRAPH` gives a method another name,
            so that one graph can be compared with itself under swaps.
        benchmark: the name of a benchmark or of a user's own, or the object, such as `Tools(...)`; as in `ablate`.
        swaps: `METHOD:SLOT=OPERATOR`, a swapped operator of one method: `sdp:validate=always_pass`.
        choice: selection of tasks and number of trials: `Choice(limit=30, trials=5)`.
        context: model, budget and limits; by default a script answers that knows each task's solution.
        out: the folder of the comparison; an unfinished comparison in it is continued.
        at_once: maximum number of runs at the same time.
        workers: number of processes that execute the runs; default: this process.
        keep_prompts: whether each run keeps its prompts and replies in its folder, as in `certigraph.run`.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: the folder holds runs with other settings.
    """
    _check_texts("methods", methods or None, '["sdp", "react"]')
    _check_texts("swaps", swaps, '["sdp:validate=always_pass"]')
    job = _build_own_job(parse_methods(methods, swaps), benchmark, choice, context or Context(), COMPARE_COMMAND)
    return _execute(job.with_prompts(keep_prompts), out, at_once, workers)


def ablate(
    graph: str = "sdp",
    benchmark: str | Benchmark = "",
    swaps: Sequence[str] = (),
    choice: Choice = ALL_TASKS,
    *,
    context: Context | None = None,
    out: Path | str = "ablation",
    at_once: int = 1,
    workers: int | None = None,
    keep_prompts: bool = False,
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
        workers: number of processes that execute the runs; default: this process.
        keep_prompts: whether each run keeps its prompts and replies in its folder, as in `certigraph.run`.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: the folder holds runs with other settings.
    """
    _check_texts("swaps", swaps, '["validate=always_pass"]')
    context = context or Context(model="simulated")
    job = _build_own_job(ablation_methods(graph, swaps), benchmark, choice, context, ABLATE_COMMAND)
    return _execute(job.with_prompts(keep_prompts), out, at_once, workers)


def _check_texts(name: str, value: object, example: str) -> None:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{name}={value!r:.100}: give a list of texts, as in {example}")


def _build_own_job(
    methods: Sequence[ComparedMethod], benchmark: str | Benchmark, choice: object, context: Context, command: str
) -> ComparisonJob:
    if not isinstance(choice, Choice):
        raise TypeError(f"choice={choice!r:.100}: give certigraph.Choice(limit=30, trials=5)")
    benchmark = benchmark_name(benchmark, context.data)
    limits = context.limits or load_benchmark(benchmark, context.data).limits
    job = build_job(methods, benchmark, choice, context.model_copy(update={"limits": limits}))
    return job._replace(command=command)


def _execute(job: ComparisonJob, out: Path | str, at_once: int, workers: int | None) -> ComparisonResults:
    run_comparison(job, Path(out), at_once=at_once, workers=WorkerOptions(workers), silent=True)
    results = write_comparison_report(job.plan, Path(out))
    for warning in results.comparison.warnings:
        warn_user(warning)
    return results
