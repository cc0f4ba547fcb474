"""Comparisons of methods on the same tasks: the plan, its cells (one run per task, trial and method), and execution.

`compare` runs every cell that is not finished, so that a comparison may be interrupted and started again at any time.
"""

import asyncio
import datetime
import fcntl
import json
import os
import platform
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import JsonValue, ValidationError

from certigraph.adapters.benchmarks import split_name
from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes
from certigraph.adapters.protocols import PAPER_LIMITS, Benchmark, Budget, Context, Limits
from certigraph.evaluation.measures import ComparisonRow, comparison_row_of
from certigraph.evaluation.published.matching import RunSetting
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.files import check_output_folder, has_header, read_last_footer, slug_of
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import (
    GRAPHS,
    build_graph,
    current_versions,
    parse_swap,
    rebuild_graph,
    reranker_versions,
    save_settings,
    shareable_context,
    swaps_of,
)
from certigraph.runtime.run import complete_run, create_run_name, run_blocking
from certigraph.state.records import Fault, Interrupted, Record, UnknownName
from certigraph.state.trajectory import Footer, Trajectory, read_trajectory

if TYPE_CHECKING:
    from certigraph.evaluation.workers import WorkerPool


# The plan of a comparison.


class ComparedMethod(Record):
    """A method of a comparison: a graph with its operators, and the name of the method in tables."""

    name: str
    graph: str
    operators: dict[str, JsonValue]

    def build(self) -> AnyGraph:
        """Build the compiled graph with the operators."""
        return rebuild_graph(self.graph, self.operators)


MODEL_SEPARATOR = " and "
"""Separator between the names of several models."""


class ComparisonOutline(NamedTuple):
    """Names of the methods, ids of the tasks, and number of trials; `model` has the names of all models."""

    benchmark: str
    model: str
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    trials: int = 1


class ComparisonPlan(Record):
    """Everything that determines the results of a comparison, and when and where it was started."""

    benchmark: str
    methods: tuple[ComparedMethod, ...]
    tasks: tuple[str, ...]
    trials: int = 1
    """Number of runs of each method on each task."""
    model: str
    roles: dict[str, str]
    data: str
    budget: Budget
    limits: Limits
    faults: str = ""
    versions: dict[str, str]
    machine: str
    created: str

    @property
    def outline(self) -> ComparisonOutline:
        """The names of benchmark, models, methods and tasks, and the number of trials."""
        models = MODEL_SEPARATOR.join(dict.fromkeys([self.model, *self.roles.values()]))
        return ComparisonOutline(self.benchmark, models, tuple(m.name for m in self.methods), self.tasks, self.trials)

    @property
    def settings(self) -> dict[str, RunSetting]:
        """The setting of each method's runs, by name, for which there may be published figures."""
        usual = PAPER_LIMITS.get(self.benchmark, PAPER_LIMITS.get(split_name(self.benchmark)[0]))
        return {
            method.name: RunSetting(
                graph=method.graph,
                swaps={slot: str(spec) for slot, spec in swaps_of(method.graph, method.operators).items()},
                benchmark=self.benchmark,
                models={self.model, *self.roles.values()},
                tasks={*self.tasks},
                limited=self.limits != usual or self.budget != Budget(),
            )
            for method in self.methods
        }


def parse_methods(names: Sequence[str], swaps: Sequence[str] = ()) -> tuple[ComparedMethod, ...]:
    """Build methods from a command line: `GRAPH` or `NAME=GRAPH`, with swaps as `NAME:SLOT=OPERATOR`.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a name is used twice, or a swap names no method.
    """
    graphs = {name: graph or name for name, _, graph in (text.partition("=") for text in names)}
    if len(graphs) < len(names):
        raise UnknownName(f"two methods with the same name in {' '.join(names)}; write NAME=GRAPH, as in bare=step")
    chosen: dict[str, list[str]] = {name: [] for name in graphs}
    for text in swaps:
        # the longest name first, because the name of a graph of one's own has a colon
        name = next((name for name in sorted(chosen, key=len, reverse=True) if text.startswith(f"{name}:")), None)
        if name is None:
            unknown = text.partition(":")[0]
            form = "write METHOD:SLOT=OPERATOR for"
            raise UnknownName(f"--swap {text}: no method {unknown!r}; {form} {', '.join(graphs)}")
        chosen[name].append(text.removeprefix(f"{name}:"))
    return tuple(build_method(name, graph, chosen[name]) for name, graph in graphs.items())


def build_method(name: str, graph: str, swaps: Sequence[str], *, import_own: bool = True) -> ComparedMethod:
    """Build a method with a name from a graph and swaps of its operators, `SLOT=OPERATOR`.

    Operators and graphs named `module:attribute` are imported, which runs the code of their module. If `import_own` is
    false, they are not imported, and it is not checked that they exist.

    Raises:
        UnknownName: as `parse_methods` does.
    """
    specs = dict(map(parse_swap, swaps))
    if graph not in GRAPHS and not import_own:
        described = {slot: spec.model_dump(mode="json") for slot, spec in specs.items()}
        return ComparedMethod(name=name, graph=graph, operators=described)
    external = {} if import_own else {slot: spec for slot, spec in specs.items() if ":" in spec.name}
    compiled = build_graph(graph, {slot: spec for slot, spec in specs.items() if slot not in external})
    unchecked = {slot: spec.model_dump(mode="json") for slot, spec in external.items()}
    return ComparedMethod(name=name, graph=graph, operators={**operators_of(compiled), **unchecked})


def build_plan(
    benchmark: str, methods: Sequence[ComparedMethod], tasks: Sequence[str], context: Context, trials: int = 1
) -> ComparisonPlan:
    """Build the plan for running methods on tasks; `context` has models, budget and limits, which must be set."""
    shared = shareable_context(context)
    return ComparisonPlan(
        benchmark=benchmark,
        methods=tuple(methods),
        tasks=tuple(dict.fromkeys(tasks)),
        trials=trials,
        model=_model_name(context.model),
        roles={role: _model_name(model) for role, model in context.roles.items()},
        data=str(shared["data"]),
        budget=context.budget,
        limits=context.limits or Limits(),
        faults=context.faults,
        versions={
            **current_versions(),
            **reranker_versions(*(method.operators for method in methods)),
            "python": platform.python_version(),
        },
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _model_name(model: str) -> str:
    # A local model is named by its file, since `local` alone may stand for several.
    if model.partition(":")[0] != "local":
        return model
    from certigraph.adapters.models.clients import find_weights

    return f"local:{find_weights(model).name}"


# The saved plan: written before the first run, and compared with the plan of every later call.

PLAN_FILE = "comparison.json"
"""Name of the file with the plan."""

COMPARE_COMMAND = "certigraph compare"
"""Command that messages name by default as the one that continues a comparison."""

MAX_SHOWN_DIFFERENCES = 5
"""Maximum number of differences between two plans in a message."""

IGNORED_FIELDS = {"versions", "machine", "created"}
"""Fields of a plan that may change between two calls."""


def has_plan(folder: Path) -> bool:
    """Return whether a folder holds a comparison."""
    return (folder / PLAN_FILE).is_file()


def read_plan(folder: Path) -> ComparisonPlan:
    """Read the plan of a folder. Raises Fault if there is none, or if it cannot be read."""
    path = folder / PLAN_FILE
    if not path.is_file():
        raise Fault(
            "data", f"{folder} holds no comparison: give methods, --on BENCHMARK and --model to start one there"
        )
    try:
        return ComparisonPlan.model_validate_json(read_bytes(path, MAX_SETTINGS_BYTES))
    except ValidationError as error:
        raise Fault(
            "data", f"{path} is not a plan ({error.errors()[0]['msg']}): restore it or use another --out"
        ) from error


def save_or_check_plan(plan: ComparisonPlan, folder: Path, command: str = COMPARE_COMMAND) -> None:
    """Save the plan in its folder, or check that the folder holds the same plan.

    Args:
        plan: the plan.
        folder: the folder of the comparison.
        command: the command that continues the comparison, for messages.

    Raises:
        Fault: the folder holds another comparison, and the message names the differences; or `check_output_folder`
        refuses it.
    """
    check_output_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / PLAN_FILE).is_file():
        draft = folder / f"{PLAN_FILE}.tmp"  # renamed when complete, so that a killed process leaves no partial plan
        draft.write_text(plan.model_dump_json(indent=1), encoding="utf-8")
        draft.replace(folder / PLAN_FILE)
    elif differing := format_differences(read_plan(folder), plan):
        fix = f"continue that one with `{command} --out {folder}`, or start this one in another --out"
        raise Fault("data", f"{folder} holds another comparison ({differing}): {fix}")


def format_differences(saved: ComparisonPlan, new: ComparisonPlan) -> str:
    """Format the first differences between two plans on one line; empty if the plans are equal."""
    lines = list_differences(saved, new)
    more = f"; and {len(lines) - MAX_SHOWN_DIFFERENCES} more" if len(lines) > MAX_SHOWN_DIFFERENCES else ""
    return "; ".join(lines[:MAX_SHOWN_DIFFERENCES]) + more


def list_differences(saved: ComparisonPlan, new: ComparisonPlan) -> list[str]:
    """List the differences between a saved plan and a new one; IGNORED_FIELDS such as the machine are left out."""
    one, other = (dict(_flatten(plan.model_dump(mode="json", exclude=IGNORED_FIELDS))) for plan in (saved, new))
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [f"{key}: {_format_value(one.get(key))} there, {_format_value(other.get(key))} here" for key in keys]


def _flatten(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (Mapping, list)):
        yield at, value
        return
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value, 1):
        yield from _flatten(part, f"{at}.{key}" if at else str(key))


def _format_value(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


# Cells.

RUNS_FOLDER = "runs"
"""Name of the folder with the runs of a comparison."""


class ComparisonCell(NamedTuple):
    """One run of a comparison: a method, a task and the number of the trial, from 0.

    `folder` is the folder in which the run gets its own folder.
    """

    method: ComparedMethod
    task: str
    trial: int
    folder: Path


def cells_of(plan: ComparisonPlan, folder: Path) -> list[ComparisonCell]:
    """List the cells (one run per task, trial and method) of a comparison, task by task.

    With this order an unfinished comparison has about as many runs of each method.
    """
    return [
        ComparisonCell(
            method,
            task,
            trial,
            folder / RUNS_FOLDER / f"{number:03}-{_slug_of(task)}" / str(trial) / _folder_name(plan, method),
        )
        for number, task in enumerate(plan.tasks, 1)
        for trial in range(plan.trials)
        for method in plan.methods
    ]


def read_cell_trajectory(cell: ComparisonCell) -> Trajectory | None:
    """Read the trajectory of a cell; None if its run was not started."""
    folder = run_folder_of(cell)
    return read_trajectory(folder) if folder else None


def is_finished(trajectory: Trajectory | None) -> bool:
    """Return whether a run is finished: it ended, and not in an error."""
    return has_final_ending(trajectory.footer if trajectory else None)


def has_final_ending(footer: Footer | None) -> bool:
    """Return whether a run ended and need not be repeated. A used-up budget is a final ending; an error is not."""
    return footer is not None and not footer.ending.startswith("error:")


def unfinished_cells(cells: Sequence[ComparisonCell]) -> list[ComparisonCell]:
    """List the cells whose runs are not finished, in order."""
    return [cell for cell in cells if not has_final_ending(_footer_of(cell))]


def finished_cells(plan: ComparisonPlan, folder: Path) -> Iterator[tuple[ComparisonCell, Trajectory]]:
    """Yield the cells whose runs are finished, with their trajectories, in the order of the plan."""
    return ((cell, trajectory) for cell, trajectory in ended_cells(plan, folder) if is_finished(trajectory))


def ended_cells(plan: ComparisonPlan, folder: Path) -> Iterator[tuple[ComparisonCell, Trajectory]]:
    """Yield the cells whose runs have ended, with their trajectories, in the order of the plan.

    Runs that ended in an error are included, although the next call tries them again.
    """
    for cell in cells_of(plan, folder):
        trajectory = read_cell_trajectory(cell)
        if trajectory and trajectory.footer:
            yield cell, trajectory


async def run_cell(cell: ComparisonCell, context: Context, benchmark: Benchmark) -> Trajectory:
    """Execute the run of a cell, or resume it from the last checkpoint, and return the trajectory."""
    trial_context = context.model_copy(update={"trial": cell.trial})
    folder = cell.folder / run_name_of(cell, benchmark)
    return (await complete_run(folder, cell.method.build(), benchmark, cell.task, trial_context)).trajectory


def run_name_of(cell: ComparisonCell, benchmark: Benchmark) -> str:
    """Return the name of a cell's run, or a new name if the run was not started."""
    folder = run_folder_of(cell)
    return folder.name if folder else create_run_name(cell.method.graph, benchmark.task(cell.task))


def _footer_of(cell: ComparisonCell) -> Footer | None:
    folder = run_folder_of(cell)
    return read_last_footer(folder / "trajectory.jsonl") if folder else None


def run_folder_of(cell: ComparisonCell) -> Path | None:
    """Find the folder of a cell's run; None if there is no run whose header was completely written."""
    folders = (path.parent for path in sorted(cell.folder.glob("*/trajectory.jsonl")) if has_header(path))
    return next(folders, None)


def _folder_name(plan: ComparisonPlan, method: ComparedMethod) -> str:
    # Numbered, since the slugs of two methods may be equal.
    return f"{plan.methods.index(method) + 1}-{_slug_of(method.name)}"


def _slug_of(name: str) -> str:
    return slug_of(name, 60, kept="-_")


# Execution.

MAX_EQUAL_FAILURES = 3
"""Number of runs at the start that stop the comparison if all of them fail with the same message."""

OUTSIDE_FAILURES = ("error:data", "error:environment", "error:model")
"""Endings of runs by a failure outside the method: of the data, the world or the model."""

CellListener = Callable[[ComparisonCell, Trajectory], None]
"""Function that is called with every cell whose run was executed, and the trajectory, whatever the ending."""

CellRunner = Callable[[ComparisonCell, Context, Benchmark], Awaitable[Trajectory]]
"""Function that executes or resumes the run of a cell, in this process or on a worker."""


class ComparisonOptions(NamedTuple):
    """Further options of a comparison, for one that is part of a sweep or is executed on other machines."""

    shown_folder: Path | None = None
    """Folder that messages name in the command that continues the comparison; None: the folder of the comparison."""
    listener: CellListener = lambda cell, trajectory: None
    should_stop: Callable[[], bool] = lambda: False
    """Function that is called before each run; if it returns True, no further runs are started."""
    runner: CellRunner = run_cell


DEFAULT_OPTIONS = ComparisonOptions()
"""Options of a comparison that is not part of a sweep and is executed in this process."""


def compare(
    plan: ComparisonPlan,
    context: Context,
    benchmark: Benchmark,
    folder: Path,
    *,
    listener: CellListener,
    at_once: int = 1,
    command: str = COMPARE_COMMAND,
    part: ComparisonOptions = DEFAULT_OPTIONS,
) -> None:
    """Execute the run of every cell that is not finished. The next call tries runs again that ended in an error.

    Args:
        plan: methods and tasks. If the folder holds a plan already, both must be the same.
        context: model, budget and limits of every run.
        benchmark: the benchmark of the tasks.
        folder: the folder for plan and runs.
        listener: called after each cell.
        at_once: maximum number of runs at the same time; more than one saves time if they wait for an endpoint.
        command: the command that continues the comparison, for messages.
        part: further options, for a comparison that is part of a sweep or is executed on other machines.

    Raises:
        Fault: the folder holds another plan, another process is using it, or the first runs all failed with the same
            message.
        Interrupted: Ctrl-C was pressed; the message has the command that continues the comparison.
    """
    resume = f"resume with: {command} --out {part.shown_folder or folder}"
    save_or_check_plan(plan, folder, command)
    with lock_folder(folder):
        save_settings(folder, context)
        try:
            part = part._replace(listener=_stop_on_equal_failures((listener, part.listener), resume))
            run_blocking(_run_cells(unfinished_cells(cells_of(plan, folder)), context, benchmark, at_once, part))
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {resume}") from None


def _stop_on_equal_failures(listeners: Sequence[CellListener], resume: str) -> CellListener:
    # If the first runs all fail alike outside the method, thousands of others would fail as well.
    messages: list[str] = []

    def listener(cell: ComparisonCell, trajectory: Trajectory) -> None:
        for inner in listeners:
            inner(cell, trajectory)
        footer = trajectory.footer
        messages.append(footer.message if footer and footer.ending in OUTSIDE_FAILURES else "")
        if len(messages) == MAX_EQUAL_FAILURES and messages[0] and len(set(messages)) == 1:
            raise Fault(
                "data", f"the first {MAX_EQUAL_FAILURES} runs failed alike ({messages[0]}): fix the cause and {resume}"
            )

    return listener


async def _run_cells(
    cells: Sequence[ComparisonCell], context: Context, benchmark: Benchmark, at_once: int, part: ComparisonOptions
) -> None:
    waiting = takewhile(lambda _: not part.should_stop(), cells)

    async def work() -> None:
        for cell in waiting:
            part.listener(cell, await part.runner(cell, context, benchmark))

    await asyncio.gather(*(work() for _ in range(at_once)))


def comparison_rows_of(plan: ComparisonPlan, folder: Path) -> list[ComparisonRow]:
    """Build the rows of the finished runs, in the order of the plan."""
    return [
        comparison_row_of(cell.method.name, cell.task, trajectory, cell.trial)
        for cell, trajectory in finished_cells(plan, folder)
    ]


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Inside the block, lock a folder for this process. The operating system releases the lock if the process dies."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fault("data", f"another process is using {folder}: wait until it ends, or stop it") from None
        yield


# Execution on the workers of a Ray cluster.


class ClusterWorkers(NamedTuple):
    """Workers that execute runs: address of a Ray cluster, as in `worker_pool`, and number of processes.

    None as number of processes means one for each processor of the cluster.
    """

    address: str
    processes: int | None = None


@contextmanager
def cell_runner(plan: ComparisonPlan, workers: ClusterWorkers | None, at_once: int) -> Iterator[tuple[CellRunner, int]]:
    """Yield the function that executes the run of a cell, and the number of cells to execute at the same time.

    Without `workers`, cells are executed in this process. Workers must have access to the comparison's folder; an
    `at_once` of 1 then means as many cells as the workers can take.

    Raises:
        Fault: Ray is missing, or there is no such cluster.
    """
    if workers is None:
        yield run_cell, at_once
        return
    from certigraph.evaluation.workers import worker_pool

    limit = at_once if at_once > 1 else None
    with worker_pool(workers.address, plan.model, workers=workers.processes, at_once=limit) as pool:
        yield partial(_run_on_workers, pool, plan.benchmark), limit or pool.workers * pool.at_once


async def _run_on_workers(
    pool: "WorkerPool", name: str, cell: ComparisonCell, context: Context, benchmark: Benchmark
) -> Trajectory:
    from certigraph.evaluation.workers import RunJob

    job = RunJob(
        graph=cell.method.graph,
        operators=cell.method.operators,
        benchmark=name,
        task=cell.task,
        context=context.model_copy(update={"trial": cell.trial}),
        out=str(cell.folder),
        run=run_name_of(cell, benchmark),
    )
    row = await pool.done(job)
    if trajectory := read_cell_trajectory(cell):
        return trajectory
    raise Fault("environment", row.footer.message)
