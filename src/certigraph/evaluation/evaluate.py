"""Evaluation of a graph on a benchmark under Inspect (the package `inspect_ai`).

`evaluate` runs a graph on a benchmark's tasks and returns the official metrics. `evaluate_retry` finishes an evaluation
that was interrupted or that has failed runs.
"""

import math
import shlex
import uuid
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certigraph.adapters.benchmarks import check_ready, is_own, load_benchmark, split_name
from certigraph.adapters.models.chat_models import check_model_available, is_scripted
from certigraph.adapters.processes import Setting
from certigraph.adapters.protocols import Benchmark
from certigraph.adapters.tools.world import Tools
from certigraph.evaluation.comparison import Choice
from certigraph.evaluation.evaluation_results import Evaluation, read_evaluation, read_log
from certigraph.evaluation.jobs import is_url
from certigraph.evaluation.progress_display import format_work, run_label, show_runs
from certigraph.evaluation.tool_worlds import (
    benchmark_name,
    check_evaluable,
    check_unattended,
    describe_effective_rates,
)
from certigraph.evaluation.workers import WorkerOptions, check_worker_models, run_slots
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.files import check_output_folder
from certigraph.runtime.graph_sources import AnyGraph, slots_of
from certigraph.runtime.registry import (
    build_graph,
    check_encoders,
    check_retrieval,
    check_takes_answers,
    parse_budget,
    parse_roles,
    parse_swap,
)
from certigraph.runtime.result import BenchmarkRow
from certigraph.runtime.run import run_blocking
from certigraph.runtime.storage import check_checkpoint_server
from certigraph.runtime.texts import format_count
from certigraph.state.endings import Interrupted, UnknownName

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


# Display of a running evaluation, and the result of a finished one.


NO_DISPLAY: dict[str, Any] = {"ctl_server": False, "display": "none", "score_display": False}
"""Options of Inspect without its own display, whose words users of certigraph do not know."""


@contextmanager
def show_samples(
    name: str, total: int, notices: Sequence[str], *, graph: str, kept: Container[str] = (), quiet: bool
) -> Iterator[None]:
    """Inside a block, show `notices` and the outcomes of `total` runs, unless `quiet` is set.

    Runs in `kept` are not counted: they are only read.
    """
    from certigraph.evaluation.inspect_runs import row_listener

    with show_runs(name, total, notices, silent=quiet) as show:

        def listener(row: BenchmarkRow) -> None:
            if row.run not in kept:
                show(run_label(graph, row.id, row.trial), row)

        with Setting(row_listener, listener):
            yield


def read_finished_evaluation(logs: "Sequence[EvalLog]", out: str, workers: WorkerOptions) -> Evaluation:
    """Read the result of an evaluation from the logs that Inspect returned.

    Raises:
        Interrupted: the evaluation was stopped; the message has the command that finishes it.
    """
    if not logs or logs[0].status == "cancelled":
        begun = logs[0].location if logs else f"{out}/LOG.eval"
        log = begun if is_url(out) else _newest_log(Path(out))
        command = f"certigraph eval --retry {log}{workers.flags}"
        raise Interrupted(f"interrupted; resume with: {command}")
    # read the file again without the large fields: access to this log object would load the complete log
    return read_evaluation(logs[0].location)


def _newest_log(folder: Path) -> str:
    return str(max(folder.glob("*.eval"), key=lambda log: log.stat().st_mtime, default=folder / "LOG.eval"))


# Finish an evaluation from its log and the folders of its runs.


def evaluate_retry(
    log: Path | str,
    *,
    max_samples: int | None = None,
    ray: str | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Evaluation:
    """Finish an evaluation that was interrupted or killed, and repeat its failed runs.

    Runs that ended are not repeated. A run that was interrupted, or whose model or data was unavailable, resumes from
    its last checkpoint; a run whose world or operators failed starts again. The log is not changed; a new one is
    written to the same folder.

    Args:
        log: Inspect log of the evaluation, or of an earlier retry: a file, its URL, or a folder with it as the newest.
        max_samples: maximum number of concurrent runs; default: as in the first evaluation.
        ray: address of a Ray cluster for the remaining runs, as in `evaluate`; it may differ from the earlier one.
        workers: number of processes that execute the remaining runs, as in `evaluate`.
        quiet: show no progress, even on a terminal.

    Raises:
        Fault: the file is not the log of an evaluation, or the evaluation could not be finished.
        Interrupted: the evaluation was interrupted again.
    """
    from inspect_ai import eval_retry

    from certigraph.evaluation.inspect_runs import RunJournal
    from certigraph.evaluation.inspect_tasks import registered_name

    log = _newest_log(Path(log)) if Path(log).is_dir() else log
    previous = read_log(log)
    previous.eval.task_registry_name = registered_name(previous.eval.task)
    arguments, folder = previous.eval.task_args_passed, str(log).rpartition("/")[0] or "."
    if arguments.get("journal"):
        # the runs are in the folder of their log, which may have been moved or be named by another relative path
        arguments["out"] = folder
    metadata = previous.eval.metadata or {}
    benchmark, model = str(metadata["benchmark"]), str(metadata.get("model", ""))
    options = WorkerOptions(workers, ray)
    if options.is_shared:
        check_worker_models(model, *(role.partition("=")[2] for role in arguments.get("role", [])))
    planned = len(previous.eval.dataset.sample_ids or ()) * (previous.eval.config.epochs or 1)
    logged = sum(sample.error is None for sample in previous.samples or ())
    # Inspect logs samples in batches: a kill leaves runs that ended and are not in the log
    kept = RunJournal(folder, arguments["journal"]).ended_runs() if arguments.get("journal") else set[str]()
    ended = max(logged, len(kept))
    notices = [f"{benchmark}: {ended} of {format_count(planned, 'run')} ended and are kept, {planned - ended} to go"]
    if ended < planned:
        notices.append(f"to resume: certigraph eval --retry {shlex.quote(str(log) if is_url(folder) else folder)}")
        notices.append(_describe_begun_runs(benchmark, arguments.get("data")))
    slots = run_slots(options, model, max_samples)
    graph = str(metadata["graph"])
    progress = show_samples(benchmark, planned - ended, notices, graph=graph, kept=kept, quiet=quiet)
    with slots as concurrent, progress:
        logs = eval_retry(previous, log_dir=folder, max_samples=concurrent, **NO_DISPLAY)
    return read_finished_evaluation(logs, folder, options)


def _describe_begun_runs(benchmark: str, data: str | None) -> str:
    """Describe what a retry does with a run that had begun and not ended."""
    live = load_benchmark(benchmark, data or None) if is_own(benchmark) else None
    if isinstance(live, Tools) and live.reset:
        return "a run that had begun starts again: `reset` first, then its calls once more"
    return "a run that had begun goes on where it was, if its world can"


# Run a graph over a benchmark's tasks under Inspect.

MAX_SCRIPTED_SAMPLES = 4
"""Default number of concurrent runs with a scripted model; more runs would only wait for each other."""


def evaluate(
    graph: str = "sdp",
    benchmark: str | Benchmark = "",
    *,
    model: str = "scripted:expert",
    roles: Sequence[str] = (),
    budget: Sequence[str] = (),
    data: str | None = None,
    split: str = "",
    limit: int | None = None,
    stratify: bool = False,
    ids: Sequence[str] = (),
    trials: int = 1,
    swaps: Sequence[str] = (),
    cache: str | None = None,
    window: int = 0,
    faults: str = "",
    out: Path | str = "runs",
    max_samples: int | None = None,
    ray: str | None = None,
    workers: int | None = None,
    fail_on: float | None = None,
    keep_prompts: bool = False,
    quiet: bool = False,
) -> Evaluation:
    """Run a graph on every task of a benchmark, as `inspect eval certigraph/BENCHMARK` does.

    Args:
        graph: a graph's name, or a user's own graph: `mypackage.graphs:build`.
        benchmark: a benchmark's name; a configuration may follow: `travelplanner:paper`; or a user's own benchmark:
            `mypackage.worlds:MyBenchmark`; or the object, such as `Tools(...)`, by whose name `evaluate_retry` finds it
            again in this process only.
        model: certigraph's name of a model, or Inspect's: `anthropic/NAME`.
        roles: other models for some roles: `executor=local`.
        budget: limits of each run and of its method: `calls=20`, `steps=30`.
        data: data folder; None: CERTIGRAPH_DATA, else a generated world.
        split: split of the tasks; default: the benchmark's default split.
        limit: maximum number of tasks, taken from the start of the split; None or 0: all.
        stratify: choose the `limit` tasks evenly over difficulty and length instead.
        ids: ids of the tasks, in place of a split.
        trials: runs of each task.
        swaps: operators as `SLOT=OPERATOR`: `validate=always_pass`.
        cache: folder that caches the replies of models, so that no request is paid for twice.
        window: tokens of the models' context window (`Context.window`).
        faults: faults to inject into models and worlds: `timeout=0.1,crash=0.01,seed=3`.
        out: folder, or a URL that fsspec supports, for Inspect's log and a folder for each run.
        max_samples: maximum number of concurrent runs.
        ray: address of a Ray cluster whose workers execute the runs, `local` for a cluster on this machine; None: no
            Ray.
        workers: number of processes that execute the runs, of this machine or on the cluster; default: this process, or
            one for each processor of the cluster.
        fail_on: number of failed runs, or below 1 their share of all runs, after which no more runs are started; None:
            no maximum.
        keep_prompts: whether each run keeps its prompts and replies in its folder, as in `certigraph.run`.
        quiet: show no progress, even on a terminal.

    Raises:
        UnknownName: a name is unknown; the message lists the known ones.
        Fault: the budget limits dollars and a model has no known price, or the evaluation could not be finished.
        Interrupted: the evaluation was interrupted; the message has the command that finishes it.
    """
    from inspect_ai import eval as inspect_eval

    from certigraph.evaluation.inspect_tasks import TASKS, own_task

    choice = Choice(ids=[*ids], split=split, limit=limit or 0, trials=trials, stratify=stratify)
    first = None if choice.stratify else choice.limit or None  # a stratified task has only the chosen samples
    benchmark = benchmark_name(benchmark, data)
    live = load_benchmark(benchmark, data)
    specs = dict(map(parse_swap, swaps))
    models, options = (model, *parse_roles(roles).values()), WorkerOptions(workers, ray)
    _check_runnable(build_graph(graph, specs), live, models, str(out), trials=trials, shared=options.is_shared)
    create_task = partial(own_task, benchmark)
    if (name := split_name(benchmark)[0]) in TASKS:
        create_task = partial(TASKS[name], config=split_name(benchmark)[1])
    task = create_task(
        graph=graph,
        model=model,
        data=data or "",
        split=choice.split,
        ids=list(choice.ids),
        stratify=choice.limit if choice.stratify else 0,
        trials=choice.trials,
        role=list(roles),
        budget=list(budget),
        cache=cache or "",
        window=window,
        faults=faults,
        out=str(out),
        journal=f"journal-{uuid.uuid4().hex[:12]}",
        fail_on=_max_failures(fail_on, lambda: trials * (len(ids) or len(live.tasks(split)[: choice.limit or None]))),
        keep_prompts=keep_prompts,
        **{slot: str(spec) for slot, spec in specs.items()},
    )
    slots = run_slots(options, model, max_samples, usual=MAX_SCRIPTED_SAMPLES if is_scripted(model) else None)
    tasks = len(task.dataset[:first])
    sizes, calls = {"method": 1, "task": tasks, "trial": trials}, parse_budget(budget, live.limits).budget.calls
    notices = (
        format_work(benchmark, model, parse_roles(roles), sizes, tasks * trials, calls),
        describe_effective_rates(live, model, parse_roles(roles)),
        f"to resume: certigraph eval --retry {shlex.quote(str(out))}{options.flags}",
    )
    progress = show_samples(benchmark, tasks * trials, notices, graph=graph, quiet=quiet)
    with slots as concurrent, progress:
        logs = inspect_eval(
            task,
            model=None,
            limit=first,
            max_samples=concurrent,
            log_dir=str(out),
            log_realtime=not is_scripted(model),  # scripted runs end before a user could watch them in Inspect's viewer
            **NO_DISPLAY,
        )
    return read_finished_evaluation(logs, str(out), options)


def _check_runnable(
    graph: AnyGraph, benchmark: Benchmark, models: Sequence[str], out: str, *, trials: int, shared: bool
) -> None:
    """Check, before the first run, everything that would stop every run."""
    if not is_url(out):
        check_output_folder(out)
    check_ready(benchmark)
    operators = operators_of(graph)
    check_encoders(operators)
    check_takes_answers(graph.name, benchmark)
    check_retrieval(operators, benchmark)
    check_unattended(graph)
    check_evaluable(benchmark, models if slots_of(graph) else (), episodes=trials, shared=shared)
    if shared:
        check_worker_models(*models)
    for model in models:
        if model.startswith(("openai:", "local")):
            check_model_available(model)
    run_blocking(check_checkpoint_server())


def _max_failures(fail_on: float | None, planned: Callable[[], int]) -> int:
    """Compute the number of failed runs after which no more runs are started; 0: no maximum."""
    if fail_on is None:
        return 0
    if not 0 < fail_on < math.inf:
        raise UnknownName(f"--fail-on {fail_on:g}: give a number of runs, as in 5, or a share of them, as in 0.1")
    # rounded first: 0.07 * 100 is slightly more than 7 in floating point
    return math.ceil(fail_on if fail_on >= 1 else round(fail_on * planned(), 6))
