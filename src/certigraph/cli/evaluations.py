"""Commands that measure: eval, score, compare, ablate, sweep, study, judge."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from certigraph.adapters.extras import TABLE_PACKAGES, check_evaluation_packages
from certigraph.cli.options import (
    BENCHMARK_HELP,
    GRAPH_HELP,
    AsJson,
    AtOnce,
    BenchmarkName,
    Budgets,
    Cache,
    CommandGroup,
    Data,
    Faults,
    Folders,
    KeepAllPrompts,
    Model,
    Names,
    OnBenchmark,
    ReportOnly,
    Roles,
    Split,
    Swaps,
    TaskLimit,
    Tasks,
    Trials,
    Window,
    Workers,
)
from certigraph.state.endings import Fault, UnknownName

# A benchmark: run it, or score the answers of another system.

MAX_MALFORMED_SHOWN = 5
"""Maximum number of malformed answers that the command `score` names."""


def eval_command(
    graph: Annotated[str | None, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)] = None,
    benchmark: Annotated[str | None, typer.Argument(metavar="BENCHMARK", help=BENCHMARK_HELP)] = None,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    split: Split = "",
    task: Tasks = None,
    limit: TaskLimit = 0,
    stratify: Annotated[bool, typer.Option(help="Spread the limit over difficulty and length.")] = False,
    trials: Annotated[int, typer.Option(min=1, help="Runs of each task.")] = 1,
    also: Annotated[
        Names,
        typer.Option(
            "--also-config", metavar="CONFIG", help="Also run this configuration of the benchmark; repeat for more."
        ),
    ] = None,
    old_also: Annotated[Names, typer.Option("--beside", hidden=True, help="Old name of --also-config.")] = None,
    swap: Swaps = None,
    budget: Budgets = None,
    cache: Cache = None,
    window: Window = 0,
    faults: Faults = "",
    fail_on: Annotated[
        float | None,
        typer.Option("--fail-on", metavar="N|SHARE", help="Start no more runs once this number or share failed."),
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option("--max-samples", min=1, help="Maximum number of runs at a time.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS|local", help="Execute the runs on workers of a Ray cluster.")
    ] = None,
    workers: Workers = None,
    retry: Annotated[
        str | None,
        typer.Option(metavar="LOG|FOLDER", help="Finish the evaluation of this log, or of the newest one in a folder."),
    ] = None,
    out: Annotated[str, typer.Option(help="Folder, or its URL, in which each run gets a subfolder.")] = "runs",
    keep_prompts: KeepAllPrompts = False,
    as_json: AsJson = False,
) -> None:
    """Run a graph on a benchmark's tasks with Inspect, and print the official scores with confidence intervals."""
    check_evaluation_packages("benchmarks", "inspect_ai", *TABLE_PACKAGES)
    from certigraph.adapters.benchmarks import split_name
    from certigraph.cli.output import announce_missing_tasks, announce_source
    from certigraph.evaluation.evaluate import evaluate, evaluate_retry
    from certigraph.evaluation.evaluation_results import print_evaluations

    if retry and graph:
        raise UnknownName(
            f"--retry takes graph and options from the log: leave them out: certigraph eval --retry {retry}"
        )
    if retry:
        results = [evaluate_retry(retry, max_samples=max_samples, ray=ray, workers=workers, quiet=as_json)]
    elif graph is None or benchmark is None:
        raise UnknownName("name a graph and a benchmark: certigraph eval sdp blocksworld; or --retry LOG")
    else:
        others = [*(also or ()), *(old_also or ())]
        names = [benchmark, *(f"{split_name(benchmark)[0]}:{other}" for other in others)]
        announce_source(benchmark, data)
        for name in names:
            announce_missing_tasks(name, data, split, 0 if task else limit)
        results = [
            evaluate(
                graph,
                name,
                model=model,
                roles=role or [],
                budget=budget or [],
                data=data,
                split=split,
                limit=limit or None,
                stratify=stratify,
                ids=task or [],
                trials=trials,
                swaps=swap or [],
                cache=cache,
                window=window,
                faults=faults,
                fail_on=fail_on,
                keep_prompts=keep_prompts,
                out=out,
                max_samples=max_samples,
                ray=ray,
                workers=workers,
                quiet=as_json,
            )
            for name in names
        ]
    print_evaluations(results, as_json=as_json)
    raise typer.Exit(1 if any(evaluation.failed for evaluation in results) else 0)


def score_command(
    benchmark: BenchmarkName,
    answers: Annotated[
        Path,
        typer.Option("--plans", "--answers", metavar="FILE", help="File of answers in the layout described above."),
    ],
    data: Data = None,
    split: Annotated[
        str, typer.Option(help="Split of the questions; by default dev, or validation for travelplanner.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Score the answers of another system by the benchmark's official rules, with 95 % intervals over tasks.

    travelplanner: JSON lines with `idx` and `plan`.

    hotpotqa: one JSON object with `answer`, texts by id, and optionally `sp`, lists of pairs (title, sentence from 0)
    by id.

    musique: JSON lines with `id` and `predicted_answer`, optionally `predicted_support_idxs`.

    assistantbench: JSON lines with `id` and `answer`, a text, number, list or object.
    """
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.adapters.protocols import FileScorer
    from certigraph.cli.output import announce_source, print_figures
    from certigraph.evaluation.statistics import figure_intervals

    announce_source(benchmark, data)
    live = load_benchmark(benchmark, data)
    if not isinstance(live, FileScorer):
        raise UnknownName(
            f"benchmark {benchmark!r} cannot score a file; assistantbench, travelplanner, hotpotqa and musique can"
        )
    scores = live.score_file(answers, split)
    rates = live.rates(scores)
    wanted = {name: value for name, value in rates.items() if name != "n" and not name.endswith("_stderr")}
    intervals = figure_intervals(wanted, scores, range(len(scores)), live.rates)
    print_figures(f"{benchmark}: {answers.name}", rates, intervals, as_json=as_json)
    malformed = [f"idx {score.idx}: {score.malformed}" for score in scores if getattr(score, "malformed", "")]
    if malformed:
        shown = "; ".join(malformed[:MAX_MALFORMED_SHOWN]) + ("; ..." if malformed[MAX_MALFORMED_SHOWN:] else "")
        typer.echo(f"{len(malformed)} of {len(scores)} plans are malformed and pass nothing ({shown})", err=as_json)


# Comparisons of methods.


def compare_command(
    graphs: Annotated[Names, typer.Argument(metavar="GRAPH...", help="GRAPH or NAME=GRAPH, or LOG.eval.")] = None,
    on: Annotated[str, OnBenchmark] = "blocksworld",
    split: Split = "",
    task: Tasks = None,
    limit: TaskLimit = 0,
    trials: Trials = 1,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    window: Window = 0,
    swap: Annotated[Names, typer.Option(help="GRAPH:SLOT=OPERATOR, for example step:planner=none.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the comparison; an unfinished one is resumed.")] = Path(
        "comparison"
    ),
    at_once: AtOnce = 1,
    workers: Workers = None,
    keep_prompts: KeepAllPrompts = False,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run methods on the same tasks with the same budget. The same command resumes an unfinished comparison.

    Given two or more logs of `certigraph eval` (LOG.eval) instead of graphs, it compares them and writes no files.
    """
    check_evaluation_packages("comparisons", *TABLE_PACKAGES)
    from certigraph.cli.output import announce_missing_tasks, announce_source
    from certigraph.evaluation.compare import (
        build_job,
        finish_comparison,
        load_job,
        print_tables,
    )
    from certigraph.evaluation.comparison import Choice, parse_methods
    from certigraph.evaluation.evaluation_results import compare_logs
    from certigraph.evaluation.workers import WorkerOptions
    from certigraph.runtime.registry import create_context

    if logs := [name for name in graphs or [] if name.endswith(".eval")]:
        if len(logs) < 2 or len(logs) < len(graphs or []):
            raise UnknownName(f"a log can only be compared with other logs: certigraph compare {logs[0]} OTHER.eval")
        check_evaluation_packages("logs", "inspect_ai")
        print_tables(compare_logs([Path(name) for name in logs]), as_json=as_json)
        return
    if graphs and not report_only:
        announce_source(on, data)
        announce_missing_tasks(on, data, split, 0 if task else limit)
        methods = parse_methods(graphs, swap or [])
        if len(methods) == 1:
            typer.echo(
                f"nothing to compare {methods[0].name} with: name another GRAPH, or use certigraph eval", err=True
            )
        choice = Choice(ids=task or [], split=split, limit=limit, trials=trials)
        given = build_job(methods, on, choice, create_context(model, role, data, budget, on, cache, window))
    else:
        given = load_job(out, report_only=report_only)
    given, processes = given.with_prompts(keep_prompts), WorkerOptions(workers)
    raise typer.Exit(
        finish_comparison(given, out, at_once=at_once, workers=processes, report_only=report_only, as_json=as_json)
    )


def ablate_command(
    graph: Annotated[str | None, typer.Argument(metavar="GRAPH", help=GRAPH_HELP)] = None,
    benchmark: Annotated[str | None, typer.Argument(metavar="BENCHMARK", help=BENCHMARK_HELP)] = None,
    swap: Annotated[
        Names,
        typer.Option(help="A variant: SLOT=OPERATOR, several joined by +; repeat for more. sdp has three by default."),
    ] = None,
    split: Split = "",
    task: Tasks = None,
    limit: TaskLimit = 0,
    trials: Trials = 1,
    model: Model = "simulated",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    window: Window = 0,
    out: Annotated[Path, typer.Option(help="Folder of the ablation; an unfinished one is resumed.")] = Path("ablation"),
    at_once: AtOnce = 1,
    workers: Workers = None,
    keep_prompts: KeepAllPrompts = False,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run a graph, and variants of it with swapped operators, on the same tasks, and compare them.

    The scores of variants of sdp are also estimated from a replay of its runs. The same command, or --out alone,
    resumes an unfinished ablation.
    """
    check_evaluation_packages("comparisons", *TABLE_PACKAGES)
    from certigraph.cli.output import announce_missing_tasks, announce_source
    from certigraph.evaluation.compare import ABLATE_COMMAND, build_job, finish_comparison, load_job
    from certigraph.evaluation.comparison import Choice
    from certigraph.evaluation.comparison_summary import ablation_methods
    from certigraph.evaluation.workers import WorkerOptions
    from certigraph.runtime.registry import create_context

    if report_only or graph is None:
        given = load_job(out, report_only=report_only)
    elif benchmark is None:
        raise UnknownName(f"on which benchmark? For example certigraph ablate {graph} blocksworld")
    else:
        announce_source(benchmark, data)
        announce_missing_tasks(benchmark, data, split, 0 if task else limit)
        methods = ablation_methods(graph, swap or [])
        choice = Choice(ids=task or [], split=split, limit=limit, trials=trials)
        given = build_job(
            methods, benchmark, choice, create_context(model, role, data, budget, benchmark, cache, window)
        )
    given = given._replace(command=ABLATE_COMMAND).with_prompts(keep_prompts)
    processes = WorkerOptions(workers)
    raise typer.Exit(
        finish_comparison(given, out, at_once=at_once, workers=processes, report_only=report_only, as_json=as_json)
    )


# Sweeps over graphs, operators and benchmarks.


def sweep_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.yaml", help="File with benchmarks, graphs, operators, model and budget.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the sweep; an unfinished one is resumed. By default FILE without its suffix."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the planned runs, without running or importing anything.")
    ] = False,
    keep_prompts: KeepAllPrompts = False,
    report_only: ReportOnly = False,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: local, auto, HOST:PORT.")
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Run graphs x operators x benchmarks from one file. The same command resumes an unfinished sweep."""
    check_evaluation_packages("sweeps", *TABLE_PACKAGES)
    from certigraph.evaluation.sweep import print_forecast, run_command
    from certigraph.evaluation.workers import WorkerOptions

    if dry_run:
        print_forecast(file, out, as_json=as_json)
        raise typer.Exit(0)
    done = run_command(
        file, out, WorkerOptions(workers, ray), keep_prompts=keep_prompts, report_only=report_only, as_json=as_json
    )
    raise typer.Exit(done)


# Studies: CGDP's search agents, memory conditions and gate; the length of TDP's prompts; recall of retrievers.

study_app = typer.Typer(
    cls=CommandGroup, help="Run studies of agents, each in a resumable folder with tables, figures and a page."
)


@study_app.command("cgdp")
def cgdp_command(
    on: Annotated[str | None, OnBenchmark] = None,
    harness: Annotated[
        Names, typer.Option(help="Search agent: ircot, react, memgpt or iter_retgen; repeat for more; by default all.")
    ] = None,
    memory: Annotated[
        Names, typer.Option(help="native, lobotomized, structured or freeform; repeat for more; by default all.")
    ] = None,
    gate: Annotated[
        Names,
        typer.Option(help="shadow (default: one run gives both results), on or off; repeat for more."),
    ] = None,
    gate_operator: Annotated[
        str, typer.Option(metavar="OPERATOR", help="The gate: smooth_gate:upr=0.1, judged_gate:stance=neutral.")
    ] = "exhaustion_gate",
    other_graphs: Annotated[
        Names, typer.Option("--beside", metavar="GRAPH", help="Also run this graph, such as sdp.")
    ] = None,
    ablate: Annotated[Literal["alpha", "k", "depth"] | None, typer.Option(help="An ablation of appendix H.")] = None,
    rubric: Annotated[
        str | None,
        typer.Option(help="Who scores: own (the benchmark's), or a rubric: cgdp, swe-qa, tdp, strings, similarity."),
    ] = None,
    judge: Annotated[str, typer.Option(metavar="MODEL", help="Who judges by the rubric; by default --model.")] = "",
    split: Split = "",
    task: Tasks = None,
    limit: TaskLimit = 0,
    model: Model = "scripted:expert",
    role: Roles = None,
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    window: Window = 0,
    out: Annotated[Path, typer.Option(help="Folder of the study; an unfinished one is resumed.")] = Path("study"),
    at_once: AtOnce = 1,
    workers: Workers = None,
    keep_prompts: KeepAllPrompts = False,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Run CGDP's study of search agents, memory and gates. The same options, or --out alone, resume it."""
    check_evaluation_packages("studies", *TABLE_PACKAGES)
    from certigraph.cli.output import announce_source
    from certigraph.evaluation.compare import build_job, load_job
    from certigraph.evaluation.comparison import Choice, has_plan
    from certigraph.evaluation.workers import WorkerOptions
    from certigraph.runtime.registry import create_context
    from certigraph.studies.cgdp import DEFAULT_BENCHMARK, StudySelection, methods_of, run_command
    from certigraph.studies.cgdp_scores import RubricChoice

    on = on or (None if has_plan(out) or report_only else DEFAULT_BENCHMARK)
    if on and not report_only:
        selection = StudySelection(
            harness or (), memory or (), gate or ("shadow",), ablate or "", other_graphs or (), gate_operator
        )
        methods = methods_of(selection)
        announce_source(on, data)
        context = create_context(model, role, data, budget, on, cache, window)
        given = build_job(methods, on, Choice(ids=task or [], split=split, limit=limit), context)
    else:
        given = load_job(out, report_only=report_only)
    if judge and not rubric:
        raise UnknownName(f"--judge {judge} judges by a rubric: add --rubric cgdp")
    choice = RubricChoice(rubric=rubric, judge=judge) if rubric else None
    given, processes = given.with_prompts(keep_prompts), WorkerOptions(workers)
    done = run_command(
        given, out, at_once=at_once, workers=processes, report_only=report_only, as_json=as_json, rubric=choice
    )
    raise typer.Exit(done)


@study_app.command("tdp")
def tdp_command(
    longest: Annotated[
        int | None, typer.Option(help="Number of world steps of the longest episode; by default 40.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the study; an unfinished one is resumed.")] = Path("tdp-prompts"),
    keep_prompts: KeepAllPrompts = False,
    report_only: ReportOnly = False,
    as_json: AsJson = False,
) -> None:
    """Measure how prompts grow during episodes of TDP and of other methods.

    The episodes are scripted: no model is used.
    """
    check_evaluation_packages("studies", *TABLE_PACKAGES)
    from certigraph.studies.tdp import build_order, run_command

    order = build_order(longest, out).with_prompts(keep_prompts)
    raise typer.Exit(run_command(order, out, report_only=report_only, as_json=as_json))


@study_app.command("retrieval")
def retrieval_command(
    split: Annotated[Names, typer.Option(help="'hotpotqa train', 'musique dev', ...; repeat for more.")] = None,
    dense: Annotated[bool, typer.Option(help="Also measure dense and hybrid retrieval.")] = True,
    rerank: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Cross-encoder, or its folder, that reorders what BM25 and hybrid retrieval find; none: leave it out. "
            "By default ms-marco-MiniLM-L6-v2 if it is installed.",
        ),
    ] = None,
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("recall"),
    as_json: AsJson = False,
) -> None:
    """Measure passage recall of BM25, two-stage, dense, hybrid and reranked retrieval, at once and hop by hop."""
    check_evaluation_packages("studies", *TABLE_PACKAGES)
    from certigraph.studies.retrieval import SPLIT_FILES, print_recall, recall_study, write_recall

    study = recall_study(_data_root(data), splits=split or tuple(SPLIT_FILES), dense=dense, rerank=rerank)
    files = write_recall(study, out)
    if as_json:
        typer.echo(study.model_dump_json())
    else:
        print_recall(study)
        typer.echo(f"written: {', '.join(map(str, files))}")


def _data_root(data: str | None) -> Path:
    """Return the folder of benchmark data, which has one subfolder for each benchmark."""
    from certigraph.adapters.files import expand_path

    folder = data or os.environ.get("CERTIGRAPH_DATA")
    if not folder:
        raise Fault("data", "the study needs hotpotqa/ and musique/: give their folder with --data or CERTIGRAPH_DATA")
    return expand_path(folder)


# Judging of recorded answers.


def judge_command(
    folders: Folders,
    rubric: Annotated[
        str,
        typer.Option(
            help="By a model: cgdp (0-100), swe-qa (five criteria), tdp (right or wrong). Without: strings, similarity."
        ),
    ],
    model: Model = "scripted:expert",
    data: Data = None,
    budget: Budgets = None,
    cache: Cache = None,
    window: Window = 0,
    out: Annotated[Path, typer.Option(help="File of judgements; those in it are not made again.")] = Path(
        "judged.jsonl"
    ),
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Number of answers judged at a time.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Judge recorded answers against their references, by a model or by text measures. Repeat the command to resume."""
    check_evaluation_packages("judgements", *TABLE_PACKAGES)
    from certigraph.adapters.models.chat_models import check_model_available, is_scripted
    from certigraph.adapters.protocols import Context, Limits
    from certigraph.evaluation.frames import find_runs
    from certigraph.evaluation.judges import Rubric, cases_of, judge, judging_progress, print_judging_result
    from certigraph.runtime.registry import parse_budget
    from certigraph.studies.rubrics import rubric_by_name

    chosen = rubric_by_name(rubric)
    if isinstance(chosen, Rubric):
        check_model_available(model)
        if is_scripted(model):
            typer.echo("the judge is a scripted model, whose grades mean nothing: name a model with --model", err=True)
    context = Context(
        model=model,
        budget=parse_budget(budget or [], Limits()).budget,
        cache=cache,
        window=window,
    )
    cases = cases_of(find_runs(folders), data)
    with judging_progress(len(cases.ended), silent=as_json) as listener:
        judged = judge(cases.ended, chosen, context, out, progress=listener, at_once=at_once)
    print_judging_result(judged, cases, str(out), as_json=as_json)
    raise typer.Exit(1 if judged.left else 0)
