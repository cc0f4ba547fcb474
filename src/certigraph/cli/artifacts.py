"""Commands that inspect runs, rewards and corpora."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from certigraph.adapters.matching import NAME
from certigraph.adapters.processes import TABLES, equipped
from certigraph.adapters.rewards import BASE
from certigraph.cli.options import AsJson, Budgets, Cache, Data, GraphName, Model, Roles, Swaps
from certigraph.state.records import Interrupted

# What there is, and what runs left, to look at.


def graph_command(
    graph: GraphName,
    swap: Swaps = None,
    png: Annotated[Path | None, typer.Option(help="Write a PNG instead of printing Mermaid.")] = None,
) -> None:
    """Draw a graph with the graphs inside its nodes: Mermaid text, or a PNG where Graphviz is installed."""
    from certigraph.runtime.drawing import draw_png
    from certigraph.runtime.registry import build_graph, parse_swap

    drawing = build_graph(graph, dict(map(parse_swap, swap or []))).get_graph(xray=True)
    typer.echo(draw_png(drawing, png) if png else drawing.draw_mermaid())


def figures_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Searched for runs at any depth.")],
    out: Annotated[Path, typer.Option(help="Folder for PNG, SVG and CSV.")] = Path("figures"),
    with_accidental: Annotated[bool, typer.Option("--with-accidental", help="Keep accidental wins.")] = False,
    data: Data = None,
) -> None:
    """Draw runs: reward by step, the best traces beside each other, and what STEP loses without its Planner."""
    from certigraph.evaluation.analyses.step_figures import draw_figures, print_drawn

    print_drawn(draw_figures(folders, out, data=data, with_accidental=with_accidental), kept=with_accidental)


def anatomy_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Searched for runs at any depth.")],
    out: Annotated[Path, typer.Option(help="Folder for the page, figures, CSV and Parquet.")] = Path("anatomy"),
) -> None:
    """Where runs succeed, stall and spend: one page, figures, and a table for each analysis."""
    equipped("analyses", "pyarrow", *TABLES)
    from certigraph.evaluation.analyses.sdp import print_anatomy, write_anatomy
    from certigraph.evaluation.frames import find_runs, recorded_runs, scored

    found = find_runs(folders)
    kept = scored(found)
    own = len(found.runs) - len(kept.runs)
    print_anatomy(write_anatomy(recorded_runs(kept), out), out, found.unbegun, own)


def export_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Searched for runs at any depth.")],
    to: Annotated[Literal["atif", "inspect", "parquet", "assistantbench"], typer.Option(help="The format.")],
    out: Annotated[Path, typer.Option(help="Folder for the files; it is made.")] = Path("exported"),
    data: Data = None,
) -> None:
    """Write runs in another format: ATIF documents, logs for inspect_ai, a Parquet table for offline RL, or a
    submission to AssistantBench's leaderboard, which takes the latest run of each task that ended."""
    from certigraph.evaluation.export import export, exported, submitted

    files = export(folders, to, out, data=data)
    typer.echo("\n".join([exported(files), *(submitted(file) for file in files if to == "assistantbench")]))


def list_command(as_json: AsJson = False) -> None:
    """List graphs with their operators, benchmarks, operators to swap in, and models."""
    from certigraph.cli.output import inventory, print_inventory

    print_inventory(inventory(), as_json=as_json)


# A corpus on disk, made searchable.


def index_command(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="JSONL, question files or Wikipedia's abstracts.")],
    out: Annotated[
        str,
        typer.Option(help="Folder of the index, else NAME.index here; or an OpenSearch index, https://HOST:9200/NAME."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Index a corpus for search by BM25. After a kill or Ctrl-C the same command goes on where it was."""
    if "://" in out:
        _upload(corpus, out, as_json=as_json)
    else:
        _index(corpus, Path(out or f"{corpus.name.partition('.')[0]}.index"), as_json=as_json)


def _upload(corpus: Path, address: str, *, as_json: bool) -> None:
    from certigraph.adapters.retrieval.opensearch import at_address
    from certigraph.adapters.retrieval.sources import read_passages

    uploaded = at_address(address).upload(read_passages(corpus))
    typer.echo(json.dumps({"passages": uploaded}) if as_json else f"{uploaded:,} passages uploaded")


def _index(corpus: Path, folder: Path, *, as_json: bool) -> None:
    from certigraph.adapters.retrieval.index import build_index
    from certigraph.adapters.retrieval.index import index_command as command
    from certigraph.adapters.retrieval.sources import read_passages

    began = perf_counter()
    try:
        with nullcontext(_silent) if as_json else _shown() as progress:
            manifest = build_index(read_passages(corpus), folder, source=str(corpus), progress=progress)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {command(str(corpus), folder)}") from None
    seconds, size = perf_counter() - began, sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        told = {"folder": str(folder), **manifest.model_dump(), "seconds": round(seconds, 2), "bytes": size}
        typer.echo(json.dumps(told))
    else:
        left_out = f" ({manifest.skipped:,} without title and text left out)" if manifest.skipped else ""
        indexed = f"{manifest.passages:,} passages{left_out} in {seconds:.1f} s"
        typer.echo(f"{folder}: {indexed}, {size / 1e6:,.1f} MB")


def _silent(done: int) -> None:
    """No progress where nothing but JSON may be printed."""


@contextmanager
def _shown() -> Iterator[Callable[[int], None]]:
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} passages"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda done: shown.update(task, completed=done)


# RewardPrediction: build its pairs, and measure how well rewards are predicted on them.

Named = list[str] | None

rewards_app = typer.Typer(help="RewardPrediction: trajectories with rewards, built and predicted.")


@rewards_app.command("build")
def build_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The data's folder; one begun there goes on.")],
    domain: Annotated[Named, typer.Option(metavar="BENCHMARK", help="Again for more; else the five published.")] = None,
    pairs: Annotated[int, typer.Option(min=0, help="Pairs of each domain; 0: as many as published.")] = 0,
    split: Annotated[Named, typer.Option(help="Tasks to draw from; again for more; else as the paper did.")] = None,
    seed: Annotated[int, typer.Option(help="Decides the tasks that are drawn and the random steps.")] = 0,
    data: Data = None,
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Build pairs of trajectories with rewards: OUT/BENCHMARK.jsonl, and OUT/counts.json says what became of them."""
    from certigraph.evaluation.analyses.reward_data import Asked, build_all, chosen_domains

    asked = [Asked(name, seed, pairs, tuple(split or ()), data) for name in chosen_domains(domain or ())]
    raise typer.Exit(build_all(asked, out, at_once=at_once, as_json=as_json))


@rewards_app.command("measure")
def measure_command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="As `rewards build` or the paper's authors lay it out.")],
    predictor: Annotated[
        Named, typer.Option(help="GRAPH, GRAPH:SLOT=OPERATOR+..., NAME=...; again for more; the first is the base.")
    ] = None,
    encoder: Annotated[Named, typer.Option(help="StateFactory by this sentence encoder too; again for more.")] = None,
    domain: Annotated[Named, typer.Option(metavar="BENCHMARK", help="Only its pairs; again for more.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Pairs of each domain, the first ones; 0: all.")] = 0,
    model: Model = "scripted:expert",
    role: Roles = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="The measurement's folder; one begun there goes on.")] = Path("rewards"),
    at_once: Annotated[int, typer.Option("--at-once", min=1, help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Predict the rewards of recorded trajectories, and say how far they are from the true ones (EPIC distance)."""
    equipped("measurements", *TABLES)
    from certigraph.cli.output import announce_models
    from certigraph.evaluation.analyses.rewards import predictors
    from certigraph.evaluation.analyses.rewards_report import measure
    from certigraph.runtime.registry import context_from

    announce_models(model, role)
    methods = predictors(predictor or (), encoder or ())
    context = context_from(model, role, str(data), budget, "rewardprediction", cache)
    raise typer.Exit(
        measure(methods, context, out, domains=domain or (), limit=limit, at_once=at_once, as_json=as_json)
    )


# Supervised reward models: train them on RewardPrediction's pairs, and see how they transfer between domains.

__all__ = ["rewards_app"]

Pairs = Annotated[str | None, typer.Argument(metavar="[DATA]", help="The pairs; else CERTIGRAPH_DATA's or generated.")]
Domains = Annotated[list[str] | None, typer.Option(metavar="BENCHMARK", help="Again for more; else all.")]
Encoder = Annotated[str, typer.Option(help="Whose sentence vectors are the features.")]
Folds = Annotated[int, typer.Option(min=1, help="A task is rated by the head that has not seen it; 1: one for all.")]
Limit = Annotated[int, typer.Option(min=0, help="Pairs of each domain, the first ones; 0: all.")]
Seed = Annotated[int, typer.Option(help="Of weights and orders.")]


@rewards_app.command("train")
def train_command(
    data: Pairs = None,
    out: Annotated[Path, typer.Option(help="The file of the heads.")] = Path("head.npz"),
    domain: Domains = None,
    encoder: Encoder = NAME,
    folds: Folds = 5,
    limit: Limit = 0,
    seed: Seed = 0,
) -> None:
    """Train heads to rank steps, on frozen features and a CPU: `reward_head --swap rate=supervised:head=FILE` rates."""
    equipped("reward heads", *TABLES)
    from certigraph.evaluation.analyses.reward_heads import train_command as train

    domains, most = domain or (), limit or None
    train(data, out, domains=domains, encoder=encoder, folds=folds, limit=most, seed=seed, told=typer.echo)


@rewards_app.command("tune")
def tune_command(
    data: Pairs = None,
    out: Annotated[Path, typer.Option(help="The tuned model's folder.")] = Path("tuned"),
    base: Annotated[str, typer.Option(metavar="MODEL", help="A language model that is here already.")] = BASE,
    domain: Domains = None,
    limit: Limit = 0,
    seed: Seed = 0,
) -> None:
    """Tune a language model by LoRA, on a GPU: `reward_head --swap rate=supervised:head=DIR` rates other domains."""
    from certigraph.evaluation.analyses.reward_heads import tune_command as tune

    tune(data, out, base=base, domains=domain or (), limit=limit or None, seed=seed, told=typer.echo)


@rewards_app.command("transfer")
def transfer_command(
    data: Pairs = None,
    domain: Domains = None,
    encoder: Encoder = NAME,
    folds: Folds = 5,
    limit: Limit = 0,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="The matrix; in a measurement's folder its page has it.")] = Path("rewards"),
) -> None:
    """Train on each domain and on all of them, and measure each on each: what supervision is worth elsewhere."""
    equipped("reward heads", *TABLES)
    from certigraph.evaluation.analyses.reward_heads import print_transfer
    from certigraph.evaluation.analyses.reward_heads import transfer_command as transfer
    from certigraph.evaluation.analyses.rewards_report import write_transfer

    done = transfer(
        data, domains=domain or (), encoder=encoder, folds=folds, limit=limit or None, seed=seed, told=typer.echo
    )
    print_transfer(done)
    write_transfer(done, out)
