"""Methods side by side."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import AsJson, Budgets, Data, Model, Roles


def compare_command(
    graphs: Annotated[list[str] | None, typer.Argument(metavar="GRAPH...", help="GRAPH or NAME=GRAPH.")] = None,
    on: Annotated[str, typer.Option(metavar="BENCHMARK", help="Or BENCHMARK:CONFIGURATION.")] = "blocksworld",
    split: Annotated[str, typer.Option(help="Split of the tasks; the benchmark's default otherwise.")] = "",
    task: Annotated[list[str] | None, typer.Option(help="Task id, in place of a split; again for more.")] = None,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    swap: Annotated[list[str] | None, typer.Option(help="GRAPH:SLOT=OPERATOR: step:planner=none.")] = None,
    out: Annotated[Path, typer.Option(help="The comparison's folder; one begun there goes on.")] = Path("comparison"),
    report_only: Annotated[bool, typer.Option("--report-only", help="Run nothing; report what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run methods on the same tasks with the same budget; started again, it goes on where it stopped."""
    from certigraph.cli.asked import context_from
    from certigraph.cli.watched import said_source
    from certigraph.evaluation.comparing.command import carry_out, order, order_in, print_comparison

    if graphs and not report_only:
        said_source(on, data)
        given = order(graphs, on, split, task or [], swap or [], context_from(model, role, data, budget, on))
    else:
        given = order_in(out)
    if not report_only:
        carry_out(given, out, silent=as_json)
    raise typer.Exit(print_comparison(given, out, as_json=as_json))
