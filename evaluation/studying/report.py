"""Everything that is written of a study, at any time: frames and tables as CSV, figures, and a page."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

from certigraph.adapters.protocols import Benchmark
from certigraph.evaluation.comparing.drawing import STYLE, written
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.report.html import Markup
from certigraph.evaluation.studying.drawing import FIGURES
from certigraph.evaluation.studying.frames import Frames, frames_of
from certigraph.evaluation.studying.page import page_of
from certigraph.evaluation.studying.reading import seen_in
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
    as PNG and SVG. Each file is put in its place when whole.
    """
    frames = frames_of(seen_in(plan, folder, benchmark), replayed_gates())
    study = Study(frames, tables_of(frames))
    for name, frame in {**frames._asdict(), **study.tables}.items():
        _placed(folder / f"{name}.csv", partial(frame.to_csv, index=False))
    page = page_of(plan, study.tables, _drawings(study.tables, folder), len(frames.episodes))
    _placed(folder / PAGE, partial(_write, page))
    return study


def _drawings(tables: Tables, folder: Path) -> dict[str, Markup]:
    with mpl.rc_context(STYLE):
        return {name: written(draw(tables), folder / name) for name, draw in FIGURES.items()}


def _placed(path: Path, write: Callable[[Path], object]) -> None:
    draft = path.with_name(f"{path.name}.tmp")
    write(draft)
    draft.replace(path)


def _write(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")
