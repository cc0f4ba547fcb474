"""The anatomy as sections of a page: figures, how to read them, and the tables behind them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import matplotlib as mpl
import pandas as pd

from certigraph.evaluation.anatomy.analyses import Tables, analyse
from certigraph.evaluation.anatomy.failures import CAUSES
from certigraph.evaluation.anatomy.frames import Frames
from certigraph.evaluation.anatomy.plots import FIGURES
from certigraph.evaluation.comparing.drawing import STYLE, drawn
from certigraph.evaluation.report.html import Markup, counted, joined, table, tag
from certigraph.state.endings import INTERRUPTED

MOST_NAMED = 5
"""Runs that are named of those without an ending."""

MOST_LINES = 200
"""Lines of a table on the page; the CSV has all."""


class Part(NamedTuple):
    """A section: its title, how to read its figure, and the tables behind it."""

    title: str
    caption: str
    tables: tuple[str, ...]


GENERAL = (
    "Bars through points are 95 % intervals: Wilson's for shares, t for means; rows of one task count as a cluster. "
    "Hollow points are over fewer than five rows. Rates leave out runs in which the world or its data failed. Methods "
    "without predicates have no data where those are asked for."
)
PARTS = {
    "rates": Part(
        "How certified runs move",
        "A cascade is one action that discharged several predicates; n counts certified transitions, returns left out. "
        "A transition counts as retried when its target was rejected before. Failed runs that certified their goal are "
        "left out of the third panel and told under calibration.",
        ("cascade_rate", "depths", "retried", "certified_part", "compression"),
    ),
    "curves": Part(
        "Replans and length of the task",
        "Left: of the runs with so many replans the share that solved the task; 5 stands for 5 and more. A falling "
        "line says that replanning does not rescue. Right: mean score by a length that is known before the run where "
        "the benchmark has one (days, blocks, group of the gold path), else by the length of the plan.",
        ("solved", "faults", "replan_curve", "score_by_horizon"),
    ),
    "stops": Part(
        "Where and why runs fail",
        f"A bar's parts add up to all runs under n. Causes exclude each other, the first that fits counts: "
        f"{'; '.join(f'{cause}: {rule}' for cause, rule in CAUSES.items())}.",
        ("stopped_kinds", "stopped_places", "failure_causes"),
    ),
    "calibration": Part(
        "Calibration of the validator",
        "A certified goal set against the benchmark's own verdict, over runs that came to an ending of their own. The "
        "further apart the two points of the middle panel are, the more a certificate says.",
        ("calibration",),
    ),
    "credit": Part(
        "Credit of predicates",
        "What certified predicates of each kind were worth and took since the certificate before, shared out in a "
        "cascade; the cost of writing the plan is left out. n is in the table.",
        ("credit",),
    ),
    "spending": Part(
        "What runs spend",
        "Left: mean tokens a run, of prompts and answers. Right: all tokens of all runs by the predicates that are "
        "certified at their end, failed runs included.",
        ("node_costs", "certified_costs"),
    ),
}


def anatomy_sections(frames: Frames) -> Markup:
    """All sections, to put into a page with the styles of `report.page` and `comparing.page`."""
    tables, names = analyse(frames), methods_of(frames)
    with mpl.rc_context(STYLE):
        drawings = {name: drawn(draw(tables, names)) for name, draw in FIGURES.items()}
    return sections_of(frames, tables, drawings)


def sections_of(frames: Frames, tables: Tables, drawings: Mapping[str, Markup]) -> Markup:
    """The same from tables and drawings that are made already."""
    if frames.runs.empty:
        return tag("section", tag("h2", "Anatomy"), tag("p", "No run is on record.", class_="quiet"))
    about = tag("section", tag("h2", "Anatomy of the runs"), tag("p", _about(frames), class_="key"))
    return joined(about, *(_section(part, drawings[name], tables) for name, part in PARTS.items()))


def methods_of(frames: Frames) -> list[str]:
    """The methods in the order in which they were read."""
    return list(frames.runs["method"].unique())


def figure_text(line: Any, name: str) -> str:
    """A cell of a table: counts whole, other figures with three digits, `-` where there is none."""
    value = getattr(line, name)
    if not isinstance(value, str) and pd.isna(value):
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _about(frames: Frames) -> str:
    runs = frames.runs
    stopped = runs.loc[runs["ending"] == INTERRUPTED, "run"].tolist()
    more = f" and {len(stopped) - MOST_NAMED:,} more" if len(stopped) > MOST_NAMED else ""
    named = f" No ending is on record of {', '.join(stopped[:MOST_NAMED])}{more}: counted as interrupted."
    return f"{counted(len(runs), 'run')}. {GENERAL}{named if stopped else ''}"


def _section(part: Part, drawing: Markup, tables: Tables) -> Markup:
    shown = (tag("details", tag("summary", name.replace("_", " ")), _table(tables[name])) for name in part.tables)
    return tag(
        "section",
        tag("h2", part.title),
        tag("div", drawing, class_="drawing wide"),
        tag("p", part.caption, class_="key"),
        *shown,
    )


def _table(frame: pd.DataFrame) -> Markup:
    columns = list(frame.columns)
    heads = (name.replace("_", " ") for name in columns)
    lines = ((figure_text(line, c) for c in columns) for line in frame.head(MOST_LINES).itertuples(index=False))
    left = len(frame) - MOST_LINES
    more = [tag("p", f"{counted(left, 'more line')}: see the CSV", class_="quiet")] if left > 0 else []
    return table(heads, lines, *more)
