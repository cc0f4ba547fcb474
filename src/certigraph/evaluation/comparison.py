"""Comparisons of methods on the same tasks: the plan, its file, its cells (one run per task, trial and method), runs.

The folders of the runs are the journal of a comparison: a cell whose trajectory has a final ending is never run again,
and any other run resumes inside its LangGraph thread. docs/design-notes.md has why these are not eval sets of Inspect.
"""

import asyncio
import datetime
import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice, takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from certigraph.adapters.benchmarks import usual_limits
from certigraph.adapters.file_locks import try_lock
from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes, replace_text
from certigraph.adapters.protocols import Benchmark, Budget, Context, Limits
from certigraph.adapters.trajectories import TRAJECTORY_FILE, read_trajectory
from certigraph.evaluation.frames import RecordedRun
from certigraph.evaluation.jobs import RunJob, execute_run
from certigraph.evaluation.published_matches import RunSetting
from certigraph.evaluation.workers import active_pool
from certigraph.graphs.assembly import operators_of
from certigraph.graphs.catalogue import summarize_operator
from certigraph.nodes.specs import Spec
from certigraph.runtime.files import (
    RunsManifest,
    check_output_folder,
    find_trajectories,
    has_header,
    slug_of,
    write_manifest,
)
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import (
    GRAPHS,
    build_graph,
    current_versions,
    parse_swap,
    rebuild_graph,
    reranker_versions,
    shareable_context,
    split_configuration,
    swaps_of,
)
from certigraph.runtime.result import BenchmarkRow
from certigraph.runtime.run import create_run_name, needs_resume
from certigraph.runtime.texts import format_count
from certigraph.state.endings import INTERRUPTED, Fault, UnknownName
from certigraph.state.records import Record, Task
from certigraph.state.trajectory import Trajectory

# The plan of a comparison.


class Choice(Record):
    """Selection of tasks, and number of trials of each. Tasks are chosen by `ids`, or by `split` and `limit`."""

    ids: Sequence[str] = ()
    split: str = ""
    """Name of a split of the benchmark; empty for its usual tasks."""
    limit: int = Field(default=0, ge=0)
    """Maximum number of tasks, of which the first ones are taken; 0 for all."""
    trials: int = Field(default=1, ge=1)
    """Number of runs of each task."""
    stratify: bool = False
    """Whether tasks of a limited choice are spread over difficulty, length and kind instead."""


ALL_TASKS = Choice()
"""Every task of the benchmark's default split, one trial each."""


class ComparedMethod(Record):
    """A method of a comparison: a graph with its operators, and the name of the method in tables."""

    name: str
    graph: str
    operators: dict[str, JsonValue]
    own_swaps: dict[str, str] | None = None
    """Operators that are not the graph's defaults, by slot; None in plans of earlier versions."""

    @property
    def swaps(self) -> dict[str, str]:
        """The operators that are not the graph's defaults, by slot."""
        if self.own_swaps is not None:
            return self.own_swaps
        return {slot: str(spec) for slot, spec in swaps_of(self.graph, self.operators).items()}

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
    keep_prompts: bool = False
    """Whether runs keep their prompts and replies, as in `certigraph.run`."""
    goals: dict[str, str] = Field(default_factory=dict)
    """Digests of the goals of the user's own cases, by task."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Digests of the source of the user's own functions, and of the files with them, by name."""
    variants: dict[str, str] = Field(default_factory=dict)
    """What the exchanged operators of each variant of the first method do, by method."""
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
        usual = usual_limits(self.benchmark)
        return {
            method.name: RunSetting(
                graph=method.graph,
                swaps=method.swaps,
                benchmark=self.benchmark,
                models={self.model, *self.roles.values()},
                tasks={*self.tasks},
                limited=self.limits != usual or self.budget != Budget(),
            )
            for method in self.methods
        }


def parse_methods(names: Sequence[str], swaps: Sequence[str] = ()) -> tuple[ComparedMethod, ...]:
    """Build methods from a command line: `GRAPH`, `GRAPH:paper` or `NAME=GRAPH`, with swaps as `NAME:SLOT=OPERATOR`.

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
            unknown, known = text.partition(":")[0], ", ".join(graphs)
            raise UnknownName(f"swap {text}: no method {unknown!r}; write METHOD:SLOT=OPERATOR for {known}")
        chosen[name].append(text.removeprefix(f"{name}:"))
    return tuple(build_method(name, graph, chosen[name]) for name, graph in graphs.items())


def build_method(name: str, graph: str, swaps: Sequence[str], *, import_own: bool = True) -> ComparedMethod:
    """Build a method with a name from a graph and swaps of its operators, `SLOT=OPERATOR`.

    Operators and graphs named `module:attribute` are imported, which runs the code of their module. If `import_own` is
    false, they are not imported, and it is not checked that they exist.

    Raises:
        UnknownName: as `parse_methods` does.
    """
    graph, paper = split_configuration(graph)
    specs = {**paper, **dict(map(parse_swap, swaps))}
    if graph not in GRAPHS and not import_own:
        described = {slot: spec.model_dump(mode="json") for slot, spec in specs.items()}
        return ComparedMethod(name=name, graph=graph, operators=described)
    external = {} if import_own else {slot: spec for slot, spec in specs.items() if ":" in spec.name}
    compiled = build_graph(graph, {slot: spec for slot, spec in specs.items() if slot not in external})
    unchecked = {slot: spec.model_dump(mode="json") for slot, spec in external.items()}
    operators = {**operators_of(compiled), **unchecked}
    exchanged = {slot: str(spec) for slot, spec in swaps_of(graph, operators).items()}
    return ComparedMethod(name=name, graph=graph, operators=operators, own_swaps=exchanged)


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
        variants=describe_variants(methods),
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


def exchanged_operators(first: ComparedMethod, variant: ComparedMethod) -> dict[str, Spec]:
    """Return the operators, by slot, in which a variant differs from the first method; none for another graph."""
    if first.graph != variant.graph:
        return {}
    reference = first.operators
    return {slot: Spec.model_validate(spec) for slot, spec in variant.operators.items() if spec != reference.get(slot)}


def describe_variants(methods: Sequence[ComparedMethod]) -> dict[str, str]:
    """Describe what the operators do in which variants differ from the first method, by method.

    Operators of a user's own are not described.
    """
    first, *others = methods
    summaries = {
        method.name: [summarize_operator(spec.name) for spec in exchanged_operators(first, method).values()]
        for method in others
    }
    return {name: " ".join(filter(None, texts)) for name, texts in summaries.items() if any(texts)}


# Selection of tasks.


def select_stratified_tasks(tasks: Sequence[Task], n: int) -> list[Task]:
    """Select `n` tasks, spread evenly over difficulty level, number of days and kind of task.

    The selection is deterministic and keeps the order of `tasks`.
    """
    groups = defaultdict(list)
    for task in tasks:  # a benchmark may lack some of these constants
        groups[tuple(str(task.constants.get(name)) for name in ("level", "days", "task"))].append(task)
    rounds = chain.from_iterable(zip_longest(*(groups[key] for key in sorted(groups))))
    chosen = {task.id for task in islice(filter(None, rounds), n)}
    return [task for task in tasks if task.id in chosen]


# The saved plan: written before the first run, and compared with the plan of every later call.

MAX_SHOWN_DIFFERENCES = 3
"""Maximum number of differences between two plans in a message."""

IGNORED_FIELDS = {"keep_prompts", "sources", "variants", "versions", "machine", "created"}
"""Fields of a plan that may change between two calls."""

LISTED_FIELDS = {"methods", "tasks", "goals"}
"""Fields of a plan whose differences are described as a whole."""


PLAN_FILE = "comparison.json"
"""Name of the file with the plan of a comparison, in its folder."""

COMPARISON_PAGE = "comparison.html"
"""Name of the page of a comparison, in the same folder."""

DATA_FILES = {
    "table.csv": "a line for each method",
    "needs.csv": "a line for each method and amount, such as output tokens",
    "rows.csv": "a line for each run, with its folder",
    "curves.csv": "the score by budget",
    "table.json": "everything",
}
"""Content of each file of data in the folder of a comparison."""


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
        fix = "restore it or use another folder (--out, in Python out=)"
        raise Fault("data", f"{path} is not a plan ({error.errors()[0]['msg']}): {fix}") from error


def save_or_check_plan(plan: ComparisonPlan, folder: Path, resume: str) -> None:
    """Save the plan in its folder, or check that the folder holds the same plan; `resume` continues that comparison.

    A plan of which nothing has been run is replaced.

    Raises:
        Fault: the folder holds runs with other settings, and the message names the differences; or
            `check_output_folder` refuses it.
    """
    check_output_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    differing = format_differences(read_plan(folder), plan) if has_plan(folder) else ""
    if differing and find_trajectories(folder):
        fix = f"continue that one with: {resume}, or start this one in another folder (--out, in Python out=)"
        raise Fault("data", f"{folder} holds runs with other settings ({differing}): {fix}")
    if differing or not has_plan(folder):
        replace_text(folder / PLAN_FILE, plan.model_dump_json(indent=1))
    write_manifest(folder, RunsManifest(page=COMPARISON_PAGE, files=(COMPARISON_PAGE, *DATA_FILES), command=COMMAND))


def format_differences(saved: ComparisonPlan, new: ComparisonPlan) -> str:
    """Format the first differences between two plans on one line; empty if only IGNORED_FIELDS differ."""
    left_out = IGNORED_FIELDS | LISTED_FIELDS
    one, other = (dict(_flatten(plan.model_dump(mode="json", exclude=left_out))) for plan in (saved, new))
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    lines = list(_differing_methods(saved.methods, new.methods))
    if len(saved.tasks) != len(new.tasks):
        there = format_count(len(saved.tasks), "task")
        lines.append(f"{there} there, {len(new.tasks)} here (by limit, split or task ids)")
    elif differing := [pair for pair in zip(saved.tasks, new.tasks, strict=True) if len(set(pair)) > 1]:
        lines.append("other tasks, such as {} there and {} here".format(*differing[0]))
    lines += [f"another goal of the case {task}" for task in changed_keys(saved.goals, new.goals)]
    lines += [f"{key}: {one.get(key, 'nothing')} there, {other.get(key, 'nothing')} here" for key in keys]
    more = f"; and {len(lines) - MAX_SHOWN_DIFFERENCES} more" if len(lines) > MAX_SHOWN_DIFFERENCES else ""
    return "; ".join(lines[:MAX_SHOWN_DIFFERENCES]) + more


def changed_keys(saved: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the keys that both mappings have with different values."""
    return [key for key, value in new.items() if saved.get(key, value) != value]


def _differing_methods(saved: Sequence[ComparedMethod], new: Sequence[ComparedMethod]) -> Iterator[str]:
    names, others = ([method.name for method in methods] for methods in (saved, new))
    if names != others:  # those of an ablation are its swaps
        yield f"other methods or swaps: {', '.join(names)} there, {', '.join(others)} here"
        return
    for one, other in zip(saved, new, strict=True):
        if one.graph != other.graph:
            yield f"{one.name}: the graph {one.graph} there, {other.graph} here"
            continue
        for slot in {**one.operators, **other.operators}:
            specs = [method.operators.get(slot) for method in (one, other)]
            there, here = ("nothing" if spec is None else str(Spec.model_validate(spec)) for spec in specs)
            if there != here:
                yield f"{one.name}: {slot}={there} there, {here} here"


def _flatten(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, (Mapping, list)):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value, 1):
            yield from _flatten(part, f"{at}.{key}" if at else str(key))
    elif value is not None:
        yield at, json.dumps(value, ensure_ascii=False)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Inside the block, lock a folder for this process; it is created if it does not exist.

    The operating system releases the lock if the process dies.

    Raises:
        Fault: another process is using the folder, or `check_output_folder` refuses it.
    """
    check_output_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        if not try_lock(lock):
            raise Fault("data", f"another process is using {folder}: wait until it ends, or stop it")
        yield


COMMAND = "certigraph compare"
"""Command that goes on with a comparison and writes its files again."""


# Cells, and the runs in their folders.


class ComparisonCell(NamedTuple):
    """One run of a comparison: a method, a task and the number of the trial, from 0.

    `folder` is the folder in which the run gets its own folder.
    """

    method: ComparedMethod
    task: str
    trial: int
    folder: Path

    @property
    def run_folder(self) -> Path | None:
        """The folder of the run; None if there is no run whose header was completely written."""
        folders = (path.parent for path in sorted(self.folder.glob(f"*/{TRAJECTORY_FILE}")) if has_header(path))
        return next(folders, None)


def cells_of(plan: ComparisonPlan, folder: Path) -> list[ComparisonCell]:
    """List the cells (one run per task, trial and method) of a comparison, task by task.

    With this order an unfinished comparison has about as many runs of each method.
    """
    # methods are numbered, since the slugs of two names may be equal
    slugs = [f"{number}-{slug_of(method.name, 60, kept='-_')}" for number, method in enumerate(plan.methods, 1)]
    return [
        ComparisonCell(
            method, task, trial, folder / "runs" / f"{number:03}-{slug_of(task, 60, kept='-_')}" / str(trial) / slug
        )
        for number, task in enumerate(plan.tasks, 1)
        for trial in range(plan.trials)
        for method, slug in zip(plan.methods, slugs, strict=True)
    ]


def read_method_names(folder: Path) -> dict[Path, str]:
    """Read the names that a comparison gave to its methods, by the folder of each cell; none without a plan.

    Raises:
        Fault: the plan cannot be read.
    """
    cells = cells_of(read_plan(folder), folder) if has_plan(folder) else []
    return {cell.folder: cell.method.name for cell in cells}


def read_cell_trajectory(cell: ComparisonCell) -> Trajectory | None:
    """Read the trajectory of a cell; None if its run was not started."""
    run = cell.run_folder
    return read_trajectory(run) if run else None


def unfinished_cells(cells: Sequence[ComparisonCell]) -> list[ComparisonCell]:
    """List the cells whose runs are not finished, in order."""
    folders = ((cell, cell.run_folder) for cell in cells)
    return [cell for cell, run in folders if run is None or needs_resume(run)]


def finished_cells(plan: ComparisonPlan, folder: Path) -> Iterator[tuple[ComparisonCell, Trajectory]]:
    """Yield the cells whose runs are finished, with their trajectories, in the order of the plan.

    A used-up budget is a final ending; an error is not, and is tried again.
    """
    return (
        (cell, run) for cell, run in ended_cells(plan, folder) if not run.ending.startswith(("error:", INTERRUPTED))
    )


def ended_cells(plan: ComparisonPlan, folder: Path) -> Iterator[tuple[ComparisonCell, Trajectory]]:
    """Yield the cells whose runs have ended, with their trajectories, in the order of the plan.

    Runs that ended in an error are included, although the next call tries them again.
    """
    for cell in cells_of(plan, folder):
        trajectory = read_cell_trajectory(cell)
        if trajectory and trajectory.footer:
            yield cell, trajectory


def recorded_run_of(cell: ComparisonCell, trajectory: Trajectory) -> RecordedRun:
    """Name the run of a cell, for data frames, by the names in the plan."""
    return RecordedRun(cell.method.name, cell.task, cell.trial, trajectory)


# Execution, in this process or by worker processes.

CellListener = Callable[[ComparisonCell, BenchmarkRow], None]
"""Function that is called with every cell whose run was executed, and the summary of the run, whatever the ending."""


async def run_cells(
    plan: ComparisonPlan,
    cells: Sequence[ComparisonCell],
    context: Context,
    benchmark: Benchmark,
    listeners: Sequence[CellListener],
    *,
    at_once: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Execute or resume the runs of cells, `at_once` at the same time, until `should_stop` returns True."""
    waiting = takewhile(lambda _: not should_stop(), cells)

    async def work() -> None:
        for cell in waiting:
            row = await run_cell(plan, cell, context, benchmark)
            for listener in listeners:
                listener(cell, row)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def run_cell(plan: ComparisonPlan, cell: ComparisonCell, context: Context, benchmark: Benchmark) -> BenchmarkRow:
    """Execute the run of a cell, or resume it from the last checkpoint, and return its summary.

    Inside `workers.run_slots` a worker process executes it if there are any; it must have access to the folder.
    """
    folder, pool = cell.run_folder, active_pool()
    trial = [f"trial {cell.trial}"] * (plan.trials > 1)
    group = " · ".join(filter(None, [context.group, cell.method.name, *trial]))
    job = RunJob(
        graph=cell.method.graph,
        operators=cell.method.operators,
        benchmark=plan.benchmark,
        task=cell.task,
        context=context.model_copy(update={"trial": cell.trial, "group": group}),
        out=str(cell.folder),
        run=folder.name if folder else create_run_name(cell.method.graph, benchmark.task(cell.task)),
        keep_prompts=plan.keep_prompts,
    )
    return await (pool.done(job) if pool else execute_run(job, cell.method.build(), benchmark))
