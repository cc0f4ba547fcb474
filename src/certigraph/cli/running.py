"""One run: start it, go on with it, report it."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import (
    AsJson,
    BenchmarkName,
    Budgets,
    Cache,
    Data,
    Faults,
    GraphName,
    Model,
    Out,
    Roles,
    Swaps,
)


def run_command(
    graph: GraphName,
    benchmark: BenchmarkName,
    task: Annotated[str | None, typer.Option(help="Task id; the first task otherwise.")] = None,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    out: Out = Path("runs"),
    swap: Swaps = None,
    budget: Budgets = None,
    cache: Cache = None,
    faults: Faults = "",
    as_json: AsJson = False,
) -> None:
    """Run a graph on one task and watch predicates turn certified."""
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.cli.printed import finish
    from certigraph.cli.watched import said_source, watching
    from certigraph.evaluation.budgets import context_from
    from certigraph.evaluation.run import run
    from certigraph.evaluation.settings import build_graph, check_encoders, parse_swap
    from certigraph.evaluation.shipped import SEARCHES, must_take_answers
    from certigraph.graphs.assembly import operators_of

    compiled = build_graph(graph, dict(map(parse_swap, swap or [])))
    check_encoders(operators_of(compiled))
    context = context_from(model, role, data, budget, benchmark, cache).model_copy(update={"faults": faults})
    if graph in SEARCHES:
        must_take_answers(graph, load_benchmark(benchmark, data))
    said_source(benchmark, data)
    with watching(out, context.limits, silent=as_json) as listener:
        result = run(compiled, benchmark, task, context=context, out=out, listener=listener, on_error="ignore")
    finish(result, as_json=as_json)


def resume_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    budget: Budgets = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was killed, interrupted or stopped by its budget."""
    from certigraph.cli.asked import enlarged
    from certigraph.cli.printed import finish
    from certigraph.cli.watched import watching
    from certigraph.evaluation.resume import resume

    budget_now, limits = enlarged(folder, budget)
    with watching(folder.parent, limits, silent=as_json) as listener:
        result = resume(folder, budget=budget_now, limits=limits, listener=listener, on_error="ignore")
    finish(result, as_json=as_json)


def report_command(folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]) -> None:
    """Write the HTML report of a run anew."""
    from certigraph.evaluation.naming import REPORT
    from certigraph.evaluation.report.report import write_report
    from certigraph.state.reading import read_trajectory

    typer.echo(write_report(read_trajectory(folder / "trajectory.jsonl"), folder / REPORT))
