"""The cells of a comparison: one run for each task, trial and method, found again on disk and gone on with."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparing.endings import last_footer
from certigraph.evaluation.comparing.plan import Method, Plan
from certigraph.evaluation.completing import completed
from certigraph.evaluation.finding import has_header
from certigraph.evaluation.naming import slug
from certigraph.evaluation.run import run_name
from certigraph.state.reading import read_trajectory
from certigraph.state.trajectory import Footer, Trajectory

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
