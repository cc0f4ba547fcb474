"""Carries a comparison out, cell by cell. It may be interrupted or killed at any moment and started again."""

import asyncio
import fcntl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

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
