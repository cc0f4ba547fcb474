"""What `certigraph study tdp` does between its options and its table."""

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from certigraph.adapters.context import Context
from certigraph.evaluation.comparing.cells import cells_of, left
from certigraph.evaluation.comparing.command import PIPED, Order, carry_out
from certigraph.evaluation.comparing.keeping import FILE, read_plan
from certigraph.evaluation.comparing.plan import methods_from, plan_of
from certigraph.evaluation.studying.corridor import MOST, NAME, Corridor
from certigraph.evaluation.studying.corridor_mind import DEEP, STRETCH, WIDE
from certigraph.evaluation.studying.prompt_report import HEADS, PAGE, Study, report, slope_cells
from certigraph.evaluation.studying.prompt_sizes import TASK_GRAPH
from certigraph.evaluation.studying.prompt_totals import TOTAL_HEADS, total_cells
from certigraph.evaluation.studying.slopes import ANY, LEAST
from certigraph.state.endings import UnknownName

COMMAND = "certigraph study tdp"

GRAPHS = ("tdp", "plan_and_act", "cot", "react")

EVERY = 2 * STRETCH
"""World steps between one length and the next; episodes of a single sub-task need nothing of another."""

LONGEST = 40


def order_of(longest: int | None, folder: Path) -> Order:
    """The study of episodes of up to so many steps; by default the one that the folder was begun with, or of LONGEST.

    Raises:
        UnknownName: too few steps for three lengths, or more than the corridor has.
    """
    corridor = Corridor()
    context = Context(limits=corridor.limits)
    plan = plan_of(NAME, methods_from(GRAPHS), _tasks(LONGEST if longest is None else longest), context)
    if longest is None and (folder / FILE).is_file() and (there := read_plan(folder)).benchmark == NAME:
        plan = there
    return Order(plan, context, corridor, COMMAND)


def worked_off(given: Order, folder: Path, *, report_only: bool, as_json: bool) -> int:
    """Do what is left of the study unless only its report is wanted, and print it; exit status 1 while runs are left.

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on.
        Fault: as `compare` does, or there is nothing to report.
    """
    if report_only:
        read_plan(folder)
    else:
        carry_out(given, folder, silent=as_json)
    study = report(given.plan, folder)
    if as_json:
        typer.echo(
            json.dumps({name: [line._asdict() for line in getattr(study, name)] for name in ("slopes", "totals")})
        )
    else:
        _print(study, folder)
    return 1 if left(cells_of(given.plan, folder)) else 0


def _tasks(longest: int) -> list[str]:
    lengths = range(EVERY, longest + 1, EVERY)
    if len(lengths) < LEAST or longest > MOST:
        raise UnknownName(f"--longest {longest}: {LEAST} lengths, {EVERY} apart, need {LEAST * EVERY} to {MOST} steps")
    return [f"{kind}-{length:02}" for kind in (DEEP, WIDE) for length in lengths]


def _print(study: Study, folder: Path) -> None:
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED)
    table = Table(*HEADS, box=None)
    for slope in study.slopes:  # the page has a line for every operator
        if slope.operator == ANY or slope.about == TASK_GRAPH:
            table.add_row(*slope_cells(slope))
    console.print(table, markup=False)
    totals = Table(*TOTAL_HEADS, box=None)
    longest = max((total.rooms for total in study.totals), default=0)
    for total in study.totals:
        if total.rooms in (EVERY, longest):  # the shortest episodes and the longest
            totals.add_row(*total_cells(total))
    console.print(totals, markup=False)
    Console(highlight=False, soft_wrap=True).print(f"report: {folder / PAGE}", style="dim", markup=False)
