"""Plots: canvas, panels and score-by-budget curves."""

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from certigraph.evaluation.statistics import standard_error
from certigraph.runtime.html import Markup
from certigraph.state.trajectory import Event, Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# What all pictures share: matplotlib, how it should look, and writing a picture as PNG and SVG.

INK, SOFT, FAINT, BLANK = "#222222", "#6b6b6b", "#d9d9d9", "#f2f2f2"

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which the colour-blind can tell apart; yellow, too pale for a line, left out."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "savefig.facecolor": "white",
    "svg.hashsalt": "certigraph",
}


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator["Figure"]:
    """An empty figure of that size in inches, written when the block ends as `path`.png and `path`.svg.

    It belongs to no window and no global state of matplotlib, and the same figure makes the same files.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        figure.savefig(path.with_suffix(".png"), dpi=200)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def grid(figure: "Figure", panels: int, columns: int) -> list["Axes"]:
    """That many panels with a common y axis, row by row; where the last row is not full, nothing is drawn."""
    axes = list(figure.subplots(-(-panels // columns), columns, sharey=True, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.remove()
    return axes[:panels]


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, by its place."""
    return {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}


# Score by budget: how much of the score a method has after so many calls or tokens, as means over runs.

MOST = 400
"""Points of a curve; more are not seen, and would make a page of a thousand runs heavy."""


class Point(NamedTuple):
    """A run's score (0 to 100), the best of its episodes so far, once so much is spent.

    Tokens are those of prompts and answers; `uncached` leaves out prompt tokens that the model had cached.
    """

    calls: int
    tokens: int
    uncached: int
    score: float


AXES = {"calls": "model calls", "tokens": "tokens, prompt + output", "uncached": "tokens, cached ones left out"}
"""What a curve may run over: fields of Point and their labels."""


class Knot(NamedTuple):
    """A point of a mean curve, which is a step function: these figures hold from `x` on, over n runs."""

    x: int
    mean: float
    stderr: float
    n: int


Curves = Mapping[str, Mapping[str, Sequence[Knot]]]
"""Axis -> method -> curve."""


def points_of(trajectory: Trajectory) -> list[Point]:
    """A run's points, first to last. Work that a resume did anew counts once: it is what the method needs.

    The last point has the benchmark's own verdict, for worlds that keep no score on the way.
    """
    points: list[Point] = []
    calls = tokens = cached = 0
    best = episode = 0.0
    for event in trajectory.events:
        calls += event.usage.calls
        tokens += event.usage.input_tokens + event.usage.output_tokens
        cached += event.usage.cached_tokens
        episode = _after(event, episode)
        best = max(best, episode)
        points.append(Point(calls, tokens, tokens - cached, best))
    footer = trajectory.footer
    verdict = 100 * footer.scores.value if footer and footer.scores else best
    return [*points, Point(calls, tokens, tokens - cached, verdict)]


def mean_curve(runs: Sequence[Sequence[Point]], axis: str) -> list[Knot]:
    """The mean of several runs over one axis: a run has 0 before its first point and keeps its last score."""
    steps = [_steps(run, axis) for run in runs]
    at = _thinned(sorted({0}.union(*(xs for xs, _ in steps))))
    scores = ([_score_at(x, xs, ys) for xs, ys in steps] for x in at)
    return [Knot(x, mean(found), standard_error(found), len(found)) for x, found in zip(at, scores, strict=True)]


def curves_of(runs: Mapping[str, Sequence[Sequence[Point]]]) -> Curves:
    """The curves of every method that has runs, over each axis."""
    return {axis: {name: mean_curve(mine, axis) for name, mine in runs.items() if mine} for axis in AXES}


def curve_lines(curves: Curves) -> Iterable[dict[str, Any]]:
    """The curves as lines of a table."""
    for axis, methods in curves.items():
        for method, knots in methods.items():
            yield from ({"axis": axis, "method": method, **knot._asdict()} for knot in knots)


def _after(event: Event, score: float) -> float:
    """The episode's score after an event: the last non-negative one shown, else the rewards so far in percent.

    What an inner graph was shown counts once its own run has it: it may have been a copy of the world.
    """
    update: dict[str, Any] = event.update or {}
    if event.scope or "observation" not in update:
        return score
    seen = update["observation"]
    before = 0.0 if "history" in event.replaced else score  # a new episode's log begins anew
    shown = seen.get("data", {}).get("score")
    if shown is None:
        return before + 100 * float(seen.get("reward", 0.0))
    return float(shown) if shown >= 0 else before


def _steps(run: Sequence[Point], axis: str) -> tuple[list[int], list[float]]:
    return [getattr(point, axis) for point in run], [point.score for point in run]


def _score_at(x: int, xs: Sequence[int], ys: Sequence[float]) -> float:
    known = bisect_right(xs, x)
    return ys[known - 1] if known else 0.0


def _thinned(xs: list[int]) -> list[int]:
    every = -(-len(xs) // MOST)
    return sorted({*xs[::every], xs[-1]})


# Draws score-by-budget curves: a step function for each method with a band of one standard error to both sides.

INKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08a00", "#56b4e9")
"""Told apart by colour-blind readers too (Okabe and Ito, the yellow darkened)."""

GREY = "#80838a"
"""Readable on a light and on a dark page."""

CHART_STYLE: Any = {
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
    with mpl.rc_context(CHART_STYLE):
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


# The kinds of panel that figures are made of. A row or point without data is told so, never drawn as zero.

PANEL_WIDTH = 26
MOST_LINES = 3
LINE_HEIGHT = 0.36
"""Inches for a row of a panel."""

MARKS = "os^D"

DODGE, SPREAD = 0.06, 0.2
"""How far apart the points of two methods are, and those of the first and last, in categories at most."""

FEW = 5
"""Figures over fewer rows are drawn hollow."""


def shown(name: str, width: int = PANEL_WIDTH) -> str:
    """A name short enough for an axis, on several lines; tables have it whole."""
    lines = wrap(name, width, break_on_hyphens=False) or ["(no name)"]
    kept = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], f"{lines[MOST_LINES - 1][:-1]}…"]
    # matplotlib leaves labels that begin with an underscore out of legends
    return "\n".join(kept).replace("_", "\u200a_", 1) if kept[0].startswith("_") else "\n".join(kept)


def draw_mark(place: int) -> str:
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
            dot(panel, line, place, ink(place), draw_mark(place))
            count_label(panel, place, line["n"])


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
            count_label(panel, place, found.loc[found["method"] == name, "n"].max())


def lines(panel: Any, found: pd.DataFrame, names: Sequence[str], column: str, places: Sequence[Any]) -> None:
    """A line a method over the values of a column, with intervals; a little apart, so that none hides another."""
    apart = min(DODGE, SPREAD / max(len(names) - 1, 1))
    for number, name in enumerate(names):
        mine = found[found["method"] == name].set_index(column)
        values = [place for place in places if place in mine.index]
        at = [places.index(value) + apart * (number - (len(names) - 1) / 2) for value in values]
        points = mine.loc[values]
        panel.vlines(at, points["low"], points["high"], color=ink(number), linewidth=1.2, alpha=0.5)
        panel.plot(
            at, points["value"], f"-{draw_mark(number)}", color=ink(number), markersize=5, linewidth=1.2, alpha=0.9
        )
    panel.set_xlim(-0.5, max(len(places), 1) - 0.5)
    panel.set_ylim(-0.03, 1.03)
    panel.spines[["top", "right"]].set_visible(False)


def panel_colours(parts: Sequence[Any]) -> dict[Any, str]:
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


def count_label(panel: Any, place: float, n: float) -> None:
    """How many rows a figure is over, right of its line."""
    panel.text(1.02, place, f"{int(n):,}", transform=panel.get_yaxis_transform(), va="center", fontsize=7.5)


def absent(panel: Any, place: float) -> None:
    """Says that there is nothing to draw."""
    panel.text(0.02, place, "no data", transform=panel.get_yaxis_transform(), va="center", fontsize=7.5, style="italic")


# How panels stand side by side, and what they have in common.

Names = Sequence[str]

INCHES = 12.0

TICK = 12
"""Characters on a line of a tick's label."""


def beside(count: int, names: Names, below: float = 0.4, *, coloured: bool = True) -> tuple[Figure, list[Any]]:
    """Panels side by side, a line a method in each."""
    height = LINE_HEIGHT * max(len(names), 1) * (1.4 if any(len(n) > PANEL_WIDTH for n in names) else 1)
    figure = Figure(figsize=(INCHES, height + 1.0 + below), layout="constrained")
    drawn = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    for panel in drawn:
        rows(panel, names, coloured=coloured and panel is drawn[0])
    return figure, drawn


def finish(panel: Any, title: str, *, share: bool = True, counted: bool = True) -> None:
    """A panel's title, its axis as shares or plain figures from 0, and what the numbers beside it are."""
    panel.set_title(title, fontsize=9, loc="left")
    if counted:
        panel.text(1.02, 1.0, "n", transform=panel.transAxes, va="bottom", fontsize=7.5, style="italic")
    if share:
        panel.set_xlim(-0.03, 1.03)
        panel.xaxis.set_major_formatter(lambda value, place: f"{value:.0%}")
    else:
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(lambda value, place: f"{value:,g}")
    panel.locator_params(axis="x", nbins=4)


def pairs(panel: Any, found: pd.DataFrame, names: Names, marks: Mapping[str, str]) -> None:
    """Two measures a method, one above the other, told apart by their marks."""
    for shift, (measure, mark) in zip((-0.16, 0.16), marks.items(), strict=True):
        for place, name in enumerate(names):
            line = line_of(found, name, measure=measure)
            if line is None:
                absent(panel, place + shift)
            else:
                dot(panel, line, place + shift, ink(place), mark)
                count_label(panel, place + 1.2 * shift, line["n"])
    key(panel, signs({name: (mark, GREY) for name, mark in marks.items()}))


def curve(panel: Any, found: pd.DataFrame, names: Names, column: str, places: Sequence[Any]) -> None:
    """Lines over a column, whose values are named on the axis, at most eight of them."""
    lines(panel, found, names, column, places)
    every = -(-len(places) // 8) or 1
    panel.set_xticks(range(0, len(places), every), [shown(str(place), TICK) for place in places[::every]])
    if not places:
        panel.text(0.5, 0.5, "no data", transform=panel.transAxes, ha="center", style="italic")


def by_kind(panel: Any, found: pd.DataFrame, names: Names, kinds: Sequence[str]) -> None:
    """A dot for each kind and method that has it, the methods of a kind side by side."""
    for number, name in enumerate(names):
        shift = 0.7 * ((number + 0.5) / len(names) - 0.5)
        for place, kind in enumerate(kinds):
            line = line_of(found, name, kind=kind)
            if line is not None:
                dot(panel, line, place + shift, ink(number), draw_mark(number))


def legend(figure: Figure, names: Names) -> None:
    """What the methods' colours and marks are, below a figure."""
    handles = signs({name: (draw_mark(place), ink(place)) for place, name in enumerate(names)})
    if handles:
        figure.legend(handles=handles, ncols=4, frameon=False, fontsize=8, loc="outside lower left")


def sizes(found: pd.DataFrame) -> str:
    """Over how many runs the points of a curve are."""
    if found.empty:
        return "no runs"
    low, high = found["n"].min(), found["n"].max()
    return f"n = {low:,} a point" if low == high else f"n = {low:,} to {high:,} a point"
