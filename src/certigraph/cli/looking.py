"""What there is, and what runs left, to look at."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from certigraph.cli.options import AsJson, Data, GraphName, Swaps
from certigraph.evaluation.extras import TABLES, equipped


def graph_command(
    graph: GraphName,
    swap: Swaps = None,
    png: Annotated[Path | None, typer.Option(help="Write a PNG instead of printing Mermaid.")] = None,
) -> None:
    """Draw a graph with the graphs inside its nodes: Mermaid text, or a PNG where Graphviz is installed."""
    from certigraph.evaluation.drawing import draw_png
    from certigraph.evaluation.settings import build_graph, parse_swap

    drawing = build_graph(graph, dict(map(parse_swap, swap or []))).get_graph(xray=True)
    typer.echo(draw_png(drawing, png) if png else drawing.draw_mermaid())


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


def anatomy_command(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Searched for runs at any depth.")],
    out: Annotated[Path, typer.Option(help="Folder for the page, figures, CSV and Parquet.")] = Path("anatomy"),
) -> None:
    """Where runs succeed, stall and spend: one page, figures, and a table for each analysis."""
    equipped("analyses", "pyarrow", *TABLES)
    from certigraph.evaluation.anatomy.anatomy import write_anatomy
    from certigraph.evaluation.anatomy.printing import print_anatomy
    from certigraph.evaluation.anatomy.reading import find_runs, recorded_runs, scored

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
    from certigraph.evaluation.exporting.export import export
    from certigraph.evaluation.exporting.printing import exported, submitted

    files = export(folders, to, out, data=data)
    typer.echo("\n".join([exported(files), *(submitted(file) for file in files if to == "assistantbench")]))


def list_command(as_json: AsJson = False) -> None:
    """List graphs with their operators, benchmarks, operators to swap in, and models."""
    from certigraph.cli.inventory import inventory, print_inventory

    print_inventory(inventory(), as_json=as_json)
