"""Commands that draw, list, export and index: graph, figures, anatomy, export, list, published, index, rewards."""

import json
import os
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

import typer

from certigraph.adapters.extras import TABLE_PACKAGES, check_evaluation_packages
from certigraph.cli.options import (
    AsJson,
    Budgets,
    Cache,
    CommandGroup,
    Data,
    Folders,
    GraphName,
    Model,
    Names,
    PairLimit,
    Processes,
    Roles,
    Swaps,
)
from certigraph.state.defaults import DEFAULT_BASE_MODEL, DEFAULT_ENCODER
from certigraph.state.endings import Interrupted

# Graphs, and the results of runs.


def graph_command(
    graph: GraphName,
    swap: Swaps = None,
    on: Annotated[str, typer.Option("--on", metavar="BENCHMARK", help="Draw what runs in this benchmark.")] = "",
    png: Annotated[Path | None, typer.Option(help="Write a PNG instead of printing Mermaid.")] = None,
) -> None:
    """Draw a graph, including the graphs inside its nodes: as Mermaid text, or as PNG if Graphviz is installed."""
    from certigraph.runtime.drawings import draw_png
    from certigraph.runtime.registry import build_graph, parse_swap

    built = build_graph(graph, dict(map(parse_swap, swap or [])))
    drawing = built.get_graph({"configurable": {"benchmark": on}}, xray=True)
    typer.echo(draw_png(drawing, png) if png else drawing.draw_mermaid())


def figures_command(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Folder for PNG, SVG and CSV.")] = Path("figures"),
    with_accidental: Annotated[
        bool, typer.Option("--with-accidental", help="Keep ScienceWorld episodes that were won by a lucky guess.")
    ] = False,
    data: Data = None,
) -> None:
    """Draw plots of runs: reward by step, the best traces side by side, and what STEP scores without its Planner."""
    check_evaluation_packages("figures", *TABLE_PACKAGES)
    from certigraph.studies.step_figures import draw_figures, print_figures

    print_figures(draw_figures(folders, out, data=data, with_accidental=with_accidental), kept=with_accidental)


MAX_READERS = 3
"""Maximum number of processes that read trajectories; more would take over 1 GB of memory together."""


def anatomy_command(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Folder for the page, figures, CSV and Parquet.")] = Path("anatomy"),
) -> None:
    """Analyse where runs succeed, stall and spend: one page, plots, and a table for each analysis."""
    check_evaluation_packages("analyses", "pyarrow", *TABLE_PACKAGES)
    from certigraph.evaluation.comparison import read_method_names
    from certigraph.evaluation.frames import find_runs, read_frames, select_scored
    from certigraph.studies.sdp import print_anatomy, write_anatomy

    runs = find_runs(folders)
    if len(folders) == 1:  # in several comparisons one name may stand for different methods
        runs = runs._replace(names=read_method_names(folders[0]))
    with_score = select_scored(runs)
    without_score = len(runs.runs) - len(with_score.runs)
    frames = read_frames(with_score, workers=min(os.cpu_count() or 1, MAX_READERS))
    print_anatomy(write_anatomy(frames, out), out, runs.unbegun, without_score)


def export_command(
    folders: Folders,
    to: Annotated[Literal["atif", "inspect", "parquet", "assistantbench"], typer.Option(help="The format.")],
    out: Annotated[Path, typer.Option(help="Folder for the files; it is created.")] = Path("exported"),
    data: Data = None,
) -> None:
    """Write runs in another format: ATIF documents, logs for inspect_ai, a Parquet table for offline RL, or a
    submission to AssistantBench's leaderboard, which takes the latest finished run of each task."""
    from certigraph.evaluation.export import export, format_exported_files, format_submission

    files = export(folders, to, out, data=data)
    typer.echo(
        "\n".join(
            [format_exported_files(files), *(format_submission(file) for file in files if to == "assistantbench")]
        )
    )


def _complete_kind(incomplete: str) -> list[str]:
    from certigraph.cli.inventory import KINDS, read_inventory

    return [name for name in (*KINDS, *read_inventory()["graphs"]) if name.startswith(incomplete)]


def list_command(
    kinds: Annotated[
        Names,
        typer.Argument(
            metavar="[KIND|GRAPH]...",
            autocompletion=_complete_kind,
            help="graphs, benchmarks, operators, models or budget; default: all. Of a GRAPH its slots with operators.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List graphs with their slots, benchmarks, operators after the slots that take them, models and budgets."""
    from certigraph.cli.inventory import print_inventory, read_inventory, select_names

    print_inventory(select_names(read_inventory(), kinds or ()), as_json=as_json)


def published_command(
    benchmark: Annotated[
        str, typer.Argument(metavar="[BENCHMARK]", help="BENCHMARK or BENCHMARK:CONFIGURATION; by default all.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the papers' figures on a benchmark, in percent, with their tasks, methods and models."""
    from certigraph.evaluation.published_figures import figure_lines, select_figures

    figures = select_figures(benchmark)
    if as_json:
        typer.echo(json.dumps([figure.model_dump(mode="json") for figure in figures], ensure_ascii=False))
    else:
        typer.echo("\n".join(figure_lines(figures)))


# The search index of a corpus.


def index_command(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="JSONL, question files or Wikipedia's abstracts.")],
    out: Annotated[
        str,
        typer.Option(
            help="Folder of the index, by default ./NAME.index; or an OpenSearch index, https://HOST:9200/NAME."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Index a corpus for search by BM25. If it was killed or interrupted, the same command resumes it."""
    if "://" in out:
        _upload_passages(corpus, out, as_json=as_json)
    else:
        _build_index(corpus, Path(out or f"{corpus.name.partition('.')[0]}.index"), as_json=as_json)


def _upload_passages(corpus: Path, address: str, *, as_json: bool) -> None:
    from certigraph.adapters.retrieval.opensearch import open_address
    from certigraph.adapters.retrieval.sources import read_passages

    uploaded = open_address(address).upload(read_passages(corpus))
    typer.echo(json.dumps({"passages": uploaded}) if as_json else f"{uploaded:,} passages uploaded")


def _build_index(corpus: Path, folder: Path, *, as_json: bool) -> None:
    from certigraph.adapters.retrieval.index import build_index
    from certigraph.adapters.retrieval.index import index_command as command
    from certigraph.adapters.retrieval.sources import read_passages
    from certigraph.evaluation.progress_display import show_progress

    started = perf_counter()
    try:
        with show_progress("passages", None, silent=as_json) as display:
            manifest = build_index(read_passages(corpus), folder, source=str(corpus), progress=display.advance)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; resume with: {command(str(corpus), folder)}") from None
    seconds, size = perf_counter() - started, sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        fields = {"folder": str(folder), **manifest.model_dump(), "seconds": round(seconds, 2), "bytes": size}
        typer.echo(json.dumps(fields))
    else:
        left_out = f" ({manifest.skipped:,} without title and text left out)" if manifest.skipped else ""
        indexed = f"{manifest.passages:,} passages{left_out} in {seconds:.1f} s"
        typer.echo(f"{folder}: {indexed}, {size / 1e6:,.1f} MB")


# RewardPrediction: build its pairs of trajectories, and measure reward predictors on them.

rewards_app = typer.Typer(
    cls=CommandGroup, help="RewardPrediction: build trajectories with rewards, and measure and train predictors."
)


@rewards_app.command("build")
def build_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the data; an unfinished build is resumed.")],
    domain: Annotated[
        Names, typer.Option(metavar="BENCHMARK", help="Repeat for more; by default the five published ones.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=0, help="Pairs of each domain; 0: as many as published.")] = 0,
    split: Annotated[
        Names, typer.Option(help="Split to draw tasks from; repeat for more; by default the paper's.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the drawn tasks and of the random steps.")] = 0,
    data: Data = None,
    at_once: Processes = 1,
    as_json: AsJson = False,
) -> None:
    """Build pairs of trajectories with rewards in OUT/BENCHMARK.jsonl. OUT/counts.json gets the numbers of pairs."""
    from certigraph.studies.reward_data import BuildRequest, build_datasets, count_table, select_domains
    from certigraph.studies.tables import print_frames

    builds = [BuildRequest(name, seed, pairs, tuple(split or ()), data) for name in select_domains(domain or ())]
    counts = build_datasets(builds, out, at_once=at_once, silent=as_json)
    if as_json:
        typer.echo(json.dumps([count.model_dump() for count in counts]))
    else:
        print_frames({f"pairs in {out}": count_table(counts)})
    raise typer.Exit(1 if any(count.failed or count.built < count.wanted for count in counts) else 0)


@rewards_app.command("measure")
def measure_command(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Folder in the layout of `rewards build` or of the paper's authors.")
    ],
    predictor: Annotated[
        Names,
        typer.Option(help="GRAPH, GRAPH:SLOT=OPERATOR+..., NAME=...; repeat for more; the first is the baseline."),
    ] = None,
    encoder: Annotated[
        Names, typer.Option(help="Also measure StateFactory with this sentence encoder; repeat for more.")
    ] = None,
    domain: Annotated[
        Names, typer.Option(metavar="BENCHMARK", help="Only the pairs of this benchmark; repeat for more.")
    ] = None,
    limit: PairLimit = 0,
    model: Model = "scripted:expert",
    role: Roles = None,
    budget: Budgets = None,
    cache: Cache = None,
    out: Annotated[Path, typer.Option(help="Folder of the measurement; an unfinished one is resumed.")] = Path(
        "rewards"
    ),
    at_once: Processes = 1,
    as_json: AsJson = False,
) -> None:
    """Predict the rewards of recorded trajectories, and measure their EPIC distance to the true rewards."""
    check_evaluation_packages("measurements", *TABLE_PACKAGES)
    from certigraph.cli.output import announce_models
    from certigraph.runtime.registry import create_context
    from certigraph.studies.rewards import parse_predictors
    from certigraph.studies.rewards_report import measure_rewards

    announce_models(model, role)
    methods = parse_predictors(predictor or (), encoder or ())
    context = create_context(model, role, str(data), budget, "rewardprediction", cache)
    raise typer.Exit(
        measure_rewards(methods, context, out, domains=domain or (), limit=limit, at_once=at_once, as_json=as_json)
    )


# Supervised reward models: train them on RewardPrediction's pairs, and measure the transfer between domains.

__all__ = ["rewards_app"]

Pairs = Annotated[
    str | None, typer.Argument(metavar="[DATA]", help="Folder of the pairs; by default CERTIGRAPH_DATA's or generated.")
]
Domains = Annotated[Names, typer.Option(metavar="BENCHMARK", help="Repeat for more; by default all.")]
Encoder = Annotated[str, typer.Option(help="Sentence encoder whose vectors are the features.")]
Folds = Annotated[
    int, typer.Option(min=1, help="Number of heads: a task is rated by the one that has not seen it; 1: one for all.")
]
Seed = Annotated[int, typer.Option(help="Seed of initial weights and of the order of examples.")]


@rewards_app.command("train")
def train_command(
    data: Pairs = None,
    out: Annotated[Path, typer.Option(help="File of the heads.")] = Path("head.npz"),
    domain: Domains = None,
    encoder: Encoder = DEFAULT_ENCODER,
    folds: Folds = 5,
    limit: PairLimit = 0,
    seed: Seed = 0,
) -> None:
    """Train reward heads on a CPU: small models that predict rewards from vectors of a sentence encoder.

    Use them with the graph `reward_head` and --swap rate=supervised:head=FILE.
    """
    check_evaluation_packages("reward heads", *TABLE_PACKAGES)
    from certigraph.adapters.encoders import load_encoder
    from certigraph.adapters.rewards import save_heads
    from certigraph.studies.reward_heads import create_samples, select_pairs, train_heads

    source = load_encoder(encoder)
    samples = create_samples(select_pairs(data, domain or (), limit or None), source, typer.echo)
    save_heads(out, train_heads(samples, encoder, folds=folds, seed=seed, progress=typer.echo))


@rewards_app.command("tune")
def tune_command(
    data: Pairs = None,
    out: Annotated[Path, typer.Option(help="Folder of the tuned model.")] = Path("tuned"),
    base: Annotated[
        str, typer.Option(metavar="MODEL", help="Language model that is installed on this machine.")
    ] = DEFAULT_BASE_MODEL,
    domain: Domains = None,
    limit: PairLimit = 0,
    seed: Seed = 0,
) -> None:
    """Tune a language model with LoRA on a GPU, to predict rewards.

    Use it on other domains, with the graph `reward_head` and --swap rate=supervised:head=DIR.
    """
    from certigraph.studies.reward_heads import select_pairs
    from certigraph.studies.reward_tuning import PAPER_RECIPE, train_lora

    pairs = select_pairs(data, domain or (), limit or None)
    train_lora(pairs, out, base=base, recipe=PAPER_RECIPE._replace(seed=seed))


@rewards_app.command("transfer")
def transfer_command(
    data: Pairs = None,
    domain: Domains = None,
    encoder: Encoder = DEFAULT_ENCODER,
    folds: Folds = 5,
    limit: PairLimit = 0,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Folder of the matrix; in the folder of a measurement it appears on its page.")
    ] = Path("rewards"),
) -> None:
    """Train a reward head on each domain and one on all domains together, and score each head on each domain."""
    check_evaluation_packages("reward heads", *TABLE_PACKAGES)
    from certigraph.adapters.encoders import load_encoder
    from certigraph.studies.reward_heads import (
        create_samples,
        measure_transfer,
        print_transfer,
        select_pairs,
    )
    from certigraph.studies.rewards_report import write_transfer

    pairs = select_pairs(data, domain or (), limit or None)
    samples = create_samples(pairs, load_encoder(encoder), typer.echo)
    results = measure_transfer(samples, encoder, folds=folds, seed=seed, progress=typer.echo)
    print_transfer(results)
    write_transfer(results, out)
