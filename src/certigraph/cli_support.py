"""What the commands share: reading options, the live view, and printing results."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from certigraph.adapters.benchmarks import BENCHMARKS, data_folder, load_benchmark
from certigraph.adapters.context import ROLES, Budget, Context
from certigraph.adapters.models.chat import FORMS, check_model, ready
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.recorder import Listener
from certigraph.evaluation.report.report import write_report
from certigraph.evaluation.result import Result
from certigraph.evaluation.settings import GRAPHS, OPERATORS, build_graph, load_local, operators_of
from certigraph.state.endings import Interrupted, UnknownName
from certigraph.state.trajectory import Line, read_trajectory

R = TypeVar("R", Budget, Limits)


def context_from(
    model: str, roles: Sequence[str] | None, data: str | None, budget: Sequence[str] | None, benchmark: str
) -> Context:
    """The context of a run from the command line's options."""
    named = {role: check_model(name) for role, name in _pairs(roles, "--role executor=local").items()}
    if unknown := sorted(set(named) - set(ROLES)):
        raise UnknownName(f"no role {unknown[0]!r}; known: {', '.join(ROLES)}")
    for name in {model, *named.values()}:
        ready(name)
    amounts = _amounts(budget)
    limits = _changed(load_benchmark(benchmark, data).limits, amounts)
    return Context(model=check_model(model), roles=named, data=data, budget=_changed(Budget(), amounts), limits=limits)


def enlarged(folder: Path, budget: Sequence[str] | None) -> tuple[Budget, Limits]:
    """Budget and limits of a recorded run with the given changes."""
    read_trajectory(folder / "trajectory.jsonl")
    context, amounts = load_local(folder), _amounts(budget)
    return _changed(context.budget, amounts), _changed(context.limits or Limits(), amounts)


@contextmanager
def watching(out: Path, limits: Limits | None, *, silent: bool) -> Iterator[Listener]:
    """A listener that shows the run, unless nothing but JSON may be printed.

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on with it.
    """
    from certigraph.evaluation.live.view import LiveView

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


def finish(result: Result, *, as_json: bool) -> None:
    """Write the report, print the outcome, and leave with the status that says it."""
    report = write_report(result.trajectory, result.folder / "report.html")
    if as_json:
        typer.echo(json.dumps(_summary(result), ensure_ascii=False))
    else:
        console = Console(highlight=False, soft_wrap=True)
        if result.message:
            console.print(result.message, markup=False)
        console.print(f"report: {report}", style="dim", markup=False)
    raise typer.Exit(0 if result.terminated else 1)


def print_figures(title: str, figures: Mapping[str, float], *, as_json: bool) -> None:
    """One object of figures, or a table of them."""
    if as_json:
        typer.echo(json.dumps(dict(figures)))
        return
    table = Table("figure", title, box=None)
    for name, value in figures.items():
        table.add_row(name, f"{value:g}" if name == "n" or value > 1 else f"{value:.1%}")
    Console().print(table)


def print_evaluations(done: Sequence[Any], *, as_json: bool) -> None:
    """The figures of the first evaluation, those of the others beside it."""
    first, *others = done
    if as_json:
        beside = {other.benchmark: other.figures for other in others}
        figures = {**first.figures, "n": first.n, "endings": first.endings}
        typer.echo(json.dumps({**figures, **({"beside": beside} if beside else {})}))
        return
    table = Table("figure", *(evaluation.benchmark for evaluation in done), box=None)
    for name in first.figures:
        table.add_row(name, *(_shown(name, evaluation.figures[name]) for evaluation in done))
    Console().print(table)
    for evaluation in done:
        endings = ", ".join(f"{count} {ending}" for ending, count in evaluation.endings.items())
        typer.echo(f"{evaluation.benchmark}, {evaluation.model}: {endings}")
        Console(highlight=False, soft_wrap=True).print(f"log: {evaluation.log}", style="dim", markup=False)


def inventory() -> dict[str, Any]:
    """Everything that a command line may name."""
    return {
        "graphs": {name: list(operators_of(build_graph(name))) for name in GRAPHS},
        "benchmarks": {name: list(load_benchmark(name).configurations) for name in BENCHMARKS},
        "operators": sorted(OPERATORS),
        "models": FORMS.split(", "),
    }


def print_inventory(found: Mapping[str, Any], *, as_json: bool) -> None:
    """The inventory as one object or as lines."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    for title, names in found.items():
        typer.echo(f"{title}:")
        for name in names:
            more = ", ".join(names[name]) if isinstance(names, dict) else ""
            typer.echo(f"  {name}{': ' + more if more else ''}")


def _summary(result: Result) -> dict[str, Any]:
    state = result.state
    return {
        "ending": result.ending,
        "terminated": result.terminated,
        "message": result.message,
        "run": str(result.folder),
        "certified": len(result.states[-1].predicates),
        "plan": len(state.get("plan", [])),
        "steps": len(state.get("history", [])),
        "scores": result.scores.model_dump() if result.scores else None,
        "usage": result.usage.model_dump(exclude={"node"}),
    }


def _shown(name: str, value: float) -> str:
    return f"{value:g}" if name == "n" else f"{value:.1%}"


def _pairs(texts: Sequence[str] | None, example: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts or []]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise UnknownName(f"{bad[0]!r} is not KEY=VALUE; write for example {example}")
    return {name: value for name, _, value in pairs}


def _amounts(budget: Sequence[str] | None) -> dict[str, str]:
    amounts = _pairs(budget, "--budget steps=120")
    known = {*Budget.model_fields, *Limits.model_fields}
    if unknown := sorted(set(amounts) - known):
        raise UnknownName(f"no budget {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return amounts


def _changed(record: R, amounts: Mapping[str, str]) -> R:
    kind = type(record)
    mine = {key: value for key, value in amounts.items() if key in kind.model_fields}
    try:
        return kind.model_validate({**record.model_dump(), **mine})
    except ValidationError as error:
        first = error.errors()[0]
        raise UnknownName(f"--budget {first['loc'][0]}={first['input']}: {first['msg']}") from error
