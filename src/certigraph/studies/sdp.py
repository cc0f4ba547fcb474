"""Report of the anatomy of recorded runs (`certigraph anatomy`): the analyses of the SDP paper on any runs.

The analyses are computed in `evaluation/anatomy.py`; this module writes page, figures and tables, and prints a summary.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from markupsafe import Markup
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from certigraph.adapters.files import replace_file
from certigraph.evaluation.anatomy import ANATOMY_FIGURES, AnalysisTables, analyse, lay_out_anatomy, methods_of
from certigraph.evaluation.frames import Frames
from certigraph.evaluation.plots import chart_style, find_line, save_drawing
from certigraph.evaluation.result_tables import format_model_note
from certigraph.evaluation.tables import format_interval, write_frame, write_page
from certigraph.runtime.texts import format_count
from certigraph.state.endings import INTERRUPTED

# The files of the analysis: a page, figures, tables and frames.

ANATOMY_PAGE = "anatomy.html"


class AnatomyReport(NamedTuple):
    """Result of the analyses: the data frames, tables by name, written files, and runs without a recorded ending."""

    frames: Frames
    tables: AnalysisTables
    files: tuple[Path, ...]
    interrupted: tuple[str, ...]


def write_anatomy(frames: Frames, out: Path) -> AnatomyReport:
    """Compute all analyses of the runs in `frames` and write the report to the folder `out`.

    Writes `anatomy.html`, a .csv for each analysis, a .png and .svg for each figure, and `frames/*.parquet`.

    Each file is replaced only when it is complete.
    """
    tables = analyse(frames)
    (out / "frames").mkdir(parents=True, exist_ok=True)
    files = [write_frame(table, out / f"{name}.csv") for name, table in tables.items()]
    for name, frame in frames._asdict().items():
        files.append(out / "frames" / f"{name}.parquet")
        with replace_file(files[-1]) as draft:
            frame.to_parquet(draft)
    drawings = _draw_figures(frames, tables, out)
    files += [out / f"{name}.{kind}" for name in drawings for kind in ("png", "svg")]
    files.append(out / ANATOMY_PAGE)
    write_page(
        files[-1],
        "anatomy.html",
        package="certigraph.studies",
        title=_page_title(frames),
        scope=format_models(frames),
        verdict=_format_verdict(frames, tables),
        anatomy=lay_out_anatomy(frames, tables, drawings),
    )
    interrupted = frames.runs.loc[frames.runs["ending"] == INTERRUPTED, "run"]
    return AnatomyReport(frames, tables, tuple(files), tuple(interrupted))


def _draw_figures(frames: Frames, tables: AnalysisTables, out: Path) -> dict[str, Markup]:
    names, drawings = methods_of(frames), dict[str, Markup]()
    with chart_style():
        for name, draw in ANATOMY_FIGURES.items():
            drawings[name] = save_drawing(draw(tables, names), out / name)
    return drawings


def format_models(frames: Frames) -> str:
    """Format the models of the runs, with a note if some are scripted and not language models."""
    models = list(frames.runs["model"].unique())
    return f"certigraph anatomy, {', '.join(models)}{format_model_note(models)}"


def _page_title(frames: Frames) -> str:
    benchmarks = ", ".join(frames.runs["benchmark"].unique())
    return f"Anatomy of {format_count(len(frames.runs), 'run')}{f' on {benchmarks}' if benchmarks else ''}"


def _format_verdict(frames: Frames, tables: AnalysisTables) -> str:
    found = [(method, find_line(tables["solved"], method)) for method in methods_of(frames)]
    shares = [f"{method} {line['value']:.0%} of {line['n']}" for method, line in found if line is not None]
    return f"Solved: {', '.join(shares)}." if shares else ""


# Output of the command `anatomy`.


class PrintedFigure(NamedTuple):
    """Figure that is printed for each method: where its value is, what its n counts, and what it means."""

    table: str
    meaning: str
    counted: str = "run"
    where: Mapping[str, str] = {}
    """Values that select the row of the table."""


PRINTED_FIGURES = {
    "solved": PrintedFigure("solved", "runs that solved their task according to the benchmark's scorer"),
    "faults": PrintedFigure("faults", "runs in which the world or its data failed; no other share counts them"),
    "cascades": PrintedFigure(
        "cascade_rate", "certified actions that made several conditions of the plan true at once", "action"
    ),
    "retried": PrintedFigure(
        "retried",
        "certified actions before which another attempt at the same condition was rejected",
        "action",
    ),
    "plan done by failed runs": PrintedFigure(
        "certified_part", "mean part of the plan that failed runs had certified, without those that certified the goal"
    ),
    "agreement with scorer": PrintedFigure(
        "calibration",
        "runs with the goal certified and the task solved, or neither; without errors and interrupted runs",
        where={"measure": "agreement"},
    ),
    "goal precision": PrintedFigure(
        "calibration",
        "runs with the goal certified that solved their task",
        where={"measure": "solved if certified"},
    ),
    "solved, not certified": PrintedFigure(
        "calibration",
        "runs without a certified goal that solved their task nevertheless",
        where={"measure": "solved if not certified"},
    ),
    "tokens per condition": PrintedFigure(
        "certified_costs",
        "tokens of all runs, failed ones too, for each condition that was certified at the end",
        where={"measure": "tokens"},
    ),
}
"""The figures that are printed, by label."""


HEADS = ("value", "95 % interval", "n")
"""Column headings of a figure's cells."""


def print_anatomy(anatomy: AnatomyReport, out: Path, unbegun: Sequence[Path] = (), own: int = 0) -> None:
    """Print the main results with intervals and n, their meanings, runs left out, and the path of the page.

    Args:
        anatomy: the result of the analyses.
        out: folder of the files.
        unbegun: trajectory files of runs that stopped before their header was written.
        own: number of runs that answer the user's own questions, which have no scores.
    """
    console = Console(highlight=False, soft_wrap=True)
    table = Table(Column("method", overflow="fold"), *(Column(head, no_wrap=True) for head in HEADS), box=None)
    meanings = Table.grid(Column(no_wrap=True), Column(), padding=(0, 1))
    rows = {method: dict(_figure_rows(anatomy.tables, method)) for method in methods_of(anatomy.frames)}
    for method, figures in rows.items():
        table.add_row(escape(method))
        for name, cells in figures.items():
            table.add_row(f"  {name}", *cells)
    for name, figure in PRINTED_FIGURES.items():
        if any(name in figures for figures in rows.values()):
            meanings.add_row(f" {name}:", figure.meaning)
    console.print(format_models(anatomy.frames), markup=False)
    console.print(table)
    console.print(meanings, style="dim")
    for run in anatomy.interrupted:
        console.print(f"no ending on record, counted as interrupted: {run}", style="dim", markup=False)
    for path in unbegun:
        console.print(f"left out, stopped before it started: {path.parent}", style="dim", markup=False)
    if own:
        console.print(f"left out, without scores: {format_count(own, 'question')} of your own", style="dim")
    console.print(f"{format_count(len(anatomy.frames.runs), 'run')}; {out / ANATOMY_PAGE}", markup=False)


def _figure_rows(tables: AnalysisTables, method: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for name, figure in PRINTED_FIGURES.items():
        line = find_line(tables[figure.table], method, **figure.where)
        if line is not None:
            form, value = ",.0f" if "tokens" in name else ".0%", line["value"]
            shown = "?" if pd.isna(value) else f"{value:{form}}"
            interval = format_interval(line["low"], line["high"], form)
            yield name, (shown, interval, format_count(line["n"], figure.counted))
