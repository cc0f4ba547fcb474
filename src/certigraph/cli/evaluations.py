"""Commands that measure: eval, score, compare, ablate, sweep, study, bench, judge."""

import datetime
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from certigraph.adapters.files import expanded
from certigraph.adapters.processes import TABLES, equipped
from certigraph.cli.options import (
    AsJson,
    BenchmarkName,
    Budgets,
    Cache,
    Data,
    Faults,
    GraphName,
    Model,
    Roles,
    Split,
    Swaps,
    Tasks,
)
from certigraph.state.records import Fault, UnknownName

# A benchmark: run it, or score answers made elsewhere.

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
    from certigraph.cli.output import announce_models, said_source
    from certigraph.evaluation.evaluate import evaluate, evaluate_retry
    from certigraph.evaluation.evaluation_results import print_evaluations

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
    from certigraph.cli.output import print_figures, said_source
    from certigraph.evaluation.statistics import resampled

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


# Methods side by side.

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
    from certigraph.cli.output import said_source
    from certigraph.evaluation.compare import Choice, order, order_in, print_logs, worked_off
    from certigraph.evaluation.comparison import methods_from
    from certigraph.runtime.registry import context_from

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
    from certigraph.cli.output import said_source
    from certigraph.evaluation.compare import Choice, order, order_in, worked_off
    from certigraph.evaluation.comparison_summary import variants
    from certigraph.runtime.registry import context_from

    if report_only:
        given = order_in(out)
    else:
        said_source(benchmark, data)
        methods, choice = variants(graph, swap or []), Choice(task or [], split, limit, trials)
        given = order(methods, benchmark, choice, context_from(model, role, data, budget, benchmark, cache))
    raise typer.Exit(worked_off(given, out, at_once=at_once, report_only=report_only, as_json=as_json))


# Graphs, operators and benchmarks from one file.


def sweep_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="Benchmarks, graphs, operators, model, budget.")],
    out: Annotated[
        Path | None, typer.Option(help="The sweep's folder; one begun there goes on. Else FILE without its ending.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run; run, import nothing.")] = False,
    report_only: ReportOnly = False,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: local, auto, HOST:PORT.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes on it; else one a processor.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run graphs x operators x benchmarks from one file; started again, it goes on where it stopped."""
    if workers and not ray:
        raise UnknownName("--workers are a cluster's: add --ray local, or --ray ADDRESS")
    equipped("sweeps", "yaml", *TABLES)
    from certigraph.evaluation.comparison import Workers
    from certigraph.evaluation.sweep_report import forecast, worked_off

    if dry_run:
        raise typer.Exit(forecast(file, out, as_json=as_json))
    hired = Workers(ray, workers) if ray else None
    raise typer.Exit(worked_off(file, out, hired, report_only=report_only, as_json=as_json))


# Studies: CGDP's search harnesses, memory conditions and gate; TDP's prompts; and how well the retrievers find.

Named = list[str] | None

study_app = typer.Typer(help="Studies of agents, each a resumable folder with tables, figures and a page.")


@study_app.command("cgdp")
def cgdp_command(
    on: Annotated[str | None, typer.Option(metavar="BENCHMARK", help="Or BENCHMARK:CONFIGURATION.")] = None,
    harness: Annotated[Named, typer.Option(help="ircot, react, memgpt, iter_retgen; again for more; else all.")] = None,
    memory: Annotated[
        Named, typer.Option(help="native, lobotomized, structured or freeform; again for more; else all.")
    ] = None,
    gate: Annotated[
        Named, typer.Option(help="shadow (one run tells both: the default), on, off; again for more.")
    ] = None,
    gate_operator: Annotated[
        str, typer.Option(metavar="OPERATOR", help="The gate: smooth_gate:upr=0.1, judged_gate:stance=neutral.")
    ] = "exhaustion_gate",
    beside: Annotated[Named, typer.Option(metavar="GRAPH", help="Also run this graph, such as sdp.")] = None,
    ablate: Annotated[Literal["alpha", "k", "depth"] | None, typer.Option(help="An ablation of appendix H.")] = None,
    split: Split = "",
    task: Tasks = None,
    limit: Limit = 0,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="The study's folder; one begun there goes on.")] = Path("study"),
    at_once: AtOnce = 1,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run CGDP's study; started again, with the same options or with --out alone, it goes on where it stopped."""
    equipped("studies", *TABLES)
    from certigraph.cli.output import said_source
    from certigraph.evaluation.analyses.cgdp import Asked, methods_of, worked_off
    from certigraph.evaluation.compare import Choice, order, order_in
    from certigraph.runtime.registry import context_from

    if on and not report_only:
        asked = Asked(harness or (), memory or (), gate or ("shadow",), ablate or "", beside or (), gate_operator)
        methods = methods_of(asked)
        said_source(on, data)
        context = context_from(model, role, data, budget, on, cache)
        given = order(methods, on, Choice(task or [], split, limit), context)
    else:
        given = order_in(out)
    raise typer.Exit(worked_off(given, out, at_once=at_once, report_only=report_only, as_json=as_json))


@study_app.command("tdp")
def tdp_command(
    longest: Annotated[int | None, typer.Option(help="World steps of the longest episode, 40 by default.")] = None,
    out: Annotated[Path, typer.Option(help="The study's folder; one begun there goes on.")] = Path("tdp-prompts"),
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """How prompts grow with an episode, TDP's beside others': scripted episodes, seconds, no model."""
    equipped("studies", *TABLES)
    from certigraph.evaluation.analyses.tdp import order_of, worked_off

    raise typer.Exit(worked_off(order_of(longest, out), out, report_only=report_only, as_json=as_json))


@study_app.command("retrieval")
def retrieval_command(
    split: Annotated[Named, typer.Option(help="'hotpotqa train', 'musique dev', ...; again for more.")] = None,
    dense: Annotated[bool, typer.Option(help="Also vectors, and mixtures with them.")] = True,
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("recall"),
    as_json: AsJson = False,
) -> None:
    """Passage recall of BM25, two-stage, dense and hybrid retrieval side by side, each question once and hop by hop."""
    equipped("studies", *TABLES)
    from certigraph.evaluation.analyses.retrieval import FILES, print_recall, recall_study, write_recall

    study = recall_study(_root(data), splits=split or tuple(FILES), dense=dense)
    files = write_recall(study, out)
    if as_json:
        typer.echo(study.model_dump_json())
    else:
        print_recall(study)
        typer.echo(f"written: {', '.join(map(str, files))}")


def _root(data: str | None) -> Path:
    """The folder that holds one folder per benchmark."""
    given = data or os.environ.get("CERTIGRAPH_DATA")
    if not given:
        raise Fault("data", "the study needs hotpotqa/ and musique/: name their folder by --data or CERTIGRAPH_DATA")
    return expanded(given)


# Recorded answers, graded by a model.


def judge_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Searched for runs at any depth.")],
    rubric: Annotated[
        str,
        typer.Option(help="cgdp (0-100), swe-qa (five criteria), tdp (right or wrong); no model: strings, similarity."),
    ],
    model: Model = "scripted:expert",
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="File of judgements; those in it are not asked for again.")] = Path(
        "judged.jsonl"
    ),
    as_json: AsJson = False,
) -> None:
    """Judge recorded answers beside their references, by a model or by measures of text; started again, it goes on."""
    equipped("judgements", *TABLES)
    from certigraph.adapters.models.chat_models import is_scripted, ready
    from certigraph.adapters.protocols import Context, Limits
    from certigraph.evaluation.frames import find_runs
    from certigraph.evaluation.judges import Rubric, cases_in, judge, print_judged, watching
    from certigraph.evaluation.judges import rubric as rubric_named
    from certigraph.runtime.registry import allowance

    chosen = rubric_named(rubric)
    if isinstance(chosen, Rubric):
        ready(model)
        if is_scripted(model):
            typer.echo("a script answers for the judge: its grades are no judgement; name one by --model", err=True)
    context = Context(model=model, budget=allowance(budget or [], Limits()).budget, cache=cache)
    cases = cases_in(find_runs(folders), data)
    with watching(len(cases.ended), silent=as_json) as told:
        judged = judge(cases.ended, chosen, context, out, told=told)
    print_judged(judged, cases, str(out), as_json=as_json)
    raise typer.Exit(1 if judged.left else 0)


# Measuring certigraph's own machinery.


def bench_command(
    supersteps: Annotated[int, typer.Option(min=50, help="Supersteps of each loop.")] = 1_000,
    episodes: Annotated[int, typer.Option(min=0, help="Episodes of an evaluation, one and 16 at once; 0: none.")] = 100,
    big: Annotated[bool, typer.Option(help="Also a store of 300 cities and 3.8 million flights.")] = False,
    retrieval: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, search N generated abstracts: 84000, 5200000.")
    ] = 0,
    rewards: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, rate the trajectories of N tasks: 200.")
    ] = 0,
    ray: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, N episodes by one and by two Ray workers: 64.")
    ] = 0,
    soak: Annotated[
        int, typer.Option(min=0, metavar="N", help="Instead, N episodes of mixed graphs, 200 at once: 10000.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures of a soak.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure certigraph's own machinery beside a bare LangGraph loop and a plain Python loop."""
    if not (rewards or soak):
        equipped("these measurements", "numpy", *TABLES)
    if retrieval:
        _retrieval(retrieval, as_json)
    elif rewards:
        from certigraph.evaluation.bench import bench_rewards, print_rewards

        print_rewards(bench_rewards(rewards), as_json=as_json)
    elif ray:
        from certigraph.evaluation.bench import bench_ray, print_ray

        print_ray(bench_ray(ray), as_json=as_json)
    elif soak:
        _soak(soak, out, as_json)
    else:
        from certigraph.evaluation.bench import bench, print_bench

        print_bench(bench(supersteps, big=big, episodes=episodes), as_json=as_json)


def _retrieval(abstracts: int, as_json: bool) -> None:
    from certigraph.evaluation.bench_retrieval import bench_retrieval, print_retrieval

    said = (lambda line: None) if as_json else typer.echo
    print_retrieval(bench_retrieval(abstracts, big=abstracts >= 500_000, said=said), as_json=as_json)


def _soak(episodes: int, out: Path | None, as_json: bool) -> None:
    from certigraph.evaluation.soak import AT_ONCE, DELAY, Plan, print_soak, soak

    folder = out or Path(f"soak-{datetime.datetime.now():%Y%m%d-%H%M%S}")
    said = (lambda line: None) if as_json else typer.echo
    print_soak(soak(Plan(episodes, AT_ONCE, DELAY), folder, said=said), as_json=as_json)
