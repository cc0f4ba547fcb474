"""What `certigraph compare` does between its options and its table."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import typer
from rich.console import Console

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import ready
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparing.cells import cells_of, left
from certigraph.evaluation.comparing.compare import compare, rows_of
from certigraph.evaluation.comparing.keeping import read_plan, settle
from certigraph.evaluation.comparing.plan import Plan, methods_from, plan_of
from certigraph.evaluation.comparing.report import PAGE, report
from certigraph.evaluation.comparing.table import tables, told
from certigraph.evaluation.comparing.watching import watching
from certigraph.evaluation.settings import load_local
from certigraph.state.endings import Fault

PIPED = 200
"""Columns of a table that goes to a file."""


class Order(NamedTuple):
    """A comparison with what it takes to carry it out."""

    plan: Plan
    context: Context
    benchmark: Benchmark


def order(
    graphs: Sequence[str], benchmark: str, split: str, tasks: Sequence[str], swaps: Sequence[str], context: Context
) -> Order:
    """The comparison that a command line asks for.

    Raises:
        UnknownName: a graph, benchmark, split, task, slot or operator is unknown.
        Fault: what the table is made with is missing.
    """
    _equipped()
    live = load_benchmark(benchmark, context.data)
    for task in tasks:
        live.task(task)
    chosen = tasks or [task.id for task in live.tasks(split)]
    return Order(plan_of(benchmark, methods_from(graphs, swaps), chosen, context), context, live)


def order_in(folder: Path) -> Order:
    """The comparison that a folder was begun with.

    Raises:
        Fault: there is none, or it was begun on another machine.
    """
    _equipped()
    plan, context = read_plan(folder), load_local(folder)
    for name in {context.model, *context.roles.values()}:
        ready(name)
    return Order(plan, context, load_benchmark(plan.benchmark, context.data))


def carry_out(given: Order, folder: Path, *, silent: bool) -> None:
    """Do what is left of a comparison, telling how it goes. Raises as `compare` does."""
    plan, context, benchmark = given
    settle(plan, folder)
    waiting = left(cells_of(plan, folder))
    with watching(plan, waiting, rows_of(plan, folder), silent=silent) as listener:
        compare(plan, context, benchmark, folder, told=listener)


def print_comparison(given: Order, folder: Path, *, as_json: bool) -> int:
    """Write the report and print its table; the exit status: 1 while runs are left."""
    comparison = report(given.plan, folder)
    if as_json:
        typer.echo(comparison.model_dump_json())
    else:
        console = Console(highlight=False)
        console = console if console.is_terminal else Console(highlight=False, width=PIPED)
        console.print(told(comparison), *tables(comparison), sep="\n\n", markup=False)
        console.print(f"report: {folder / PAGE}", style="dim", markup=False)
    return 0 if len(comparison.rows) == len(given.plan.tasks) * len(given.plan.methods) else 1


def _equipped() -> None:
    if missing := [name for name in ("scipy", "matplotlib") if find_spec(name) is None]:
        told = f"comparisons need {' and '.join(missing)}: pip install 'certigraph[eval]'"
        raise Fault("data", told)
