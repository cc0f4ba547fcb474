"""Draws a sweep: a panel a benchmark, a dot a method with its interval, the methods of one graph together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from certigraph.evaluation.comparing.drawing import GREY, INKS, STYLE, written
from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.comparing.summary import Summary
from certigraph.evaluation.report.html import Markup, clipped
from certigraph.evaluation.settings import swaps_of
from certigraph.evaluation.sweeping.findings import Found, SweepFindings

COLUMNS = 4
WIDTH, ROW, AROUND = 12.0, 0.25, 0.95
"""Inches: the figure, a method, and what a panel takes besides its methods."""

APART = 0.6
"""Methods' heights between two graphs."""

LONGEST = 44
"""Characters of a label; the table has the whole name."""


class Place(NamedTuple):
    """A method's line in every panel, its graph's colour, and whether it is the graph as it is."""

    name: str
    graph: str
    label: str
    y: float
    ink: str
    own: bool


def draw_scores(findings: SweepFindings, methods: Sequence[Method]) -> Markup:
    """Write `scores.png` and `scores.svg`, and return the drawing to put into a page."""
    with mpl.rc_context(STYLE):
        return written(_figure(findings.found, places(methods)), findings.out / "scores")


def places(methods: Sequence[Method]) -> list[Place]:
    """The methods from top to bottom, in their order, a gap between graphs."""
    graphs = list(dict.fromkeys(method.graph for method in methods))
    found = []
    for row, method in enumerate(methods):
        number = graphs.index(method.graph)
        own = not swaps_of(method.graph, method.operators)
        label = clipped(method.name if own else method.name.removeprefix(f"{method.graph} "), LONGEST)
        found.append(Place(method.name, method.graph, label, row + APART * number, INKS[number % len(INKS)], own))
    return found


def _figure(found: Sequence[Found], lines: Sequence[Place]) -> Figure:
    columns = min(len(found), COLUMNS)
    rows = -(-len(found) // columns)
    height = rows * (ROW * (lines[-1].y + 1) + AROUND)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for panel, one in zip(panels, found, strict=False):
        _panel(panel, one, lines)
    for spare in panels[len(found) :]:
        spare.remove()
    return figure


def _panel(panel: Any, found: Found, lines: Sequence[Place]) -> None:
    by_name = {summary.method: summary for summary in found.comparison.methods}
    for line in lines:
        _dot(panel, by_name[line.name], line)
        _reference(panel, by_name[line.name], line, lines)
    n = found.comparison.n
    panel.set_title(f"{found.title}, n={n}", loc="left", fontsize=9.5, color=GREY)
    panel.set_xlim(-3, 103)
    panel.set_ylim(lines[-1].y + 0.7, -0.7)
    panel.set_yticks([line.y for line in lines], [line.label for line in lines])
    panel.set_xlabel("score, 95 % interval")
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.grid(axis="x", color=GREY, alpha=0.18, linewidth=0.6)
    panel.set_axisbelow(True)


def _reference(panel: Any, summary: Summary, line: Place, lines: Sequence[Place]) -> None:
    """From a graph as it is down to its variants, so that they are seen beside it."""
    last = max(other.y for other in lines if other.graph == line.graph)
    if line.own and summary.n and last > line.y:
        panel.plot([summary.score] * 2, [line.y, last], color=line.ink, linewidth=0.9, linestyle=":", zorder=2)


def _dot(panel: Any, summary: Summary, line: Place) -> None:
    """Filled for the graph as it is, hollow for a variant; nothing where no task is finished."""
    if not summary.n:
        return
    if summary.low is not None and summary.high is not None:
        panel.plot([summary.low, summary.high], [line.y] * 2, color=line.ink, alpha=0.45, linewidth=4)
    face = line.ink if line.own else "white"
    panel.plot(summary.score, line.y, "o", markersize=6.5, markerfacecolor=face, markeredgecolor=line.ink, zorder=3)
