"""The command line. Exit status: 0 the goal was certified, 1 another ending, 2 unusable arguments, 130 interrupted."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from certigraph.state.endings import Fault, Interrupted, UnknownName

app = typer.Typer(
    help="Long-horizon language agents whose progress is certified.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

GraphName = Annotated[str, typer.Argument(metavar="GRAPH", help="`certigraph list` names them.")]
BenchmarkName = Annotated[str, typer.Argument(metavar="BENCHMARK", help="Or BENCHMARK:CONFIGURATION.")]
Model = Annotated[
    str, typer.Option(help="openai:NAME, local, local:qwen-0.5b, local:FILE.gguf, scripted:first or scripted:expert.")
]
Roles = Annotated[list[str] | None, typer.Option("--role", help="ROLE=MODEL: planner, executor, validator or memory.")]
Data = Annotated[str | None, typer.Option(help="Data folder; else CERTIGRAPH_DATA, else a generated world.")]
Out = Annotated[Path, typer.Option(help="Folder in which each run gets a folder.")]
Swaps = Annotated[list[str] | None, typer.Option("--swap", help="SLOT=OPERATOR: validate=always_pass.")]
Budgets = Annotated[
    list[str] | None,
    typer.Option("--budget", help="KEY=N: calls, tokens, usd, seconds, steps, attempts, replans, trials, ..."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@app.command("run")
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
    as_json: AsJson = False,
) -> None:
    """Run a graph on one task and watch predicates turn certified."""
    from certigraph.cli_support import context_from, finish, said_source, watching
    from certigraph.evaluation.run import run
    from certigraph.evaluation.settings import build_graph, parse_swap

    compiled = build_graph(graph, dict(map(parse_swap, swap or [])))
    context = context_from(model, role, data, budget, benchmark)
    said_source(benchmark, data)
    with watching(out, context.limits, silent=as_json) as listener:
        result = run(compiled, benchmark, task, context=context, out=out, listener=listener)
    finish(result, as_json=as_json)


@app.command("resume")
def resume_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    budget: Budgets = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was killed, interrupted or stopped by its budget."""
    from certigraph.cli_support import enlarged, finish, watching
    from certigraph.evaluation.run import resume

    budget_now, limits = enlarged(folder, budget)
    with watching(folder.parent, limits, silent=as_json) as listener:
        result = resume(folder, budget=budget_now, limits=limits, listener=listener)
    finish(result, as_json=as_json)


@app.command("eval")
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
    from certigraph.cli_support import print_evaluations, said_source
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


@app.command("compare")
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
    from certigraph.cli_support import context_from, said_source
    from certigraph.evaluation.comparing.command import carry_out, order, order_in, print_comparison

    if graphs and not report_only:
        said_source(on, data)
        given = order(graphs, on, split, task or [], swap or [], context_from(model, role, data, budget, on))
    else:
        given = order_in(out)
    if not report_only:
        carry_out(given, out, silent=as_json)
    raise typer.Exit(print_comparison(given, out, as_json=as_json))


@app.command("score")
def score_command(
    benchmark: BenchmarkName,
    plans: Annotated[Path, typer.Option(help="JSONL with `idx` and `plan`.")],
    data: Data = None,
    split: Annotated[str, typer.Option(help="Split of the queries; validation otherwise.")] = "",
    as_json: AsJson = False,
) -> None:
    """Score answers made elsewhere by the benchmark's official rules."""
    from certigraph.adapters.benchmarks import load_benchmark
    from certigraph.cli_support import print_figures, said_source

    said_source(benchmark, data)
    live = load_benchmark(benchmark, data)
    scorer = getattr(live, "score_file", None)
    if scorer is None:
        raise UnknownName(f"benchmark {benchmark!r} scores no files; travelplanner does")
    print_figures(f"{benchmark}: {plans.name}", scorer(plans, split), as_json=as_json)


@app.command("graph")
def graph_command(
    graph: GraphName,
    swap: Swaps = None,
    png: Annotated[Path | None, typer.Option(help="Write a PNG instead of printing Mermaid.")] = None,
) -> None:
    """Draw a graph: Mermaid text, or a PNG where Graphviz is installed."""
    from certigraph.evaluation.drawing import draw_png
    from certigraph.evaluation.settings import build_graph, parse_swap

    drawing = build_graph(graph, dict(map(parse_swap, swap or []))).get_graph()
    typer.echo(draw_png(drawing, png) if png else drawing.draw_mermaid())


@app.command("report")
def report_command(folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]) -> None:
    """Write the HTML report of a run anew."""
    from certigraph.evaluation.report.report import write_report
    from certigraph.state.trajectory import read_trajectory

    typer.echo(write_report(read_trajectory(folder / "trajectory.jsonl"), folder / "report.html"))


@app.command("figures")
def figures_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Searched for runs at any depth.")],
    out: Annotated[Path, typer.Option(help="Folder for PNG, SVG and CSV.")] = Path("figures"),
    with_accidental: Annotated[bool, typer.Option("--with-accidental", help="Keep accidental wins.")] = False,
    data: Data = None,
) -> None:
    """Draw runs: reward by step, the best traces beside each other, and what STEP loses without its Planner."""
    from certigraph.evaluation.figures.figures import draw_figures
    from certigraph.evaluation.figures.printing import print_drawn

    print_drawn(draw_figures(folders, out, data=data, with_accidental=with_accidental), kept=with_accidental)


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """List graphs with their operators, benchmarks, operators to swap in, and models."""
    from certigraph.cli_support import inventory, print_inventory

    print_inventory(inventory(), as_json=as_json)


@app.command("bench")
def bench_command(
    supersteps: Annotated[int, typer.Option(min=50, help="Supersteps of each loop.")] = 1_000,
    big: Annotated[bool, typer.Option(help="Also a store of 300 cities and 3.8 million flights.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure certigraph's own machinery beside a bare LangGraph loop and a plain Python loop."""
    from certigraph.evaluation.bench.bench import bench, print_bench

    print_bench(bench(supersteps, big=big), as_json=as_json)


def main(arguments: list[str] | None = None) -> None:
    """The `certigraph` command."""
    sys.path.insert(0, "")  # operators of your own, as `python -m` would find them
    try:
        sys.exit(app(arguments, standalone_mode=False) or 0)
    except (UnknownName, Fault) as error:
        _stop(str(error), 2)
    except Interrupted as interrupt:
        _stop(str(interrupt), 130)
    except (KeyboardInterrupt, typer.Abort):
        _stop("interrupted", 130)
    except OSError as error:
        _stop(f"{error.filename or 'a file'}: {error.strerror or error}: name another with --out, --data or --plans", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _stop(str(error.format_message()) or "name a command, for example: certigraph list", 2)


def _stop(message: str, status: int) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"certigraph: {message}", markup=False)
    sys.exit(status)


def dumps(value: Any) -> str:
    """One JSON object on one line."""
    return json.dumps(value, ensure_ascii=False)
