"""A benchmark: run it, score answers made elsewhere, measure the machinery."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.options import AsJson, BenchmarkName, Data, GraphName, Model, Out, Swaps
from certigraph.state.endings import UnknownName


def eval_command(
    graph: GraphName,
    benchmark: BenchmarkName,
    model: Model = "scripted:expert",
    data: Data = None,
    split: Annotated[str, typer.Option(help="Split of the tasks; the benchmark's default otherwise.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Number of tasks.")] = None,
    stratify: Annotated[bool, typer.Option(help="Spread the limit over difficulty and length.")] = False,
    beside: Annotated[list[str] | None, typer.Option(help="A configuration to print beside: paper.")] = None,
    swap: Swaps = None,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Run a graph on a benchmark's tasks under inspect_ai and print the official figures."""
    from certigraph.cli.printed import print_evaluations
    from certigraph.cli.watched import said_source
    from certigraph.evaluation.evaluate import evaluate

    said_source(benchmark, data)
    names = [benchmark, *(f"{benchmark.partition(':')[0]}:{name}" for name in beside or [])]
    done = [
        evaluate(
            graph,
            name,
            model=model,
            data=data,
            split=split,
            limit=limit,
            stratify=stratify,
            swaps=swap or [],
            out=out,
            quiet=as_json,
        )
        for name in names
    ]
    print_evaluations(done, as_json=as_json)
    raise typer.Exit(1 if any(evaluation.failed for evaluation in done) else 0)


def score_command(
    benchmark: BenchmarkName,
    plans: Annotated[Path, typer.Option(help="JSONL with `idx` and `plan`.")],
    data: Data = None,
    split: Annotated[str, typer.Option(help="Split of the queries; validation otherwise.")] = "",
    as_json: AsJson = False,
) -> None:
    """Score answers made elsewhere by the benchmark's official rules."""
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.cli.printed import print_figures
    from certigraph.cli.watched import said_source

    said_source(benchmark, data)
    live = load_benchmark(benchmark, data)
    scorer = getattr(live, "score_file", None)
    if scorer is None:
        raise UnknownName(f"benchmark {benchmark!r} scores no files; travelplanner does")
    print_figures(f"{benchmark}: {plans.name}", scorer(plans, split), as_json=as_json)


def bench_command(
    supersteps: Annotated[int, typer.Option(min=50, help="Supersteps of each loop.")] = 1_000,
    big: Annotated[bool, typer.Option(help="Also a store of 300 cities and 3.8 million flights.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure certigraph's own machinery beside a bare LangGraph loop and a plain Python loop."""
    from certigraph.evaluation.bench.bench import bench, print_bench

    print_bench(bench(supersteps, big=big), as_json=as_json)
