"""Draws score-by-budget curves: a step function for each method with a band of one standard error to both sides."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

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
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), GREY),
}
UNDATED = {"Date": None, "Creator": None, "Format": None, "Type": None}


def draw_curves(curves: Curves, folder: Path) -> Markup:
    """Write `curves.png` and `curves.svg`, and return the drawing to put into a page."""
    with mpl.rc_context(STYLE):
        figure = _figure(curves)
        figure.savefig(folder / "curves.png", dpi=150, facecolor="white")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata=UNDATED)
    (folder / "curves.svg").write_text(drawn.getvalue(), encoding="utf-8")
    return Markup(drawn.getvalue()[drawn.getvalue().index("<svg") :])


def _figure(curves: Curves) -> Figure:
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True, squeeze=False)[0]
    for panel, (axis, label) in zip(panels, AXES.items(), strict=True):
        _panel(panel, curves[axis], label)
    panels[0].set_ylabel("mean score so far")
    if any(curves.values()):
        panels[0].legend(frameon=False, loc="upper left", labelcolor="linecolor")
    return figure


def _panel(panel: Any, methods: Any, label: str) -> None:
    # a little past the last point, so that a step at the very end is seen
    end = 1.03 * max((knots[-1].x for knots in methods.values()), default=0) or 1
    for number, (method, knots) in enumerate(methods.items()):
        _line(panel, method, knots, end, INKS[number % len(INKS)])
    panel.set_xlabel(label)
    panel.set_xlim(0, end)
    panel.set_ylim(bottom=0)
    panel.spines[["top", "right"]].set_visible(False)


def _line(panel: Any, method: str, knots: Sequence[Knot], end: float, ink: str) -> None:
    at = [*(knot.x for knot in knots), end]
    means, errors = ([getattr(knot, part) for knot in [*knots, knots[-1]]] for part in ("mean", "stderr"))
    low, high = ([m + sign * error for m, error in zip(means, errors, strict=True)] for sign in (-1, 1))
    panel.step(at, means, where="post", color=ink, linewidth=1.6, label=method)
    panel.fill_between(at, low, high, step="post", color=ink, alpha=0.14, linewidth=0)
