"""What `certigraph sweep` does between its options and its table."""

import json
from collections.abc import Iterator
from pathlib import Path

import typer
from rich.console import Console

from certigraph.adapters.models.chat import is_scripted
from certigraph.evaluation.comparing.cells import left
from certigraph.evaluation.comparing.command import PIPED
from certigraph.evaluation.comparing.spreading import Workers
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.sweeping.driving import (
    Arm,
    Prepared,
    begun_in,
    carried_out,
    held,
    must_be_unchanged,
    prepared,
)
from certigraph.evaluation.sweeping.files import plain
from certigraph.evaluation.sweeping.findings import SweepFindings
from certigraph.evaluation.sweeping.page import FILE
from certigraph.evaluation.sweeping.sweep import reported
from certigraph.evaluation.sweeping.table import tables, told
from certigraph.state.endings import Fault


def worked_off(
    file: Path, out: Path | None, workers: Workers | None = None, *, report_only: bool, as_json: bool
) -> int:
    """Do what is left of a sweep unless only its report is wanted, and print it; exit status 1 while runs are left."""
    given = prepared(file, out, workers)
    if report_only and not begun_in(given.out):
        raise Fault("data", f"{given.out} holds no sweep: begin it with {given.go_on}")
    if report_only:
        held(given)
    stopped = [] if report_only else carried_out(given, silent=as_json)
    findings = reported(given, stopped)
    _show(findings, as_json=as_json)
    return 1 if findings.left else 0


def forecast(file: Path, out: Path | None, *, as_json: bool) -> int:
    """Print what a sweep would run and what it may cost at most; exit status 0. Nothing is run or imported."""
    given = prepared(file, out, import_own=False)
    must_be_unchanged(given)
    if as_json:
        typer.echo(json.dumps(_plain_forecast(given), ensure_ascii=False))
    else:
        Console(highlight=False, soft_wrap=True).print(*_forecast(given), sep="\n", markup=False)
    return 0


def _show(findings: SweepFindings, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(plain(findings), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED)
    console.print(told(findings), *tables(findings), sep="\n\n", markup=False)
    for one in findings.found:
        for warning in one.comparison.warnings:
            console.print(f"\nwarning: {one.title}: {warning}", markup=False, soft_wrap=True)
    last = Console(highlight=False, soft_wrap=True)
    for line in findings.stopped:
        last.print(f"\n{line}", style="yellow", markup=False)
    last.print(f"report: {findings.out / FILE}", style="dim", markup=False)


def _forecast(given: Prepared) -> Iterator[str]:
    plan = given.arms[0].order.plan
    yield f"{counted(len(plan.methods), 'method')}: {', '.join(method.name for method in plan.methods)}"
    yield from given.left_out
    for arm in given.arms:
        tasks, trials = len(arm.order.plan.tasks), f" x {plan.trials} trials" if plan.trials > 1 else ""
        done = len(arm.cells) - len(left(arm.cells))
        size = f"{counted(len(arm.cells), 'run')} ({len(plan.methods)} methods x {counted(tasks, 'task')}{trials})"
        yield f"{arm.title}: {size}, {done} done"
    yield _at_most(given)


def _at_most(given: Prepared) -> str:
    waiting = sum(len(left(arm.cells)) for arm in given.arms)
    budget = given.arms[0].order.plan.budget
    told = f"{counted(waiting, 'run')} to go"
    if is_scripted(given.sweep.model):
        return told
    most = f"{told}, at most {counted(waiting * budget.calls, 'call')}, {waiting * budget.tokens:,} tokens"
    shared = ", ".join(f"{value:,.12g} {kind}" for kind, value in given.sweep.most.as_json().items())
    return f"{most} and {waiting * budget.usd:,.2f} usd" + (f"; together no more than {shared}" if shared else "")


def _plain_forecast(given: Prepared) -> dict[str, object]:
    plan = given.arms[0].order.plan
    waiting = {arm.title: len(left(arm.cells)) for arm in given.arms}
    return {
        "methods": [method.name for method in plan.methods],
        "left_out": list(given.left_out),
        "benchmarks": [_planned(arm, waiting[arm.title]) for arm in given.arms],
        "runs_left": sum(waiting.values()),
        "calls_at_most": sum(waiting.values()) * plan.budget.calls,
        "usd_at_most": sum(waiting.values()) * plan.budget.usd,
        "most": given.sweep.most.as_json(),
    }


def _planned(arm: Arm, waiting: int) -> dict[str, object]:
    return {"name": arm.title, "tasks": list(arm.order.plan.tasks), "runs": len(arm.cells), "left": waiting}
