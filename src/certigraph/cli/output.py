"""Output of commands: progress, outcomes and figures."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import typer
from pydantic import JsonValue
from rich.console import Console
from rich.table import Table

from certigraph.adapters.benchmarks import BENCHMARKS, data_folder, load_benchmark
from certigraph.adapters.models.chat_models import FORMS, describe_models, is_scripted
from certigraph.adapters.protocols import Budget, Limits
from certigraph.evaluation.measures import SCORES
from certigraph.runtime.files import REPORT
from certigraph.runtime.html import answer_texts, clock, contradiction, counted
from certigraph.runtime.questions import Closing, Cost, closing_of
from certigraph.runtime.recorder import Listener
from certigraph.runtime.registry import GRAPHS, OPERATORS, Allowance, allowance, graph_module, load_local
from certigraph.runtime.report import write_report
from certigraph.runtime.result import ASK, Result, is_denied, is_own, is_solved, verdict_on
from certigraph.runtime.task_graph import read_task_graph
from certigraph.runtime.terminal import clean, harmless
from certigraph.state.records import WORLD_ENDED, Interrupted
from certigraph.state.run import Known
from certigraph.state.search import BY_GATE, BY_METHOD, BY_ROUNDS, BY_STEPS
from certigraph.state.trajectory import Line, read_trajectory

# What a recorded run is gone on with.


def enlarged(folder: Path, budget: Sequence[str] | None) -> Allowance:
    """Budget and limits of a recorded run with the given changes."""
    read_trajectory(folder / "trajectory.jsonl")
    context = load_local(folder)
    return allowance(budget or [], context.limits or Limits(), context.budget)


# Everything that a command line may name.


def inventory() -> dict[str, Any]:
    """Everything that a command line may name."""
    return {
        "graphs": {name: list(graph_module(name).Operators.__annotations__) for name in GRAPHS},
        "benchmarks": {name: list(load_benchmark(name).configurations) for name in BENCHMARKS if name != ASK},
        "questions of your own": {ASK: f'certigraph {ASK} "QUESTION"'},
        "operators": {name: _described(OPERATORS[name]) for name in sorted(OPERATORS)},
        "models": FORMS.split(", "),
        "budget": {name: str(field.description) for name, field in sorted(_AMOUNTS.items())},
    }


def print_inventory(found: Mapping[str, Any], *, as_json: bool) -> None:
    """The inventory as one object or as lines."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    for title, names in found.items():
        typer.echo(f"{title}:")
        for name in names:
            told = names[name] if isinstance(names, dict) else ""
            more = told if isinstance(told, str) else ", ".join(told)
            typer.echo(f"  {name}{': ' + more if more else ''}")


_AMOUNTS = {**Budget.model_fields, **Limits.model_fields}


def _described(operator: Callable[..., Any]) -> str:
    """What an operator does, in the first line of its docstring; the arguments of one that is made with some."""
    does = (inspect.getdoc(operator) or "").partition("\n")[0]
    if not getattr(operator, "makes_operator", False):
        return does
    arguments = ", ".join(inspect.signature(operator).parameters)
    return f"{does} Arguments: {arguments}."


# What is shown while a run goes on, and what is said before it.


@contextmanager
def watching(out: Path, limits: Limits | None, *, silent: bool) -> Iterator[Listener]:
    """A listener that shows the run, unless nothing but JSON may be printed.

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on with it.
    """
    from certigraph.runtime.live import LiveView

    view = LiveView(steps=limits.steps if limits else None)
    runs: list[str] = []

    def listener(line: Line) -> None:
        if line.type == "header":
            runs.append(line.run_id)
        if not silent:
            view(line)

    try:
        with nullcontext() if silent else view:
            yield listener
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: certigraph resume {out / ''.join(runs)}") from None


def said_source(benchmark: str, data: str | None) -> None:
    """Say in one line where a benchmark's data comes from, or that it is generated."""
    name = benchmark.partition(":")[0]
    if data_folder(name, data) is None and not getattr(load_benchmark(benchmark, data), "simulated", False):
        told = f"{name}: generated world (no --data, and no {name}/ under CERTIGRAPH_DATA)"
        Console(stderr=True, highlight=False, soft_wrap=True).print(told, style="dim", markup=False)


def announce_models(model: str, roles: Sequence[str] | None) -> None:
    """Print in one line which models answer where a script is among them, before a long command begins."""
    named = {role: name for role, _, name in (text.partition("=") for text in roles or ())}
    if any(map(is_scripted, (model, *named.values()))):
        console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        console.print(describe_models(model, named), style="dim", markup=False)


# What a question of one's own came to, as lines or as the fields of a JSON object.

FORCED = {
    BY_STEPS: "the steps were used up",
    BY_METHOD: "the plan was given up",
    BY_GATE: "the gate ended the search",
    BY_ROUNDS: "the rounds were used up",
}
"""What forced an answer, where it was no policy of that name."""

LONGEST = 4_000
"""Characters of one line: what a page or a model wrote has no end of its own."""


def print_closing(closing: Closing) -> None:
    """The answer, each finding with its sources, what nobody certified, the cost, and how to go on."""
    console = Console(highlight=False, soft_wrap=True, emoji=False)
    for line in closing_lines(closing):
        console.print(line, markup=False)


def closing_fields(closing: Closing) -> dict[str, Any]:
    """The same as JSON values."""
    findings = [{**k.finding.model_dump(), "certified": not k.forced, "forced": k.forced} for k in closing.findings]
    return {**closing.model_dump(mode="json"), "findings": findings}


def closing_lines(closing: Closing) -> Iterator[str]:
    """The summary, line by line."""
    yield from _answer(closing)
    for known in closing.findings:
        yield from _finding(known)
    yield from (clean(f"not settled: {step}", LONGEST) for step in closing.unsettled)
    yield f"cost: {_spent(closing.cost)}"
    yield f"run: {closing.run}"
    if closing.resume:
        yield f"go on with: {closing.resume}"


def delivered_lines(answer: JsonValue) -> Iterator[str]:
    """What a run handed in, a part a line; nothing where it handed in nothing."""
    if isinstance(answer, list) and all(isinstance(part, dict) for part in answer):
        for part in answer:
            told = "; ".join(f"{name}: {value}" for name, value in part.items())  # type: ignore[union-attr]
            yield clean(f"answer: {told}", LONGEST)
    elif not isinstance(answer, dict):  # an object is the world's own record, as of rewards, and nobody's answer
        yield from (f"answer: {clean(text, LONGEST)}" for text in answer_texts(answer) if text)


def _answer(closing: Closing) -> Iterator[str]:
    answers = [clean(text, LONGEST) for text in answer_texts(closing.answer) if text]
    if not answers:
        yield "no answer was given"
    elif closing.answer_certified:
        yield from (f"answer: {text}" for text in answers)
    else:
        reason = FORCED.get(closing.answer_forced, clean(closing.answer_forced))
        forced = f" ({reason})" if reason else ""
        yield from (f"answer, uncertified{forced}: {text}" for text in answers)


def _finding(known: Known) -> Iterator[str]:
    found = known.finding
    mark = f"uncertified ({known.forced})" if known.forced else "certified"
    yield clean(f"{mark}: {found.about} → {found.text}", LONGEST)
    yield from (f"  {clean(url, LONGEST)}" for url in found.sources)
    if told := contradiction(found):
        yield f"  {clean(told, LONGEST)}"


def _spent(cost: Cost) -> str:
    failed = f" ({cost.unreadable} unreadable)" if cost.unreadable else ""
    usd = f"${cost.usd:,.4f}" if 0 < cost.usd < 1 else f"${cost.usd:,.2f}"
    return ", ".join(
        [
            counted(cost.calls, "model call"),
            counted(cost.tokens, "token"),
            usd,
            f"{cost.searches:,} search{'' if cost.searches == 1 else 'es'}",
            f"{counted(cost.pages, 'page')} asked for{failed}",
            clock(cost.seconds),
        ]
    )


# What a command prints at its end: an outcome or figures, as text or as one JSON object.


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
