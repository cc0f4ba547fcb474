"""Comparisons: the plan, its cells (one run for each task, trial and method), and their execution.

`compare` runs every cell that has no ending yet, so that a comparison may be interrupted and started again at any time.
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

from certigraph.adapters.files import MOST_SETTINGS, file_bytes
from certigraph.adapters.protocols import Benchmark, Budget, Context, Limits
from certigraph.graphs.assembly import operators_of
from certigraph.runtime.files import check_out, has_header, last_footer, slug
from certigraph.runtime.history import Row, row_of
from certigraph.runtime.registry import (
    AnyGraph,
    build_graph,
    parse_swap,
    rebuilt_graph,
    save_local,
    shareable,
    versions,
)
from certigraph.runtime.run import blocking, completed, run_name
from certigraph.state.records import Fault, Interrupted, Record, UnknownName
from certigraph.state.trajectory import Footer, Trajectory, read_trajectory

if TYPE_CHECKING:
    from certigraph.evaluation.workers import Pool


# The plan of a comparison.


class Method(Record):
    """A graph with its operators, under a name for tables, which is the name of the graph by default."""

    name: str
    graph: str
    operators: dict[str, JsonValue]

    def build(self) -> AnyGraph:
        """Build the compiled graph."""
        return rebuilt_graph(self.graph, self.operators)


AND = " and "
"""Separator between the names of several models."""


class Outline(NamedTuple):
    """Names of the methods, tasks and number of trials; `model` names all models, joined by AND."""

    benchmark: str
    model: str
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    trials: int = 1


class Plan(Record):
    """Everything that determines the results of a comparison, and when and where it was started."""

    benchmark: str
    methods: tuple[Method, ...]
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
    def outline(self) -> Outline:
        """The plan without budget, limits, versions and machine."""
        models = AND.join(dict.fromkeys([self.model, *self.roles.values()]))
        return Outline(self.benchmark, models, tuple(m.name for m in self.methods), self.tasks, self.trials)


def methods_from(names: Sequence[str], swaps: Sequence[str] = ()) -> tuple[Method, ...]:
    """Build methods from a command line: `GRAPH` or `NAME=GRAPH`, with swaps as `NAME:SLOT=OPERATOR`.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a name is used twice, or a swap names no method.
    """
    graphs = {name: graph or name for name, _, graph in (text.partition("=") for text in names)}
    if len(graphs) < len(names):
        raise UnknownName(f"two methods with the same name in {' '.join(names)}; write NAME=GRAPH, as in bare=step")
    chosen: dict[str, list[str]] = {name: [] for name in graphs}
    for text in swaps:
        name, _, swap = text.partition(":")
        if name not in chosen:
            raise UnknownName(f"--swap {text}: no method {name!r}; write METHOD:SLOT=OPERATOR for {', '.join(graphs)}")
        chosen[name].append(swap)
    return tuple(method_of(name, graph, chosen[name]) for name, graph in graphs.items())


def method_of(name: str, graph: str, swaps: Sequence[str], *, import_own: bool = True) -> Method:
    """Build a method from a graph with swaps, `SLOT=OPERATOR`, under a name.

    Operators named `module:attribute` are imported, which runs the code of their module. If `import_own` is false, they
    are not imported, and it is not checked that they exist.

    Raises:
        UnknownName: as `methods_from` does.
    """
    specs = dict(map(parse_swap, swaps))
    external = {} if import_own else {slot: spec for slot, spec in specs.items() if ":" in spec.name}
    compiled = build_graph(graph, {slot: spec for slot, spec in specs.items() if slot not in external})
    described = {slot: spec.model_dump(mode="json") for slot, spec in external.items()}
    return Method(name=name, graph=graph, operators={**operators_of(compiled), **described})


def plan_of(benchmark: str, methods: Sequence[Method], tasks: Sequence[str], context: Context, trials: int = 1) -> Plan:
    """Build the plan of methods on tasks; the context must have its limits set."""
    shared = shareable(context)
    return Plan(
        benchmark=benchmark,
        methods=tuple(methods),
        tasks=tuple(dict.fromkeys(tasks)),
        trials=trials,
        model=_named(context.model),
        roles={role: _named(model) for role, model in context.roles.items()},
        data=str(shared["data"]),
        budget=context.budget,
        limits=context.limits or Limits(),
        faults=context.faults,
        versions={**versions(), "python": platform.python_version()},
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _named(model: str) -> str:
    # A local model is named by its file, since `local` alone may stand for several.
    if model.partition(":")[0] != "local":
        return model
    from certigraph.adapters.models.clients import weights

    return f"local:{weights(model).name}"


# The saved plan: written before the first run, and compared with the plan of every later call.

FILE = "comparison.json"
"""Name of the file with the plan."""

COMMAND = "certigraph compare"
"""Default command that messages name."""

SHOWN = 5
"""Maximum number of differences between two plans in a message."""

CIRCUMSTANCES = {"versions", "machine", "created"}
"""Fields of a plan that may change between two calls."""


def read_plan(folder: Path) -> Plan:
    """Read the plan of a folder. Raises Fault if there is none, or if it cannot be read."""
    path = folder / FILE
    if not path.is_file():
        raise Fault(
            "data", f"{folder} holds no comparison: give methods, --on BENCHMARK and --model to start one there"
        )
    try:
        return Plan.model_validate_json(file_bytes(path, MOST_SETTINGS))
    except ValidationError as error:
        raise Fault(
            "data", f"{path} is not a plan ({error.errors()[0]['msg']}): restore it or use another --out"
        ) from error


def settle(plan: Plan, folder: Path, command: str = COMMAND) -> None:
    """Save the plan in its folder, or check that the folder holds the same plan.

    Args:
        plan: the plan.
        folder: the folder of the comparison.
        command: the command that continues the comparison, for messages.

    Raises:
        Fault: the folder holds another comparison, and the message names the differences; or `check_out` refuses it.
    """
    check_out(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE).is_file():
        draft = folder / f"{FILE}.tmp"  # renamed when complete, so that a killed process leaves no partial plan
        draft.write_text(plan.model_dump_json(indent=1), encoding="utf-8")
        draft.replace(folder / FILE)
    elif differing := apart(read_plan(folder), plan):
        fix = f"continue that one with `{command} --out {folder}`, or start this one in another --out"
        raise Fault("data", f"{folder} holds another comparison ({differing}): {fix}")


def apart(saved: Plan, new: Plan) -> str:
    """Format the first differences between two plans on one line; empty if there are none."""
    lines = differences(saved, new)
    more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def differences(saved: Plan, new: Plan) -> list[str]:
    """List the differences between a saved plan and a new one, without the fields of CIRCUMSTANCES."""
    one, other = (dict(_flat(plan.model_dump(mode="json", exclude=CIRCUMSTANCES))) for plan in (saved, new))
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [f"{key}: {_told(one.get(key))} there, {_told(other.get(key))} here" for key in keys]


def _flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (Mapping, list)):
        yield at, value
        return
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value, 1):
        yield from _flat(part, f"{at}.{key}" if at else str(key))


def _told(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


# Cells.

RUNS = "runs"
"""Name of the folder with the runs of a comparison."""


class Cell(NamedTuple):
    """One method on one task in one trial, counted from 0; `folder` holds the folder of its run."""

    method: Method
    task: str
    trial: int
    folder: Path


def cells_of(plan: Plan, folder: Path) -> list[Cell]:
    """List all cells, task by task, so that an unfinished comparison is balanced over the methods."""
    return [
        Cell(method, task, trial, folder / RUNS / f"{number:03}-{_slug(task)}" / str(trial) / _folder(plan, method))
        for number, task in enumerate(plan.tasks, 1)
        for trial in range(plan.trials)
        for method in plan.methods
    ]


def recorded(cell: Cell) -> Trajectory | None:
    """Read the trajectory of a cell; None if its run was not started."""
    folder = begun(cell)
    return read_trajectory(folder) if folder else None


def finished(trajectory: Trajectory | None) -> bool:
    """Whether a run is finished, as in `ended`."""
    return ended(trajectory.footer if trajectory else None)


def ended(footer: Footer | None) -> bool:
    """Whether a footer has a final ending: a spent budget is final, an error is not."""
    return footer is not None and not footer.ending.startswith("error:")


def left(cells: Sequence[Cell]) -> list[Cell]:
    """List the cells whose runs are not finished, in order."""
    return [cell for cell in cells if not ended(_last_footer(cell))]


def done_cells(plan: Plan, folder: Path) -> Iterator[tuple[Cell, Trajectory]]:
    """Yield the finished cells in the order of the plan."""
    return ((cell, trajectory) for cell, trajectory in ended_cells(plan, folder) if finished(trajectory))


def ended_cells(plan: Plan, folder: Path) -> Iterator[tuple[Cell, Trajectory]]:
    """Yield the finished cells and those that an error ended, which the next call tries again."""
    for cell in cells_of(plan, folder):
        trajectory = recorded(cell)
        if trajectory and trajectory.footer:
            yield cell, trajectory


async def carry_out(cell: Cell, context: Context, benchmark: Benchmark) -> Trajectory:
    """Run a cell, or resume its run from the last checkpoint, and return the trajectory."""
    trial_context = context.model_copy(update={"trial": cell.trial})
    folder = cell.folder / run_of(cell, benchmark)
    return (await completed(folder, cell.method.build(), benchmark, cell.task, trial_context)).trajectory


def run_of(cell: Cell, benchmark: Benchmark) -> str:
    """Return the name of the cell's run, or a new name if it was not started."""
    folder = begun(cell)
    return folder.name if folder else run_name(cell.method.graph, benchmark.task(cell.task))


def _last_footer(cell: Cell) -> Footer | None:
    folder = begun(cell)
    return last_footer(folder / "trajectory.jsonl") if folder else None


def begun(cell: Cell) -> Path | None:
    """Find the folder of the cell's run; None if there is none with a complete header."""
    folders = (path.parent for path in sorted(cell.folder.glob("*/trajectory.jsonl")) if has_header(path))
    return next(folders, None)


def _folder(plan: Plan, method: Method) -> str:
    # Numbered, since the slugs of two methods may be equal.
    return f"{plan.methods.index(method) + 1}-{_slug(method.name)}"


def _slug(name: str) -> str:
    return slug(name, 60, kept="-_")


# Execution.

FIRST = 3
"""Number of first runs that stop the comparison if all fail with the same message."""

OUTSIDE = ("error:data", "error:environment", "error:model")
"""Endings by a failure that the method did not cause."""

Told = Callable[[Cell, Trajectory], None]
"""Listener that is called with every cell that was run, whatever its ending."""

Carry = Callable[[Cell, Context, Benchmark], Awaitable[Trajectory]]
"""Function that runs a cell, or resumes its run, in this process or on a worker."""


class Part(NamedTuple):
    """Options of a comparison that is part of a sweep, or runs on other machines."""

    shown_folder: Path | None = None
    """Folder that messages name in the command that continues; by default the folder of the comparison."""
    listener: Told = lambda cell, trajectory: None
    should_stop: Callable[[], bool] = lambda: False
    """Returns True to start no further run; running ones end."""
    runner: Carry = carry_out


WHOLE = Part()
"""Options of a comparison that runs alone in this process."""


def compare(
    plan: Plan,
    context: Context,
    benchmark: Benchmark,
    folder: Path,
    *,
    told: Told,
    at_once: int = 1,
    command: str = COMMAND,
    part: Part = WHOLE,
) -> None:
    """Run every cell that is not finished. A run that ends in an error is tried again by the next call.

    Args:
        plan: methods and tasks; for a folder with a plan, the same plan.
        context: the context of every run.
        benchmark: the benchmark of the tasks.
        folder: the folder for plan and runs.
        told: called after each cell.
        at_once: maximum number of runs at the same time; more than one saves time if they wait for an endpoint.
        command: the command that continues the comparison, for messages.
        part: options for a comparison that is part of a sweep, or runs on other machines.

    Raises:
        Fault: the folder holds another plan, another process is using it, or the first runs all failed alike.
        Interrupted: Ctrl-C was pressed; the message has the command that continues.
    """
    go_on = f"go on with: {command} --out {part.shown_folder or folder}"
    settle(plan, folder, command)
    with alone(folder):
        save_local(folder, context)
        try:
            part = part._replace(listener=_giving_up((told, part.listener), go_on))
            blocking(_carry_out(left(cells_of(plan, folder)), context, benchmark, at_once, part))
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {go_on}") from None


def _giving_up(listeners: Sequence[Told], go_on: str) -> Told:
    # If the first runs all fail alike outside the method, thousands of others would fail as well.
    messages: list[str] = []

    def listener(cell: Cell, trajectory: Trajectory) -> None:
        for inner in listeners:
            inner(cell, trajectory)
        footer = trajectory.footer
        messages.append(footer.message if footer and footer.ending in OUTSIDE else "")
        if len(messages) == FIRST and messages[0] and len(set(messages)) == 1:
            raise Fault("data", f"the first {FIRST} runs failed alike ({messages[0]}): fix the cause and {go_on}")

    return listener


async def _carry_out(cells: Sequence[Cell], context: Context, benchmark: Benchmark, at_once: int, part: Part) -> None:
    waiting = takewhile(lambda _: not part.should_stop(), cells)

    async def work() -> None:
        for cell in waiting:
            part.listener(cell, await part.runner(cell, context, benchmark))

    await asyncio.gather(*(work() for _ in range(at_once)))


def rows_of(plan: Plan, folder: Path) -> list[Row]:
    """Build the rows of the finished runs, in the order of the plan."""
    return [
        row_of(cell.method.name, cell.task, trajectory, cell.trial) for cell, trajectory in done_cells(plan, folder)
    ]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a folder for this process inside the block; the lock ends with the process, whatever ends that."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fault("data", f"another process is using {folder}: wait until it ends, or stop it") from None
        yield


# Execution on the workers of a Ray cluster.


class Workers(NamedTuple):
    """Address of a Ray cluster, as `pooled` takes it, and number of processes, by default one for each processor."""

    address: str
    processes: int | None = None


@contextmanager
def spread(plan: Plan, workers: Workers | None, at_once: int) -> Iterator[tuple[Carry, int]]:
    """Yield the function that runs a cell, and how many cells run at the same time; without workers, in this process.

    With workers, an `at_once` of 1 means as many as fit on them, and they must have access to the comparison's folder.

    Raises:
        Fault: Ray is missing, or there is no such cluster.
    """
    if workers is None:
        yield carry_out, at_once
        return
    from certigraph.evaluation.workers import pooled

    limit = at_once if at_once > 1 else None
    with pooled(workers.address, plan.model, workers=workers.processes, at_once=limit) as pool:
        yield partial(_on_workers, pool, plan.benchmark), limit or pool.workers * pool.at_once


async def _on_workers(pool: "Pool", name: str, cell: Cell, context: Context, benchmark: Benchmark) -> Trajectory:
    from certigraph.evaluation.workers import Job

    job = Job(
        graph=cell.method.graph,
        operators=cell.method.operators,
        benchmark=name,
        task=cell.task,
        context=context.model_copy(update={"trial": cell.trial}),
        out=str(cell.folder),
        run=run_of(cell, benchmark),
    )
    row = await pool.done(job)
    if trajectory := recorded(cell):
        return trajectory
    raise Fault("environment", row.footer.message)
