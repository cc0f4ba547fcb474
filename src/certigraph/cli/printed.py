"""What a command prints at its end: an outcome or figures, as text or as one JSON object."""

import json
from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from certigraph.adapters.models.chat import is_scripted
from certigraph.cli.answered import closing_fields, delivered_lines, print_closing
from certigraph.evaluation.asking import closing_of
from certigraph.evaluation.live.text import harmless
from certigraph.evaluation.methods import SCORES
from certigraph.evaluation.naming import REPORT
from certigraph.evaluation.report.graded import is_denied, is_own, is_solved, verdict_on
from certigraph.evaluation.report.report import write_report
from certigraph.evaluation.report.task_graph import read_task_graph
from certigraph.evaluation.result import Result
from certigraph.state.endings import WORLD_ENDED


def finish(result: Result, *, as_json: bool) -> None:
    """Write the report, print the outcome, and leave with the status that says it."""
    report = write_report(result.trajectory, result.folder / REPORT)
    if as_json:
        typer.echo(json.dumps(_summary(result), ensure_ascii=False))
    else:
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        if result.message:
            console.print(harmless(result.message), markup=False)
        _print_answer(result, console)
        console.print(f"report: {report}", style="dim", markup=False)
    raise typer.Exit(0 if result.terminated or _handed_in(result) else 1)


def _print_answer(result: Result, console: Console) -> None:
    header = result.trajectory.header
    if is_own(header) or result.findings:
        if console.is_terminal:  # the picture of a run cuts long questions; its plain lines begin with the whole one
            console.print(harmless(f"question: {header.task.goal}"), markup=False)
        print_closing(closing_of(result))
    elif result.scores:
        for line in delivered_lines(result.scores.answer):
            console.print(line, markup=False)


def _handed_in(result: Result) -> bool:
    """Whether an answer, or rewards, were handed in by the method itself: all that one without a goal can do."""
    answered = bool(result.scores and result.scores.parts.get("answered"))
    return result.ending == WORLD_ENDED and (answered or bool(result.state.get("rewards")))


def _progress(result: Result) -> dict[str, Any]:
    """World steps; of a task graph those of all its sub-tasks, in copies of the world too, and how these stand."""
    tasks = read_task_graph(result.trajectory)
    if not tasks.drawn:
        return {"steps": len(result.state.get("history", []))}
    stand = ("completed", "failed", "working", "pending", "removed")
    return {"steps": tasks.steps, "subtasks": {status: tasks.count(status) for status in stand}}


def print_figures(
    title: str, figures: Mapping[str, float], intervals: Mapping[str, tuple[float, float]], *, as_json: bool
) -> None:
    """One object of figures with their 95 % intervals, or a table of them."""
    if as_json:
        typer.echo(json.dumps({**figures, "intervals": intervals, "statistics": SCORES}))
        return
    table = Table("figure", title, "95 % interval", box=None)
    for name, value in figures.items():
        between = " to ".join(f"{bound:.1%}" for bound in intervals.get(name, ()))
        table.add_row(name, f"{value:g}" if name == "n" else f"{value:.1%}", between)
    Console().print(table)
    typer.echo(f"intervals: {SCORES['intervals']}")


def _summary(result: Result) -> dict[str, Any]:
    state, header = result.state, result.trajectory.header
    model = str(header.context.get("model"))
    return {
        "graph": header.graph,
        "benchmark": header.task.benchmark,
        "task": header.task.id,
        "question": header.task.goal,
        "model": model,
        "language_model": not is_scripted(model),
        "ending": result.ending,
        "terminated": result.terminated,
        "goal_denied": is_denied(result.ending, is_solved(verdict_on(header, result.trajectory.footer))),
        "message": result.message,
        "run": str(result.folder),
        "certified": len(result.certified.predicates),
        "plan": len(state.get("plan", [])),
        **_progress(result),
        "scores": result.scores.model_dump() if result.scores else None,
        "usage": result.usage.model_dump(exclude={"node"}),
        **(closing_fields(closing_of(result)) if is_own(header) else {}),
    }
