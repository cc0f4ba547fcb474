"""Comparisons: plan, cells and execution."""

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


# What a comparison is: which methods on which tasks, with what.


class Method(Record):
    """A graph with its operators, under the name it has in tables; the graph's own name unless given another."""

    name: str
    graph: str
    operators: dict[str, JsonValue]

    def build(self) -> AnyGraph:
        """The compiled graph."""
        return rebuilt_graph(self.graph, self.operators)


AND = " and "
"""Between the models of a comparison that has several."""


class Outline(NamedTuple):
    """What is compared: methods by name, on which tasks, how often each; `model` names all models, joined by AND."""

    benchmark: str
    model: str
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    trials: int = 1


class Plan(Record):
    """Everything that decides a comparison's figures, and where and when it was begun."""

    benchmark: str
    methods: tuple[Method, ...]
    tasks: tuple[str, ...]
    trials: int = 1
    """Runs of each method on each task."""
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
        """The plan without its circumstances."""
        models = AND.join(dict.fromkeys([self.model, *self.roles.values()]))
        return Outline(self.benchmark, models, tuple(m.name for m in self.methods), self.tasks, self.trials)


def methods_from(names: Sequence[str], swaps: Sequence[str] = ()) -> tuple[Method, ...]:
    """Methods as a command line names them: `GRAPH` or `NAME=GRAPH`, with swaps as `NAME:SLOT=OPERATOR`.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a name is used twice, or a swap names no method.
    """
    graphs = {name: graph or name for name, _, graph in (text.partition("=") for text in names)}
    if len(graphs) < len(names):
        raise UnknownName(f"two methods of one name in {' '.join(names)}; write NAME=GRAPH, as in bare=step")
    chosen: dict[str, list[str]] = {name: [] for name in graphs}
    for text in swaps:
        name, _, swap = text.partition(":")
        if name not in chosen:
            raise UnknownName(f"--swap {text}: no method {name!r}; write METHOD:SLOT=OPERATOR for {', '.join(graphs)}")
        chosen[name].append(swap)
    return tuple(method_of(name, graph, chosen[name]) for name, graph in graphs.items())


def method_of(name: str, graph: str, swaps: Sequence[str], *, import_own: bool = True) -> Method:
    """A graph with swaps, `SLOT=OPERATOR`, under a name.

    Operators named `module:attribute` are imported, which runs the code of their module, unless `import_own` is false:
    then it is not known whether they exist.

    Raises:
        UnknownName: as `methods_from` does.
    """
    specs = dict(map(parse_swap, swaps))
    named = {} if import_own else {slot: spec for slot, spec in specs.items() if ":" in spec.name}
    built = build_graph(graph, {slot: spec for slot, spec in specs.items() if slot not in named})
    taken = {slot: spec.model_dump(mode="json") for slot, spec in named.items()}
    return Method(name=name, graph=graph, operators={**operators_of(built), **taken})


def plan_of(benchmark: str, methods: Sequence[Method], tasks: Sequence[str], context: Context, trials: int = 1) -> Plan:
    """The plan of these methods on these tasks; the context has its limits set."""
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
    """The model by the file that answers where it is a local one: `local` alone may stand for several."""
    if model.partition(":")[0] != "local":
        return model
    from certigraph.adapters.models.clients import weights

    return f"local:{weights(model).name}"


# A comparison's plan on disk: written down before its first run, and held to after.

FILE = "comparison.json"

COMMAND = "certigraph compare"

SHOWN = 5
"""Differences between two plans that are named; more say nothing new."""

CIRCUMSTANCES = {"versions", "machine", "created"}
"""Parts of a plan that may change while it is carried out."""


def read_plan(folder: Path) -> Plan:
    """The plan of a folder. Raises Fault where there is none, or one that cannot be read."""
    path = folder / FILE
    if not path.is_file():
        raise Fault(
            "data", f"{folder} holds no comparison: name methods, --on BENCHMARK and --model to begin one there"
        )
    try:
        return Plan.model_validate_json(file_bytes(path, MOST_SETTINGS))
    except ValidationError as error:
        raise Fault(
            "data", f"{path} is no plan ({error.errors()[0]['msg']}): restore it or use another --out"
        ) from error


def settle(plan: Plan, folder: Path, command: str = COMMAND) -> None:
    """Write the plan into its folder, or make sure that it is the one the folder was begun with.

    `command` is what goes on with such folders, for messages.

    Raises:
        Fault: the folder holds another comparison; the message says what differs. Or it is no folder for one.
    """
    check_out(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE).is_file():
        draft = folder / f"{FILE}.tmp"  # renamed when whole: a killed process leaves no half plan
        draft.write_text(plan.model_dump_json(indent=1), encoding="utf-8")
        draft.replace(folder / FILE)
    elif told := apart(read_plan(folder), plan):
        fix = f"go on with that one by `{command} --out {folder}`, or begin this one in another --out"
        raise Fault("data", f"{folder} holds another comparison ({told}): {fix}")


def apart(there: Plan, here: Plan) -> str:
    """What two plans do not have in common in one line, the first of it; nothing where they are one."""
    found = differences(there, here)
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def differences(there: Plan, here: Plan) -> list[str]:
    """What two plans do not have in common, in words; circumstances aside."""
    one, other = (dict(_flat(plan.model_dump(mode="json", exclude=CIRCUMSTANCES))) for plan in (there, here))
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


# The cells of a comparison: one run for each task, trial and method, found again on disk and gone on with.

RUNS = "runs"


class Cell(NamedTuple):
    """One method on one task, for the `trial`-th time from 0; `folder` holds its run's folder."""

    method: Method
    task: str
    trial: int
    folder: Path


def cells_of(plan: Plan, folder: Path) -> list[Cell]:
    """All cells, task by task, so that whatever is done first is balanced over the methods."""
    return [
        Cell(method, task, trial, folder / RUNS / f"{number:03}-{_slug(task)}" / str(trial) / _folder(plan, method))
        for number, task in enumerate(plan.tasks, 1)
        for trial in range(plan.trials)
        for method in plan.methods
    ]


def recorded(cell: Cell) -> Trajectory | None:
    """What is on disk of a cell; None while its run has not begun."""
    folder = begun(cell)
    return read_trajectory(folder) if folder else None


def finished(trajectory: Trajectory | None) -> bool:
    """Whether a run has its ending. A spent budget is one: calls are what methods are compared at; an error is none."""
    return ended(trajectory.footer if trajectory else None)


def ended(footer: Footer | None) -> bool:
    """Whether a footer has the run's ending."""
    return footer is not None and not footer.ending.startswith("error:")


def left(cells: Sequence[Cell]) -> list[Cell]:
    """The cells that have no ending yet, in order."""
    return [cell for cell in cells if not ended(_last_footer(cell))]


def done_cells(plan: Plan, folder: Path) -> Iterator[tuple[Cell, Trajectory]]:
    """The cells that have their ending, in the order of the plan."""
    return ((cell, trajectory) for cell, trajectory in ended_cells(plan, folder) if finished(trajectory))


def ended_cells(plan: Plan, folder: Path) -> Iterator[tuple[Cell, Trajectory]]:
    """The same with the cells that an error ended, which the next call tries again."""
    for cell in cells_of(plan, folder):
        trajectory = recorded(cell)
        if trajectory and trajectory.footer:
            yield cell, trajectory


async def carry_out(cell: Cell, context: Context, benchmark: Benchmark) -> Trajectory:
    """Run a cell, or go on with its run from the last checkpoint; returns how far it came."""
    given = context.model_copy(update={"trial": cell.trial})
    folder = cell.folder / run_of(cell, benchmark)
    return (await completed(folder, cell.method.build(), benchmark, cell.task, given)).trajectory


def run_of(cell: Cell, benchmark: Benchmark) -> str:
    """The name of the cell's run: of the one that was begun, else of one to begin."""
    folder = begun(cell)
    return folder.name if folder else run_name(cell.method.graph, benchmark.task(cell.task))


def _last_footer(cell: Cell) -> Footer | None:
    folder = begun(cell)
    return last_footer(folder / "trajectory.jsonl") if folder else None


def begun(cell: Cell) -> Path | None:
    """The run's folder. One whose process died before the first line was whole holds nothing to go on with."""
    begun = (path.parent for path in sorted(cell.folder.glob("*/trajectory.jsonl")) if has_header(path))
    return next(begun, None)


def _folder(plan: Plan, method: Method) -> str:
    """Numbered: names of variants may differ in nothing that a path may hold."""
    return f"{plan.methods.index(method) + 1}-{_slug(method.name)}"


def _slug(name: str) -> str:
    return slug(name, 60, kept="-_")


# Carries a comparison out, cell by cell. It may be interrupted or killed at any moment and started again.

FIRST = 3
"""Runs that must not all fail alike."""

OUTSIDE = ("error:data", "error:environment", "error:model")
"""Endings by a failure that is not the method's."""

Told = Callable[[Cell, Trajectory], None]
"""Called with every cell that was carried out, whatever its ending."""

Carry = Callable[[Cell, Context, Benchmark], Awaitable[Trajectory]]
"""Runs a cell, or goes on with its run, here or elsewhere."""


class Part(NamedTuple):
    """How a comparison is carried out that is part of something larger, or on other machines."""

    home: Path | None = None
    """The folder that the command which goes on is given; the comparison's own unless it is part of another."""
    told: Told = lambda cell, trajectory: None
    enough: Callable[[], bool] = lambda: False
    """No further run is begun once it says so; those under way end."""
    carry: Carry = carry_out


WHOLE = Part()
"""A comparison of its own, in this process."""


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
    """Carry out every cell that has no ending yet. A run that ends in an error is tried again by the next call.

    Args:
        plan: methods and tasks; the same as before where the folder has been begun.
        context: what every run is given.
        benchmark: the live benchmark of the tasks.
        folder: where plan and runs are kept.
        told: called after each cell.
        at_once: runs under way at a time; more than one pays where they wait for an endpoint.
        command: what goes on with this folder, for messages.
        part: what it is part of.

    Raises:
        Fault: the folder holds another plan, another process is at work in it, or the first runs all failed alike.
        Interrupted: by Ctrl-C; the message has the command that goes on.
    """
    go_on = f"go on with: {command} --out {part.home or folder}"
    settle(plan, folder, command)
    with alone(folder):
        save_local(folder, context)
        try:
            hearing = part._replace(told=_giving_up((told, part.told), go_on))
            blocking(_carry_out(left(cells_of(plan, folder)), context, benchmark, at_once, hearing))
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {go_on}") from None


def _giving_up(listeners: Sequence[Told], go_on: str) -> Told:
    """Tells the listeners, and stops where the first runs all failed alike outside the method: so would thousands."""
    said: list[str] = []

    def listener(cell: Cell, trajectory: Trajectory) -> None:
        for told in listeners:
            told(cell, trajectory)
        footer = trajectory.footer
        said.append(footer.message if footer and footer.ending in OUTSIDE else "")
        if len(said) == FIRST and said[0] and len(set(said)) == 1:
            raise Fault("data", f"the first {FIRST} runs failed alike ({said[0]}): mend that and {go_on}")

    return listener


async def _carry_out(cells: Sequence[Cell], context: Context, benchmark: Benchmark, at_once: int, part: Part) -> None:
    waiting = takewhile(lambda _: not part.enough(), cells)

    async def work() -> None:
        for cell in waiting:
            part.told(cell, await part.carry(cell, context, benchmark))

    await asyncio.gather(*(work() for _ in range(at_once)))


def rows_of(plan: Plan, folder: Path) -> list[Row]:
    """The rows of the runs that have their ending, in the order of the plan."""
    return [
        row_of(cell.method.name, cell.task, trajectory, cell.trial) for cell, trajectory in done_cells(plan, folder)
    ]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time; the lock goes with the process, however it ends."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fault("data", f"{folder} is being worked on by another process: wait for it or stop it") from None
        yield


# Carries the cells of a comparison out on the workers of a Ray cluster, in place of this process.


class Workers(NamedTuple):
    """Processes of a Ray cluster: its address, as `pooled` takes it, and how many; one a processor by default."""

    address: str
    processes: int | None = None


@contextmanager
def spread(plan: Plan, workers: Workers | None, at_once: int) -> Iterator[tuple[Carry, int]]:
    """What carries a cell out inside the block, and how many at once: in this process where there are no workers.

    With workers an `at_once` of 1 stands for as many as fit on them. The comparison's folder must be one that they see.

    Raises:
        Fault: Ray is missing, or there is no such cluster.
    """
    if workers is None:
        yield carry_out, at_once
        return
    from certigraph.evaluation.workers import pooled

    asked = at_once if at_once > 1 else None
    with pooled(workers.address, plan.model, workers=workers.processes, at_once=asked) as pool:
        yield partial(_on_workers, pool, plan.benchmark), asked or pool.workers * pool.at_once


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
