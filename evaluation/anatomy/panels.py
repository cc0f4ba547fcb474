"""The kinds of panel that figures are made of. A row or point without data is told so, never drawn as zero."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from certigraph.evaluation.comparing.drawing import GREY, INKS

WIDTH = 26
MOST_LINES = 3
LINE_HEIGHT = 0.36
"""Inches for a row of a panel."""

MARKS = "os^D"

DODGE, SPREAD = 0.06, 0.2
"""How far apart the points of two methods are, and those of the first and last, in categories at most."""

FEW = 5
"""Figures over fewer rows are drawn hollow."""


def shown(name: str, width: int = WIDTH) -> str:
    """A name short enough for an axis, on several lines; tables have it whole."""
    lines = wrap(name, width, break_on_hyphens=False) or ["(no name)"]
    kept = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], f"{lines[MOST_LINES - 1][:-1]}…"]
    # matplotlib leaves labels that begin with an underscore out of legends
    return "\n".join(kept).replace("_", "\u200a_", 1) if kept[0].startswith("_") else "\n".join(kept)


def mark(place: int) -> str:
    """The marker of the series at that place: it tells series of one colour apart."""
    return MARKS[place // len(INKS) % len(MARKS)]


def ink(place: int) -> str:
    """The colour of the series at that place."""
    return INKS[place % len(INKS)]


def rows(panel: Any, names: Sequence[str], *, coloured: bool = False) -> None:
    """A horizontal line for each name, the first on top."""
    panel.set_yticks(range(len(names)), [shown(name) for name in names])
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.grid(axis="x", color=GREY, alpha=0.2, linewidth=0.6)
    panel.set_axisbelow(True)
    for place, label in enumerate(panel.get_yticklabels() if coloured else ()):
        label.set_color(ink(place))


def line_of(found: pd.DataFrame, method: str, **where: str) -> "pd.Series[Any] | None":
    """A method's line of a table, where the named columns have these values; None where there is no figure."""
    mine = found[found["method"] == method]
    for column, value in where.items():
        mine = mine[mine[column] == value]
    return None if mine.empty or pd.isna(mine.iloc[0]["value"]) else mine.iloc[0]


def dots(panel: Any, found: pd.DataFrame, names: Sequence[str]) -> None:
    """A dot with its interval on each method's line, and n beside it."""
    for place, name in enumerate(names):
        line = line_of(found, name)
        if line is None:
            absent(panel, place)
        else:
            dot(panel, line, place, ink(place), mark(place))
            counted(panel, place, line["n"])


def dot(panel: Any, line: "pd.Series[Any]", at: float, colour: str, marker: str = "o") -> None:
    """One figure with its interval; hollow where it is over few rows."""
    if pd.notna(line["low"]):
        panel.plot([line["low"], line["high"]], [at, at], color=colour, linewidth=1.4, alpha=0.6)
    face = "none" if line["n"] < FEW else colour
    panel.plot([line["value"]], [at], marker, color=colour, markerfacecolor=face, markersize=6, clip_on=False)


def bars(panel: Any, found: pd.DataFrame, names: Sequence[str], column: str, parts: Mapping[Any, str]) -> None:
    """Each method's parts one after the other; `parts` has the values of the column in order, with their colours."""
    for place, name in enumerate(names):
        mine = found[found["method"] == name].set_index(column)["value"]
        end = 0.0
        for part, colour in parts.items():
            value = float(mine.get(part, 0.0))
            if value:
                panel.barh(place, value, left=end, height=0.55, color=colour, edgecolor=GREY, linewidth=0.3)
            end += value
        if mine.empty:
            absent(panel, place)
        else:
            counted(panel, place, found.loc[found["method"] == name, "n"].max())


def lines(panel: Any, found: pd.DataFrame, names: Sequence[str], column: str, places: Sequence[Any]) -> None:
    """A line a method over the values of a column, with intervals; a little apart, so that none hides another."""
    apart = min(DODGE, SPREAD / max(len(names) - 1, 1))
    for number, name in enumerate(names):
        mine = found[found["method"] == name].set_index(column)
        values = [place for place in places if place in mine.index]
        at = [places.index(value) + apart * (number - (len(names) - 1) / 2) for value in values]
        points = mine.loc[values]
        panel.vlines(at, points["low"], points["high"], color=ink(number), linewidth=1.2, alpha=0.5)
        panel.plot(at, points["value"], f"-{mark(number)}", color=ink(number), markersize=5, linewidth=1.2, alpha=0.9)
    panel.set_xlim(-0.5, max(len(places), 1) - 0.5)
    panel.set_ylim(-0.03, 1.03)
    panel.spines[["top", "right"]].set_visible(False)


def colours(parts: Sequence[Any]) -> dict[Any, str]:
    """A colour for each part of a bar: the inks, grey, then the inks again, paler."""
    inks = (*INKS, GREY, *(f"{colour}80" for colour in INKS))
    return {part: inks[place % len(inks)] for place, part in enumerate(parts)}


def key(panel: Any, handles: Sequence[Any], columns: int = 2) -> None:
    """What the signs of a panel mean, below it."""
    if handles:
        below = {"loc": "upper left", "bbox_to_anchor": (0, 0), "borderaxespad": 3.2}
        panel.legend(handles=handles, ncols=columns, frameon=False, fontsize=8, **below)


def patches(parts: Mapping[Any, str]) -> list[Patch]:
    """Signs for the parts of bars."""
    return [Patch(facecolor=c, edgecolor=GREY, linewidth=0.3, label=shown(str(part))) for part, c in parts.items()]


def signs(marks: Mapping[str, tuple[str, str]]) -> list[Line2D]:
    """Signs for markers in their colours."""
    return [
        Line2D([], [], marker=shape, color=colour, linestyle="", label=shown(name))
        for name, (shape, colour) in marks.items()
    ]


def counted(panel: Any, place: float, n: float) -> None:
    """How many rows a figure is over, right of its line."""
    panel.text(1.02, place, f"{int(n):,}", transform=panel.get_yaxis_transform(), va="center", fontsize=7.5)


def absent(panel: Any, place: float) -> None:
    """Says that there is nothing to draw."""
    panel.text(0.02, place, "no data", transform=panel.get_yaxis_transform(), va="center", fontsize=7.5, style="italic")
