"""Anatomy of recorded runs (`certigraph anatomy`): page, figures, tables and printed output."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import NamedTuple

import matplotlib as mpl
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from certigraph.evaluation.anatomy import ANATOMY_FIGURES, Tables, analyse, methods_of, sections_of
from certigraph.evaluation.comparison_report import FIGURES as LOOKS
from certigraph.evaluation.comparison_report import answering, inert
from certigraph.evaluation.frames import Frames, Recorded, frames_of
from certigraph.evaluation.plots import CHART_STYLE as INK
from certigraph.evaluation.plots import drawn, line_of
from certigraph.runtime.html import PAGE, STYLE, Markup, counted, joined, tag
from certigraph.state.records import INTERRUPTED

# The files of the analysis: a page, figures, tables and frames.

NAME = "anatomy.html"


class Anatomy(NamedTuple):
    """Result of the analysis: frames, tables by name, the written files, and the runs without a recorded ending."""

    frames: Frames
    tables: Tables
    files: tuple[Path, ...]
    interrupted: tuple[str, ...]


def write_anatomy(recorded: Iterable[Recorded], out: Path) -> Anatomy:
    """Write `anatomy.html`, a .csv for each analysis, a .png and .svg for each figure, and `frames/*.parquet`.

    Each file is written under another name and renamed when it is complete, so that a killed process leaves no partial
    file.
    """
    frames = frames_of(recorded)
    tables = analyse(frames)
    (out / "frames").mkdir(parents=True, exist_ok=True)
    cells = {name: table.map(inert) for name, table in tables.items()}
    files = [_placed(out / f"{name}.csv", partial(table.to_csv, index=False)) for name, table in cells.items()]
    files += [_placed(out / "frames" / f"{n}.parquet", f.to_parquet) for n, f in frames._asdict().items()]
    drawings = _drawings(frames, tables, out)
    files += [out / f"{name}.{kind}" for name in drawings for kind in ("png", "svg")]
    page = _page(frames, sections_of(frames, tables, drawings))
    files.append(_placed(out / NAME, partial(_write, page)))
    interrupted = frames.runs.loc[frames.runs["ending"] == INTERRUPTED, "run"]
    return Anatomy(frames, tables, tuple(files), tuple(interrupted))


def _drawings(frames: Frames, tables: Tables, out: Path) -> dict[str, Markup]:
    names, drawings = methods_of(frames), dict[str, Markup]()
    with mpl.rc_context(INK):
        for name, draw in ANATOMY_FIGURES.items():
            figure = draw(tables, names)
            picture = drawings[name] = drawn(figure)
            _placed(out / f"{name}.svg", partial(_write, picture))
            _placed(out / f"{name}.png", partial(figure.savefig, format="png", dpi=150, facecolor="white"))
    return drawings


def told_of(frames: Frames) -> str:
    """Format the models of the runs, with a warning about scripted ones."""
    models = list(frames.runs["model"].unique())
    return f"certigraph anatomy, {', '.join(models)}{answering(models)}"


def _page(frames: Frames, sections: Markup) -> str:
    benchmarks = ", ".join(frames.runs["benchmark"].unique())
    title = joined(f"Anatomy of {counted(len(frames.runs), 'run')}{f' on {benchmarks}' if benchmarks else ''}")
    header = tag("header", tag("p", told_of(frames), class_="overline"), tag("h1", title))
    return Template(PAGE).substitute(title=title, style=STYLE + LOOKS, body=joined(header, sections))


def _placed(path: Path, write: Callable[[Path], object]) -> Path:
    draft = path.with_name(f"{path.name}.tmp")
    write(draft)
    return draft.replace(path)


def _write(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


# Output of the command `anatomy`.

MAIN: dict[str, tuple[str, dict[str, str]]] = {
    "solved": ("solved", {}),
    "faults": ("faults", {}),
    "cascades": ("cascade_rate", {}),
    "retried": ("retried", {}),
    "certified by failed runs": ("certified_part", {}),
    "goal certified = solved": ("calibration", {"measure": "agreement"}),
    "goal precision": ("calibration", {"measure": "solved if certified"}),
    "solved if not": ("calibration", {"measure": "solved if not certified"}),
    "tokens per predicate": ("certified_costs", {"measure": "tokens"}),
}
"""Printed figures: label -> (table, values that select its row)."""


def print_anatomy(anatomy: Anatomy, out: Path, unbegun: Sequence[Path] = (), own: int = 0) -> None:
    """Print the main figures with intervals and n, runs without an ending, what was left out, and the path of the page.

    Args:
        anatomy: the result.
        out: folder of the files.
        unbegun: trajectories of runs that stopped before they started.
        own: number of runs on the user's own questions, which have no scores.
    """
    console = Console(highlight=False, soft_wrap=True)
    table = Table("method", "", "value", "95 % interval", "n", box=None)
    for method in methods_of(anatomy.frames):
        for index, (name, cells) in enumerate(_lines(anatomy.tables, method)):
            table.add_row("" if index else escape(method), name, *cells)
    console.print(told_of(anatomy.frames), markup=False)
    console.print(table)
    for run in anatomy.interrupted:
        console.print(f"no ending on record, counted as interrupted: {run}", style="dim", markup=False)
    for path in unbegun:
        console.print(f"left out, stopped before it started: {path.parent}", style="dim", markup=False)
    if own:
        console.print(f"left out, without scores: {counted(own, 'question')} of your own", style="dim")
    console.print(f"{counted(len(anatomy.frames.runs), 'run')}; {out / NAME}", markup=False)


def _lines(tables: Tables, method: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for name, (table, where) in MAIN.items():
        line = line_of(tables[table], method, **where)
        if line is not None:
            shown = [_figure(line[part], "tokens" in name) for part in ("value", "low", "high")]
            yield name, (shown[0], f"{shown[1]} to {shown[2]}", f"{line['n']:,}")


def _figure(value: float, amount: bool) -> str:
    return "?" if pd.isna(value) else f"{value:,.0f}" if amount else f"{value:.0%}"
