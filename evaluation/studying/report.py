"""Everything that is written of a study, at any time: frames and tables as CSV, figures, and a page."""

from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

from certigraph.adapters.caching import whole_file
from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparing.drawing import STYLE, written
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.report.html import Markup
from certigraph.evaluation.spreadsheets import inert
from certigraph.evaluation.studying.drawing import FIGURES
from certigraph.evaluation.studying.frames import Frames, frames_of
from certigraph.evaluation.studying.page import page_of
from certigraph.evaluation.studying.reading import errors_in, seen_in
from certigraph.evaluation.studying.replay import replayed_gates
from certigraph.evaluation.studying.tables import Tables, tables_of

PAGE = "study.html"


class Study(NamedTuple):
    """What a study has come to so far: a line a run, and every table by name."""

    frames: Frames
    tables: Tables


def report(plan: Plan, folder: Path, benchmark: Benchmark) -> Study:
    """Write the report of a study as far as it has come, and return what was found.

    Writes `study.html`, `episodes.csv`, `rounds.csv`, `replays.csv`, a CSV for each table, and `quality` and `growth`
    as PNG and SVG. Page and CSV files are put in their place when whole.
    """
    frames = frames_of(seen_in(plan, folder, benchmark), replayed_gates())
    study = Study(frames, {**tables_of(frames), "errors": errors_in(plan, folder)})
    for name, frame in {**frames._asdict(), **study.tables}.items():
        with whole_file(folder / f"{name}.csv") as draft:
            frame.map(inert).to_csv(draft, index=False)
    with whole_file(folder / PAGE) as draft:
        page = page_of(plan, study.tables, _drawings(study.tables, folder), len(frames.episodes))
        draft.write_text(page, encoding="utf-8")
    return study


def _drawings(tables: Tables, folder: Path) -> dict[str, Markup]:
    with mpl.rc_context(STYLE):
        return {name: written(draw(tables), folder / name) for name, draw in FIGURES.items()}
