"""A benchmark: run it, or score answers made elsewhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from certigraph.cli.options import (
    AsJson,
    BenchmarkName,
    Budgets,
    Cache,
    Data,
    Faults,
    Model,
    Roles,
    Split,
    Swaps,
    Tasks,
)
from certigraph.evaluation.extras import TABLES, equipped
from certigraph.state.endings import UnknownName

MALFORMED_SHOWN = 5
"""Malformed plans that `score` names."""


def eval_command(
    graph: Annotated[str | None, typer.Argument(metavar="GRAPH", help="`certigraph list` names them.")] = None,
    benchmark: Annotated[str | None, typer.Argument(metavar="BENCHMARK", help="Or BENCHMARK:CONFIGURATION.")] = None,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    split: Split = "",
    task: Tasks = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of tasks.")] = None,
    stratify: Annotated[bool, typer.Option(help="Spread the limit over difficulty and length.")] = False,
    trials: Annotated[int, typer.Option(min=1, help="Runs of each task.")] = 1,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also-config", metavar="CONFIG", help="Run this configuration of the benchmark too, as in paper; again."
        ),
    ] = None,
    beside: Annotated[list[str] | None, typer.Option(hidden=True, help="The old name of --also-config.")] = None,
    swap: Swaps = None,
    budget: Budgets = None,
    cache: Cache = None,
    faults: Faults = "",
    fail_on: Annotated[
        float | None, typer.Option("--fail-on", metavar="N|SHARE", help="Begin no more runs once so many failed.")
    ] = None,
    max_samples: Annotated[int | None, typer.Option("--max-samples", min=1, help="Runs at once.")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS|local", help="Have workers of a Ray cluster carry the runs out.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes there; one a processor by default.")
    ] = None,
    retry: Annotated[str | None, typer.Option(metavar="LOG", help="Finish the evaluation of this log.")] = None,
    out: Annotated[str, typer.Option(help="Folder, or URL of one, in which each run gets a folder.")] = "runs",
    as_json: AsJson = False,
) -> None:
    """Run a graph on a benchmark's tasks under inspect_ai and print the official figures with their intervals."""
    equipped("benchmarks", "inspect_ai", *TABLES)
    from certigraph.cli.watched import announce_models, said_source
    from certigraph.evaluation.evaluate import evaluate, evaluate_retry
    from certigraph.evaluation.inspecting.table import print_evaluations

    if retry and graph:
        raise UnknownName(f"--retry finishes an evaluation as it was begun: certigraph eval --retry {retry}")
    if retry:
        done = [evaluate_retry(retry, max_samples=max_samples, ray=ray, workers=workers, quiet=as_json)]
    elif graph is None or benchmark is None:
        raise UnknownName("name a graph and a benchmark: certigraph eval sdp blocksworld; or --retry LOG")
    else:
        announce_models(model, role)
        others = [*(also or ()), *(beside or ())]
        said_source(benchmark, data)
        done = [
            evaluate(
                graph,
                name,
                model=model,
                roles=role or [],
                budget=budget or [],
                data=data,
                split=split,
                limit=limit,
                stratify=stratify,
                ids=task or [],
                trials=trials,
                swaps=swap or [],
                cache=cache,
                faults=faults,
                fail_on=fail_on,
                out=out,
                max_samples=max_samples,
                ray=ray,
                workers=workers,
                quiet=as_json,
            )
            for name in [benchmark, *(f"{benchmark.partition(':')[0]}:{other}" for other in others)]
        ]
    print_evaluations(done, as_json=as_json)
    raise typer.Exit(1 if any(evaluation.failed for evaluation in done) else 0)


def score_command(
    benchmark: BenchmarkName,
    answers: Annotated[
        Path,
        typer.Option("--plans", "--answers", metavar="FILE", help="In the layout named above."),
    ],
    data: Data = None,
    split: Annotated[str, typer.Option(help="Split of the questions; else dev, for travelplanner validation.")] = "",
    as_json: AsJson = False,
) -> None:
    """Score answers made elsewhere by the benchmark's official rules; intervals resample the tasks.

    travelplanner: JSON lines with `idx` and `plan`.

    hotpotqa: one JSON object of `answer`, texts by id, and perhaps `sp`, lists of pairs (title, sentence from 0) by id.

    musique: JSON lines with `id` and `predicted_answer`, perhaps `predicted_support_idxs`.

    assistantbench: JSON lines with `id` and `answer`, a text, number, list or object.
    """
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.cli.printed import print_figures
    from certigraph.cli.watched import said_source
    from certigraph.evaluation.resampling import resampled

    said_source(benchmark, data)
    live: Any = load_benchmark(benchmark, data)
    scorer = getattr(live, "score_file", None)
    if scorer is None:
        raise UnknownName(
            f"benchmark {benchmark!r} scores no files; assistantbench, travelplanner, hotpotqa and musique do"
        )
    scores = scorer(answers, split)
    found = resampled([[score] for score in scores], live.rates)
    intervals = {name: bounds for name, bounds in found.items() if not name.endswith("_stderr")}
    print_figures(f"{benchmark}: {answers.name}", live.rates(scores), intervals, as_json=as_json)
    malformed = [f"idx {score.idx}: {score.malformed}" for score in scores if getattr(score, "malformed", "")]
    if malformed:
        shown = "; ".join(malformed[:MALFORMED_SHOWN]) + ("; ..." if malformed[MALFORMED_SHOWN:] else "")
        typer.echo(f"{len(malformed)} of {len(scores)} plans are malformed and pass nothing ({shown})", err=as_json)
