"""An evaluation as the table that `certigraph eval` prints: every figure with its interval and what it is over."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

import typer
from rich.console import Console
from rich.table import Table

from certigraph.adapters.models.chat import describe_model, is_scripted
from certigraph.evaluation.faults import share_text
from certigraph.evaluation.inspecting.evaluation import Evaluation
from certigraph.evaluation.methods import EVALUATION
from certigraph.evaluation.precision import NONE, GoalPrecision
from certigraph.evaluation.report.html import counted

REASONS = 3
"""Different messages of failed runs that are shown; `certigraph report RUN` tells of every one."""

MESSAGE = 300
"""Characters of each."""


def print_evaluations(done: Sequence[Evaluation], *, as_json: bool) -> None:
    """The figures of the first evaluation, those of the others beside it."""
    if as_json:
        typer.echo(json.dumps(_as_json(done)))
        return
    for evaluation in done:
        about = f"{evaluation.graph} on {evaluation.benchmark}, model {describe_model(evaluation.model)}"
        Console(highlight=False, soft_wrap=True, emoji=False).print(about, markup=False)
    names = dict.fromkeys(name for evaluation in done for name in evaluation.figures if not _told_elsewhere(name))
    table = Table("figure", box=None)
    for evaluation in done:
        table.add_column(evaluation.benchmark, justify="right")
        table.add_column("95 % interval")
    for name in names:
        table.add_row(name, *(cell for evaluation in done for cell in _cells(evaluation, name)))
    table.add_row("goal precision", *(cell for evaluation in done for cell in _precision(evaluation.goals)))
    table.add_row("n", *(cell for evaluation in done for cell in (str(evaluation.n), _counted(evaluation))))
    faults = [share_text(evaluation.faults, len(evaluation.rows)) for evaluation in done]
    table.add_row("faults", *(cell for share in faults for cell in (share, "runs that no figure counts")))
    Console().print(table)
    for evaluation in done:
        endings = ", ".join(f"{count} {ending}" for ending, count in evaluation.endings.items())
        typer.echo(f"{evaluation.benchmark}, {evaluation.model}: {endings}")
        for warning in evaluation.warnings:
            Console(highlight=False, soft_wrap=True).print(f"warning: {warning}", markup=False)
        for reason in _reasons(evaluation):
            Console(highlight=False, soft_wrap=True).print(f"  {reason}", markup=False)
        label = "go on with what failed: certigraph eval --retry" if evaluation.failed else "log:"
        Console(highlight=False, soft_wrap=True).print(f"{label} {evaluation.log}", style="dim", markup=False)


def _cells(evaluation: Evaluation, name: str) -> tuple[str, str]:
    if name not in evaluation.figures:
        return "", ""
    value, interval = evaluation.figures[name], evaluation.intervals.get(name)
    return f"{value:.1%}", f"{interval[0]:.1%} to {interval[1]:.1%}" if interval else "too few tasks or no spread"


def _precision(goals: GoalPrecision) -> tuple[str, str]:
    if goals.value is None:
        return NONE, ""
    return f"{goals.value:.1%}", f"{goals.low:.1%} to {goals.high:.1%} of {counted(goals.n, 'run')} ending goal"


def _told_elsewhere(name: str) -> bool:
    """Whether a figure is no row of its own: the number of runs, and standard errors, for which intervals stand."""
    return name == "n" or name.endswith("_stderr")


def _reasons(evaluation: Evaluation) -> Iterator[str]:
    """What runs that failed said, the most frequent first."""
    said = Counter(" ".join((row.footer.message or row.ending).split())[:MESSAGE] for row in evaluation.failed)
    yield from (f"{count} x {message}" for message, count in said.most_common(REASONS))


def _counted(evaluation: Evaluation) -> str:
    tasks = f"{evaluation.tasks} task{'s' if evaluation.tasks != 1 else ''}"
    return f"runs, {tasks}, {evaluation.trials} trials each" if evaluation.trials > 1 else f"runs, {tasks}"


def _as_json(done: Sequence[Evaluation]) -> dict[str, object]:
    first, *others = done
    about = {
        "graph": first.graph,
        "benchmark": first.benchmark,
        "model": first.model,
        "language_model": not is_scripted(first.model),
        "statistics": EVALUATION,
    }
    beside = {other.benchmark: _counts(other) for other in others}
    return {**about, **_counts(first), **({"beside": beside} if beside else {})}


def _counts(evaluation: Evaluation) -> dict[str, object]:
    """What one configuration came to, whether it is the first or another."""
    return {
        **evaluation.figures,
        "n": evaluation.n,
        "runs": len(evaluation.rows),
        "faults": evaluation.faults,
        "tasks": evaluation.tasks,
        "trials": evaluation.trials,
        "goal_precision": evaluation.goals.model_dump(),
        "endings": evaluation.endings,
        "intervals": evaluation.intervals,
        "log": evaluation.log,
        **({"warnings": list(evaluation.warnings)} if evaluation.warnings else {}),
    }
