"""Draws score-by-budget curves: a step function for each method with a band of one standard error to both sides."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from certigraph.evaluation.comparing.curves import AXES, Curves, Knot
from certigraph.evaluation.report.html import Markup

INKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08a00", "#56b4e9")
"""Told apart by colour-blind readers too (Okabe and Ito, the yellow darkened)."""

GREY = "#80838a"
"""Readable on a light and on a dark page."""

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "certigraph",  # the same curves make the same file
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,  # a dollar in a name is a dollar
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), GREY),
}
UNDATED = {"Date": None, "Creator": None, "Format": None, "Type": None}


WIDTH, HEIGHT, ROW = 12, 3.8, 0.2
"""Inches: a figure, its panels, and a row of its legend."""

DASHES = ("-", "--", ":")
"""Of methods whose number is beyond the inks'."""


def draw_curves(curves: Curves, folder: Path) -> Markup:
    """Write `curves.png` and `curves.svg`, and return the drawing to put into a page."""
    with mpl.rc_context(STYLE):
        return written(_figure(curves), folder / "curves")


def written(figure: Figure, path: Path) -> Markup:
    """Write a figure as `path`.png and `path`.svg, and return its drawing; inside `mpl.rc_context(STYLE)`."""
    figure.savefig(path.with_suffix(".png"), dpi=150, facecolor="white")
    drawing = drawn(figure)
    path.with_suffix(".svg").write_text(drawing, encoding="utf-8")
    return drawing


def drawn(figure: Figure) -> Markup:
    """A figure as an SVG element to put into a page, its text kept as text; inside `mpl.rc_context(STYLE)`."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=UNDATED)
    return Markup(file.getvalue()[file.getvalue().index("<svg") :])


def _figure(curves: Curves) -> Figure:
    columns, rows = _legend_shape(list(curves["calls"]))
    figure = Figure(figsize=(WIDTH, HEIGHT + ROW * rows), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True, squeeze=False)[0]
    for panel, (axis, label) in zip(panels, AXES.items(), strict=True):
        _panel(panel, curves[axis], label)
    panels[0].set_ylabel("mean score so far")
    if rows:
        lines = panels[0].get_lines()
        figure.legend(handles=lines, loc="outside upper left", ncols=columns, frameon=False, labelcolor="linecolor")
    return figure


def _legend_shape(names: Sequence[str]) -> tuple[int, int]:
    """Columns and rows of a legend above the panels, the longest name in every column: names are as long as swaps."""
    widest = 0.6 + 0.08 * max(map(len, names), default=0)  # inches, line and gap included
    columns = max(1, min(len(names), int(WIDTH / widest)))
    return columns, -(-len(names) // columns)


def _panel(panel: Any, methods: Any, label: str) -> None:
    # a little past the last point, so that a step at the very end is seen
    end = 1.03 * max((knots[-1].x for knots in methods.values()), default=0) or 1
    for number, (method, knots) in enumerate(methods.items()):
        _line(panel, method, knots, end, number)
    panel.set_xlabel(label)
    panel.set_xlim(0, end)
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20k: five digits a tick run into each other
    panel.set_ylim(bottom=0)
    panel.spines[["top", "right"]].set_visible(False)


def _line(panel: Any, method: str, knots: Sequence[Knot], end: float, number: int) -> None:
    ink, dash = INKS[number % len(INKS)], DASHES[number // len(INKS) % len(DASHES)]
    at = [*(knot.x for knot in knots), end]
    means, errors = ([getattr(knot, part) for knot in [*knots, knots[-1]]] for part in ("mean", "stderr"))
    low, high = ([m + sign * error for m, error in zip(means, errors, strict=True)] for sign in (-1, 1))
    panel.step(at, means, where="post", color=ink, linestyle=dash, linewidth=1.6, label=method)
    panel.fill_between(at, low, high, step="post", color=ink, alpha=0.14, linewidth=0)
