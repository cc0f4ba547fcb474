"""Methods side by side."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import AsJson, BenchmarkName, Budgets, Cache, Data, GraphName, Model, Roles, Split, Tasks
from certigraph.evaluation.extras import TABLES, equipped
from certigraph.state.endings import UnknownName

Limit = Annotated[int, typer.Option(min=0, help="Number of tasks, the first ones; 0: all.")]
Trials = Annotated[int, typer.Option(min=1, help="Runs of each method on each task.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, help="Runs under way at a time; for endpoints that can.")]
ReportOnly = Annotated[bool, typer.Option("--report-only", help="Run nothing; report what is there.")]


def compare_command(
    graphs: Annotated[
        list[str] | None, typer.Argument(metavar="GRAPH...", help="GRAPH or NAME=GRAPH, or LOG.eval.")
    ] = None,
    on: Annotated[str, typer.Option(metavar="BENCHMARK", help="Or BENCHMARK:CONFIGURATION.")] = "blocksworld",
    split: Split = "",
    task: Tasks = None,
    limit: Limit = 0,
    trials: Trials = 1,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    swap: Annotated[list[str] | None, typer.Option(help="GRAPH:SLOT=OPERATOR: step:planner=none.")] = None,
    out: Annotated[Path, typer.Option(help="The comparison's folder; one begun there goes on.")] = Path("comparison"),
    at_once: AtOnce = 1,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run methods on the same tasks with the same budget; started again, it goes on where it stopped.

    Given two or more logs of `certigraph eval` (LOG.eval) instead of graphs, it compares those and writes nothing.
    """
    equipped("comparisons", *TABLES)
    from certigraph.cli.watched import said_source
    from certigraph.evaluation.budgets import context_from
    from certigraph.evaluation.comparing.command import Choice, order, order_in, print_logs, worked_off
    from certigraph.evaluation.comparing.plan import methods_from

    if logs := [name for name in graphs or [] if name.endswith(".eval")]:
        if len(logs) < 2 or len(logs) < len(graphs or []):
            raise UnknownName(f"logs are compared with each other: certigraph compare {logs[0]} OTHER.eval")
        equipped("logs", "inspect_ai")
        print_logs([Path(name) for name in logs], as_json=as_json)
        return
    if graphs and not report_only:
        said_source(on, data)
        methods = methods_from(graphs, swap or [])
        choice = Choice(task or [], split, limit, trials)
        given = order(methods, on, choice, context_from(model, role, data, budget, on, cache))
    else:
        given = order_in(out)
    raise typer.Exit(worked_off(given, out, at_once=at_once, report_only=report_only, as_json=as_json))


def ablate_command(
    graph: GraphName,
    benchmark: BenchmarkName,
    swap: Annotated[
        list[str] | None, typer.Option(help="A variant: SLOT=OPERATOR, several joined by +; sdp has three by default.")
    ] = None,
    split: Split = "",
    task: Tasks = None,
    limit: Limit = 0,
    trials: Trials = 1,
    model: Model = "simulated",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="The ablation's folder; one begun there goes on.")] = Path("ablation"),
    at_once: AtOnce = 1,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run a graph and its variants, an operator exchanged in each, on the same tasks; beside it what a replay says."""
    equipped("comparisons", *TABLES)
    from certigraph.cli.watched import said_source
    from certigraph.evaluation.ablating.variants import variants
    from certigraph.evaluation.budgets import context_from
    from certigraph.evaluation.comparing.command import Choice, order, order_in, worked_off

    if report_only:
        given = order_in(out)
    else:
        said_source(benchmark, data)
        methods, choice = variants(graph, swap or []), Choice(task or [], split, limit, trials)
        given = order(methods, benchmark, choice, context_from(model, role, data, budget, benchmark, cache))
    raise typer.Exit(worked_off(given, out, at_once=at_once, report_only=report_only, as_json=as_json))
