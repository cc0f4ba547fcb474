"""Report of the anatomy of recorded runs (`certigraph anatomy`): the analyses of the SDP paper on any runs.

The analyses are computed in `evaluation/anatomy.py`; this module writes page, figures and tables, and prints a summary.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from certigraph.adapters.files import replace_file
from certigraph.evaluation.anatomy import ANATOMY_FIGURES, AnalysisTables, analyse, anatomy_view, methods_of
from certigraph.evaluation.frames import Frames
from certigraph.evaluation.plots import find_line
from certigraph.evaluation.result_tables import format_model_note
from certigraph.evaluation.tables import format_estimate, write_page
from certigraph.runtime.texts import format_count
from certigraph.state.endings import INTERRUPTED
from certigraph.studies.tables import print_frames, write_figures, write_tables

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
    tables, names = analyse(frames), methods_of(frames)
    (out / "frames").mkdir(parents=True, exist_ok=True)
    files = write_tables(tables, out)
    for name, frame in frames._asdict().items():
        files.append(out / "frames" / f"{name}.parquet")
        with replace_file(files[-1]) as draft:
            frame.to_parquet(draft)
    drawings = write_figures({name: partial(draw, tables, names) for name, draw in ANATOMY_FIGURES.items()}, out)
    files += [out / f"{name}.{kind}" for name in drawings for kind in ("png", "svg")]
    files.append(out / ANATOMY_PAGE)
    solved = [(method, find_line(tables["solved"], method)) for method in names]
    shares = [f"{method} {line['value']:.0%} of {line['n']}" for method, line in solved if line is not None]
    benchmarks = ", ".join(frames.runs["benchmark"].unique())
    write_page(
        files[-1],
        "anatomy.html",
        package="certigraph.studies",
        title=f"Anatomy of {format_count(len(frames.runs), 'run')}{f' on {benchmarks}' if benchmarks else ''}",
        scope=format_models(frames),
        verdict=f"Solved: {', '.join(shares)}." if shares else "",
        anatomy=anatomy_view(frames, tables, drawings),
    )
    interrupted = frames.runs.loc[frames.runs["ending"] == INTERRUPTED, "run"]
    return AnatomyReport(frames, tables, tuple(files), tuple(interrupted))


def format_models(frames: Frames) -> str:
    """Format the models of the runs, with a note if some are scripted and not language models."""
    models = list(frames.runs["model"].unique())
    return f"certigraph anatomy, {', '.join(models)}{format_model_note(models)}"


# Output of the command `anatomy`.


class PrintedFigure(NamedTuple):
    """Figure that is printed for each method: its table, the measure of the row, and what its n counts."""

    table: str
    measure: str = ""
    counted: str = "run"


PRINTED_FIGURES = {
    "solved": PrintedFigure("solved"),
    "faults": PrintedFigure("faults"),
    "cascades": PrintedFigure("cascade_rate", counted="action"),
    "retried": PrintedFigure("retried", counted="action"),
    "plan done by failed runs": PrintedFigure("certified_part"),
    "agreement with scorer": PrintedFigure("calibration", "agreement"),
    "goal precision": PrintedFigure("calibration", "solved if certified"),
    "solved, not certified": PrintedFigure("calibration", "solved if not certified"),
    "tokens per condition": PrintedFigure("certified_costs", "tokens"),
}
"""The figures that are printed, by label. docs/evaluation.md says what each means."""


def print_anatomy(anatomy: AnatomyReport, out: Path, unbegun: Sequence[Path] = (), own: int = 0) -> None:
    """Print the main results of each method with intervals and n, runs left out, and the path of the page.

    Args:
        anatomy: the result of the analyses.
        out: folder of the files.
        unbegun: trajectory files of runs that stopped before their header was written.
        own: number of runs that answer the user's own questions, which have no scores.
    """
    heads = ["figure", "value (95 % interval)", "n"]
    rows = {method: list(_printed_rows(anatomy.tables, method)) for method in methods_of(anatomy.frames)}
    notes = [
        *(f"no ending on record, counted as interrupted: {run}" for run in anatomy.interrupted),
        *(f"left out, stopped before it started: {path.parent}" for path in unbegun),
        *([f"left out, without scores: {format_count(own, 'question')} of your own"] if own else []),
        format_models(anatomy.frames),
        f"{format_count(len(anatomy.frames.runs), 'run')}; {out / ANATOMY_PAGE} has all figures and their meanings",
    ]
    print_frames({method: pd.DataFrame(lines, columns=heads) for method, lines in rows.items()}, notes)


def _printed_rows(tables: AnalysisTables, method: str) -> Iterator[tuple[str, str, str]]:
    for name, (table, measure, counted) in PRINTED_FIGURES.items():
        line = find_line(tables[table], method, **({"measure": measure} if measure else {}))
        if line is not None:
            form, value = ",.0f" if "tokens" in name else ".0%", line["value"]
            shown = "?" if pd.isna(value) else format_estimate(value, line["low"], line["high"], form)
            yield name, shown, format_count(line["n"], counted)
