"""Carries a sweep out, comparison by comparison. It may be interrupted or killed at any moment and started again."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from certigraph.adapters.faults.rates import Faults
from certigraph.evaluation.comparing.cells import Cell, cells_of, left
from certigraph.evaluation.comparing.command import Order, carry_out
from certigraph.evaluation.comparing.compare import Part, alone
from certigraph.evaluation.comparing.keeping import FILE, apart, read_plan, settle
from certigraph.evaluation.comparing.spreading import Workers, spread
from certigraph.evaluation.extras import TABLES, equipped
from certigraph.evaluation.naming import check_out
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.sweeping.asked import Most, Sweep
from certigraph.evaluation.sweeping.expanding import expanded, order_of
from certigraph.evaluation.sweeping.purse import Purse, must_have_prices
from certigraph.evaluation.sweeping.reading import folder_name, read_sweep
from certigraph.state.endings import Fault

COMMAND = "certigraph sweep"

FIX = "benchmarks may be added, nothing else changed: put it back, or begin anew in another --out"


class Arm(NamedTuple):
    """One benchmark of a sweep: its comparison, and the folder of that."""

    title: str
    order: Order
    folder: Path

    @property
    def cells(self) -> list[Cell]:
        """Its runs."""
        return cells_of(self.order.plan, self.folder)


class Prepared(NamedTuple):
    """A sweep with what it takes to carry it out; `out` is its folder."""

    file: Path
    sweep: Sweep
    arms: tuple[Arm, ...]
    left_out: tuple[str, ...]
    out: Path
    workers: Workers | None = None
    """Those that carry the runs out, in place of this process."""

    @property
    def command(self) -> str:
        """What goes on with it, the folder aside."""
        ray = f" --ray {self.workers.address}" if self.workers else ""
        return f"{COMMAND} {shlex.quote(str(self.file))}{ray}"

    @property
    def go_on(self) -> str:
        """What goes on with it."""
        return f"{self.command} --out {shlex.quote(str(self.out))}"

    @property
    def cells(self) -> list[Cell]:
        """Its runs."""
        return [cell for arm in self.arms for cell in arm.cells]


def prepared(
    file: Path, out: Path | None = None, workers: Workers | None = None, *, import_own: bool = True
) -> Prepared:
    """Read a sweep's file and find everything that it names; nothing is run or written.

    Args:
        file: the sweep's.
        out: its folder; the file's name without its ending where none is given.
        workers: processes that carry the runs out.
        import_own: whether operators named `module:attribute` are imported, which runs the code of their module.

    Raises:
        Fault, UnknownName: the file or something that it names is unusable, or is not there.
    """
    equipped("sweeps", "yaml", *TABLES)
    sweep = read_sweep(file)
    Faults.read(sweep.faults)
    must_have_prices(sweep.most, {sweep.model, *sweep.roles.values()})
    methods, left_out = expanded(sweep, import_own=import_own)
    out = out or Path(file.stem)
    check_out(out)
    orders = [(case, order_of(sweep, case, methods, file.resolve().parent)) for case in sweep.benchmarks]
    arms = [Arm(case.title, order, out / folder_name(case)) for case, order in orders]
    return Prepared(file, sweep, tuple(arms), left_out, out, workers)


def carried_out(given: Prepared, *, silent: bool = False) -> list[str]:
    """Do what is left of a sweep, one benchmark after another, and say why anything is left after that.

    A benchmark whose first runs all fail alike does not keep the others from being run.

    Raises:
        Fault: the folder was begun with another file, or another process is at work in it.
        Interrupted: by Ctrl-C; the message has the command that goes on.
    """
    given.out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)
    with alone(given.out):
        held(given)
        purse = Purse(given.sweep.most, given.cells if given.sweep.most != Most() else ())
        failed = list(filter(None, (_carry_out(given, arm, purse, console) for arm in given.arms)))
        return [*_spent(given, purse), *failed]


def begun_in(out: Path) -> set[Path]:
    """The folders of a sweep's comparisons."""
    return {path.parent for path in out.glob(f"*/{FILE}")}


def held(given: Prepared) -> None:
    """Write every comparison's plan down, or make sure that the folder was begun with the same ones."""
    must_be_unchanged(given)
    for arm in given.arms:
        settle(arm.order.plan, arm.folder, given.command)


def must_be_unchanged(given: Prepared) -> None:
    """Make sure that the folder, if it was begun, was begun with the same plans. Raises Fault.

    A benchmark may be added to a sweep; anything else that changes would make one table of different things.
    """
    begun = begun_in(given.out)
    if gone := sorted(path.name for path in begun - {arm.folder for arm in given.arms}):
        raise Fault("data", f"{given.out} has runs of {', '.join(gone)}, which {given.file} lacks: {FIX}")
    for arm in given.arms:
        if arm.folder in begun and (told := apart(read_plan(arm.folder), arm.order.plan)):
            raise Fault("data", f"{arm.folder} was begun with another {given.file.name} ({told}): {FIX}")


def _carry_out(given: Prepared, arm: Arm, purse: Purse, console: Console) -> str:
    """Do what is left of one comparison; what keeps it from being finished, if anything does."""
    if purse.empty() or not left(arm.cells):
        return ""
    console.print(f"{arm.title} ({given.arms.index(arm) + 1} of {len(given.arms)})", markup=False)
    order = arm.order._replace(command=given.command)
    try:
        with spread(order.plan, given.workers, given.sweep.at_once) as (carry, at_once):
            part = Part(given.out, purse.note, lambda: bool(purse.empty()), carry)
            carry_out(order, arm.folder, at_once=at_once, silent=console.quiet, part=part)
    except Fault as fault:
        return f"{arm.title}: {fault}"
    return ""


def _spent(given: Prepared, purse: Purse) -> Sequence[str]:
    why, runs = purse.empty(), len(left(given.cells))
    if not (why and runs):
        return ()
    more = "" if why.endswith("over") else f"a larger `most` in {given.file} and "
    return (f"{why}: {counted(runs, 'run')} left; go on with {more}{given.go_on}",)
