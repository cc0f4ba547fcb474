"""What judging says while it goes on and at its end: means by method with 95 % intervals."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from certigraph.evaluation.judging.cases import Cases
from certigraph.evaluation.judging.judge import Judged, Told
from certigraph.evaluation.judging.judgements import Judgement
from certigraph.evaluation.judging.rubrics import TOP
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.statistics import Estimate, mean_of

WIDTH = 110
"""Columns that a row takes, also where there is no terminal."""


@contextmanager
def watching(total: int, *, silent: bool = False) -> Iterator[Told]:
    """A listener that shows how many of `total` answers are judged, where there is a terminal."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as progress:
        bar = progress.add_task("", total=total)
        yield lambda judgement: progress.advance(bar)


def means(judgements: Sequence[Judgement]) -> dict[str, Estimate]:
    """The mean score of each method, 0 to 100, with its interval; trials of a task are a cluster."""
    return {
        method: mean_of([j.score for j in group], [j.task for j in group], top=TOP)
        for method, group in by_method(judgements).items()
    }


def by_method(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Judgements by method, in the order in which methods first occur."""
    return {m: [j for j in judgements if j.method == m] for m in dict.fromkeys(j.method for j in judgements)}


def print_judged(judged: Judged, cases: Cases, out: str, *, as_json: bool) -> None:
    """One object, or a table and what was left out and why."""
    if as_json:
        typer.echo(json.dumps(_plain(judged, cases)))
        return
    Console(width=WIDTH, highlight=False).print(_table(judged.judgements))
    for line in _notes(judged, cases, out):
        typer.echo(line)


def _table(judgements: Sequence[Judgement]) -> Table:
    criteria = list(dict.fromkeys(name for j in judgements for name in j.parts))
    table = Table(Column("method", no_wrap=True), "n", "score", "95 % interval", *criteria, box=None)
    for method, group in by_method(judgements).items():
        mean = means(group)[method]
        between = "" if mean.low is None else f"{mean.low:.1f} to {mean.high:.1f}"
        parts = [f"{value:.2f}" for value in _parts(group, criteria).values()]
        table.add_row(method, str(mean.n), f"{mean.mean:.1f}", between, *parts)
    return table


def _parts(group: Sequence[Judgement], criteria: Sequence[str]) -> Mapping[str, float]:
    """Mean of each criterion over the answers that were given; a missing one counts 0."""
    return {name: fmean(j.parts.get(name, 0.0) for j in group) for name in criteria}


def _notes(judged: Judged, cases: Cases, out: str) -> Iterator[str]:
    if cases.unfinished:
        yield f"left out: {counted(cases.unfinished, 'run')} without an ending"
    if cases.unreferenced:
        yield f"left out: {counted(cases.unreferenced, 'run')} of questions without a reference answer"
    if cases.unknown:
        yield f"left out: {counted(len(cases.unknown), 'run')} without a question here, the first {cases.unknown[0]}"
    if judged.stopped:
        yield f"{counted(judged.left, 'answer')} not judged: {judged.stopped.ending}; the same command goes on"
    yield f"judgements: {out}"


def _plain(judged: Judged, cases: Cases) -> dict[str, Any]:
    found = {method: mean._asdict() for method, mean in means(judged.judgements).items()}
    stopped = judged.stopped.ending if judged.stopped else ""
    left_out = {"unfinished": cases.unfinished, "unreferenced": cases.unreferenced}
    return {"methods": found, "left": judged.left, **left_out, "stopped": stopped}
