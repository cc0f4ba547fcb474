"""Carries a comparison out, cell by cell. It may be interrupted or killed at any moment and started again."""

import asyncio
import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparing.cells import Cell, carry_out, cells_of, done_cells, left
from certigraph.evaluation.comparing.keeping import COMMAND, settle
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.rows import Row, row_of
from certigraph.evaluation.run import blocking
from certigraph.evaluation.settings import save_local
from certigraph.state.endings import Fault, Interrupted
from certigraph.state.trajectory import Trajectory

FIRST = 3
"""Runs that must not all fail alike."""

OUTSIDE = ("error:data", "error:environment", "error:model")
"""Endings by a failure that is not the method's."""

Told = Callable[[Cell, Trajectory], None]
"""Called with every cell that was carried out, whatever its ending."""


def compare(
    plan: Plan,
    context: Context,
    benchmark: Benchmark,
    folder: Path,
    *,
    told: Told,
    at_once: int = 1,
    command: str = COMMAND,
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

    Raises:
        Fault: the folder holds another plan, another process is at work in it, or the first runs all failed alike.
        Interrupted: by Ctrl-C; the message has the command that goes on.
    """
    go_on = f"go on with: {command} --out {folder}"
    settle(plan, folder, command)
    with _alone(folder):
        save_local(folder, context)
        try:
            listener = _giving_up(told, go_on)
            blocking(_carry_out(left(cells_of(plan, folder)), context, benchmark, listener, at_once))
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {go_on}") from None


def _giving_up(told: Told, go_on: str) -> Told:
    """A listener that stops where the first runs all failed alike outside the method: so would thousands."""
    said: list[str] = []

    def listener(cell: Cell, trajectory: Trajectory) -> None:
        told(cell, trajectory)
        footer = trajectory.footer
        said.append(footer.message if footer and footer.ending in OUTSIDE else "")
        if len(said) == FIRST and said[0] and len(set(said)) == 1:
            raise Fault("data", f"the first {FIRST} runs failed alike ({said[0]}): mend that and {go_on}")

    return listener


async def _carry_out(cells: Sequence[Cell], context: Context, benchmark: Benchmark, told: Told, at_once: int) -> None:
    waiting = iter(cells)

    async def work() -> None:
        for cell in waiting:
            told(cell, await carry_out(cell, context, benchmark))

    await asyncio.gather(*(work() for _ in range(at_once)))


def rows_of(plan: Plan, folder: Path) -> list[Row]:
    """The rows of the runs that have their ending, in the order of the plan."""
    return [
        row_of(cell.method.name, cell.task, trajectory, cell.trial) for cell, trajectory in done_cells(plan, folder)
    ]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time; the lock goes with the process, however it ends."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fault("data", f"{folder} is being worked on by another process: wait for it or stop it") from None
        yield
