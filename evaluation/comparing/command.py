"""What `certigraph compare` does between its options and its table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import typer
from rich.console import Console

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import ready
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.ablating.estimates import Estimate
from certigraph.evaluation.budgets import must_be_priced
from certigraph.evaluation.comparing.cells import cells_of, left
from certigraph.evaluation.comparing.compare import WHOLE, Part, compare, rows_of
from certigraph.evaluation.comparing.files import plain
from certigraph.evaluation.comparing.keeping import COMMAND, read_plan, settle
from certigraph.evaluation.comparing.logs import compare_logs
from certigraph.evaluation.comparing.plan import Method, Plan, plan_of
from certigraph.evaluation.comparing.report import PAGE, report
from certigraph.evaluation.comparing.summary import Comparison
from certigraph.evaluation.comparing.table import tables, told
from certigraph.evaluation.comparing.watching import watching
from certigraph.evaluation.settings import check_encoders, load_local
from certigraph.state.records import Task

PIPED = 200
"""Columns of a table that goes to a file."""


class Order(NamedTuple):
    """A comparison with what it takes to carry it out."""

    plan: Plan
    context: Context
    benchmark: Benchmark
    command: str = COMMAND
    """What goes on with its folder, for messages."""


class Choice(NamedTuple):
    """Which tasks of a benchmark, how often each: ids, or a split and how many of it (0: all).

    They are the first ones, or spread over difficulty and length where `stratify` says so.
    """

    ids: Sequence[str] = ()
    split: str = ""
    limit: int = 0
    trials: int = 1
    stratify: bool = False


def order(methods: Sequence[Method], benchmark: str, choice: Choice, context: Context) -> Order:
    """The comparison that a command line asks for.

    Raises:
        UnknownName: a benchmark, split or task is unknown.
        Fault: a run's dollars are limited and a model has no known price.
    """
    must_be_priced((context.model, *context.roles.values()), context.budget)
    live = load_benchmark(benchmark, context.data)
    for method in methods:
        check_encoders(method.operators)
    for task in choice.ids:
        live.task(task)
    chosen = choice.ids or [task.id for task in _of_split(live, choice)]
    return Order(plan_of(benchmark, methods, chosen[: choice.limit or None], context, choice.trials), context, live)


def _of_split(live: Benchmark, choice: Choice) -> Sequence[Task]:
    tasks = live.tasks(choice.split)
    if not (choice.stratify and choice.limit):
        return tasks
    from certigraph.evaluation.inspecting.dataset import stratified

    return stratified(tasks, choice.limit)


def order_in(folder: Path) -> Order:
    """The comparison that a folder was begun with.

    Raises:
        Fault: there is none, or it was begun on another machine.
    """
    plan, context = read_plan(folder), load_local(folder)
    for name in {context.model, *context.roles.values()}:
        ready(name)
    return Order(plan, context, load_benchmark(plan.benchmark, context.data))


def print_logs(paths: Sequence[Path], *, as_json: bool) -> None:
    """Compare finished evaluations by their logs. Raises Fault as `compare_logs` does."""
    show(compare_logs(paths), as_json=as_json)


def worked_off(given: Order, folder: Path, *, at_once: int, report_only: bool, as_json: bool) -> int:
    """Do what is left of a comparison unless only its report is wanted, and print it; the exit status."""
    if not report_only:
        carry_out(given, folder, at_once=at_once, silent=as_json)
    return print_comparison(given, folder, as_json=as_json)


def carry_out(given: Order, folder: Path, *, at_once: int = 1, silent: bool = False, part: Part = WHOLE) -> None:
    """Do what is left of a comparison, telling how it goes. Raises as `compare` does."""
    plan, context, benchmark, command = given
    settle(plan, folder, command)
    cells = cells_of(plan, folder)
    waiting = left(cells)
    rows = rows_of(plan, folder) if 0 < len(waiting) < len(cells) else []
    with watching(plan, waiting, rows, at_once=at_once, silent=silent) as listener:
        compare(plan, context, benchmark, folder, told=listener, at_once=at_once, command=command, part=part)


def print_comparison(given: Order, folder: Path, *, as_json: bool) -> int:
    """Write the report and print its table; the exit status: 1 while runs are left."""
    findings = report(given.plan, folder)
    show(findings.comparison, findings.estimates, as_json=as_json)
    if not as_json:
        Console(highlight=False, soft_wrap=True).print(f"report: {folder / PAGE}", style="dim", markup=False)
    return 1 if findings.comparison.left else 0


def show(comparison: Comparison, estimates: Sequence[Estimate] = (), *, as_json: bool) -> None:
    """Print the tables, or one JSON object."""
    if as_json:
        typer.echo(json.dumps(plain(comparison, estimates), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED)
    console.print(told(comparison), *tables(comparison, estimates), sep="\n\n", markup=False)
    for warning in comparison.warnings:
        console.print(f"\nwarning: {warning}", markup=False, soft_wrap=True)
