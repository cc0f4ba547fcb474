"""Everything that is written of recorded runs: a page, figures, tables and frames."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from string import Template
from typing import NamedTuple

import matplotlib as mpl

from certigraph.evaluation.anatomy.analyses import Tables, analyse
from certigraph.evaluation.anatomy.frames import Frames, frames_of
from certigraph.evaluation.anatomy.plots import FIGURES
from certigraph.evaluation.anatomy.rows import Recorded
from certigraph.evaluation.anatomy.sections import methods_of, sections_of
from certigraph.evaluation.comparing.drawing import STYLE as INK
from certigraph.evaluation.comparing.drawing import drawn
from certigraph.evaluation.comparing.page import FIGURES as LOOKS
from certigraph.evaluation.comparing.table import answering
from certigraph.evaluation.report.html import Markup, counted, joined, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.spreadsheets import inert
from certigraph.state.endings import INTERRUPTED

NAME = "anatomy.html"


class Anatomy(NamedTuple):
    """What was found and written: all tables by name, the files, and the runs that have no ending on record."""

    frames: Frames
    tables: Tables
    files: tuple[Path, ...]
    interrupted: tuple[str, ...]


def write_anatomy(recorded: Iterable[Recorded], out: Path) -> Anatomy:
    """Write `anatomy.html`, a .csv for each analysis, a .png and .svg for each figure, and `frames/*.parquet`.

    Each file is written beside its place and put there when whole: a killed process leaves no half file.
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
    stopped = frames.runs.loc[frames.runs["ending"] == INTERRUPTED, "run"]
    return Anatomy(frames, tables, tuple(files), tuple(stopped))


def _drawings(frames: Frames, tables: Tables, out: Path) -> dict[str, Markup]:
    names, drawings = methods_of(frames), dict[str, Markup]()
    with mpl.rc_context(INK):
        for name, draw in FIGURES.items():
            figure = draw(tables, names)
            picture = drawings[name] = drawn(figure)
            _placed(out / f"{name}.svg", partial(_write, picture))
            _placed(out / f"{name}.png", partial(figure.savefig, format="png", dpi=150, facecolor="white"))
    return drawings


def told_of(frames: Frames) -> str:
    """Which models the runs were made with, and what must be known of that."""
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
