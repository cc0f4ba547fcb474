"""Plots drawn with matplotlib: figures, panels with one row per method, and curves of the score by budget."""

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import mean
from textwrap import wrap
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import matplotlib as mpl
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from certigraph.adapters.benchmarks import standard_error
from certigraph.adapters.files import replace_file, replace_text
from certigraph.evaluation.frames import Frames

T = TypeVar("T")

# Colours and styles. A method, a part of a bar and a line of a print have the same colours everywhere.

SERIES_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b08a00", "#56b4e9")
"""Colours of the methods in a plot: Okabe and Ito's palette for colour-blind readers, with a darker yellow."""

GREY = "#80838a"
"""Colour that is readable on a light and on a dark page."""

INK, SOFT, FAINT, BLANK = "#222222", "#6b6b6b", "#d9d9d9", "#f2f2f2"
"""Colours of text, axes, grids and empty areas in print, on white."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "svg.hashsalt": "certigraph",  # the ids in an SVG file are those of the figure: the same figure gives the same file
    "axes.titlelocation": "left",
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
}
"""Matplotlib settings of all figures."""

PRINT_STYLE: dict[Any, Any] = {
    **STYLE,
    "font.size": 8,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), SOFT),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    "axes.titlesize": 8.5,
    "savefig.facecolor": "white",
}
"""Matplotlib settings of figures for print."""

CHART_STYLE: dict[Any, Any] = {
    **STYLE,
    **dict.fromkeys(("font.size", "axes.titlesize"), 9),
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a name starts no formula
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), GREY),
}
"""Matplotlib settings of drawings on an HTML page."""


def series_colour(index: int) -> str:
    """Return the colour of the method at an index; colours repeat after the last one."""
    return SERIES_COLOURS[index % len(SERIES_COLOURS)]


def assign_colours(names: Iterable[T]) -> dict[T, str]:
    """Assign a colour to each name, in order: SERIES_COLOURS, grey, then paler SERIES_COLOURS."""
    inks = (*SERIES_COLOURS, GREY, *(f"{colour}80" for colour in SERIES_COLOURS))
    return {name: inks[index % len(inks)] for index, name in enumerate(names)}


# Figures for print, as PNG and SVG.


@contextmanager
def open_figure(path: Path, width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure, which is saved as `path`.png and `path`.svg when the block ends.

    No window is opened and no global state of matplotlib is changed. The same drawing always gives the same files.

    Args:
        path: the path without its suffix.
        width: in inches.
        height: in inches.
    """
    with mpl.rc_context(PRINT_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(path.with_suffix(".png"), dpi=200)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def add_panels(figure: Figure, panels: int, columns: int) -> list[Any]:
    """Add panels with a common y axis to a figure, in rows of `columns` panels."""
    rows = max(1, -(-panels // columns))
    axes = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.remove()
    return axes[:panels]


def draw_grid(panel: Axes, axis: Literal["x", "y"]) -> None:
    """Draw faint grid lines behind the data, at the ticks of one axis."""
    panel.grid(axis=axis, color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


# Score by budget: mean score over runs after a number of calls or tokens.

MAX_CURVE_POINTS = 400
"""Maximum number of points of a curve; more would not be visible and would make a page large."""


AXIS_LABELS = {"calls": "model calls", "tokens": "tokens, prompt + output", "uncached": "tokens, cached ones left out"}
"""Label of each horizontal axis of the curves. The keys are what a run has taken so far, as in `points_of`."""


class CurvePoint(NamedTuple):
    """Point of a mean curve, which is a step function: from `x` on, `n` runs have this mean and standard error."""

    x: int
    mean: float
    stderr: float
    n: int


BudgetCurves = Mapping[str, Mapping[str, Sequence[CurvePoint]]]
"""Points of the mean curve of each method, by axis (a key of AXIS_LABELS) and by name of the method."""


def points_of(frames: Frames) -> pd.DataFrame:
    """Compute the points of runs: one for each executed node, and a last one with the official score.

    Work that was repeated after a crash counts once. The last point has the official score, since some worlds report no
    score during the run.

    Returns:
        A row for each point, with `method`, `run`, the amounts so far (`calls`, `tokens` of input and output, and
        `uncached`, without input tokens that the model had cached), and `score`, the best one so far in any episode, 0
        to 100. The points of a run are in order.
    """
    done, about = frames.executions, ["method", "run"]
    tokens = done["input_tokens"] + done["output_tokens"]
    amounts = done.assign(tokens=tokens, uncached=tokens - done["cached_tokens"])
    sums = amounts.groupby("run")[["calls", "tokens", "uncached"]].cumsum()
    best = done.assign(score=done["score"].clip(lower=0)).groupby("run")["score"].cummax()
    points = done[about].assign(**sums, score=best)
    last = frames.runs[[*about, "scored"]].merge(points.groupby("run").last().drop(columns="method"), "left", "run")
    official = (100 * frames.runs["score"]).to_numpy()
    last = last.fillna(dict.fromkeys((*AXIS_LABELS, "score"), 0))
    return pd.concat([points, last.assign(score=last["score"].mask(last.pop("scored"), official))], ignore_index=True)


def mean_curve(points: pd.DataFrame, axis: str) -> list[CurvePoint]:
    """Compute the mean curve of several runs. A run counts as 0 before its first point and keeps its last score.

    Args:
        points: the points of the runs.
        axis: key of AXIS_LABELS, for the horizontal axis.
    """
    steps = [(run[axis].tolist(), [0.0, *run["score"]]) for _, run in points.groupby("run", sort=False)]
    positions = sorted({0}.union(*(xs for xs, _ in steps)))
    every = -(-len(positions) // MAX_CURVE_POINTS)
    positions = sorted({*positions[::every], positions[-1]})
    scores = ([ys[bisect_right(xs, x)] for xs, ys in steps] for x in positions)
    return [
        CurvePoint(x, mean(each), standard_error(each), len(each)) for x, each in zip(positions, scores, strict=True)
    ]


def curves_of(frames: Frames) -> BudgetCurves:
    """Compute the mean curve of every method that has runs, for each axis."""
    by_method = [(str(name), rows) for name, rows in points_of(frames).groupby("method", sort=False)]
    return {axis: {name: mean_curve(rows, axis) for name, rows in by_method} for axis in AXIS_LABELS}


def curve_rows(curves: BudgetCurves) -> Iterable[dict[str, Any]]:
    """Yield the curves as table rows, one for each point."""
    for axis, methods in curves.items():
        for method, knots in methods.items():
            yield from ({"axis": axis, "method": method, **knot._asdict()} for knot in knots)


# Drawing of these curves: a step function for each method, with a band of one standard error on each side.

NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
"""SVG metadata that is left out, so that the same figure gives the same file."""


def chart_style() -> AbstractContextManager[None]:
    """Return a context manager inside which figures are drawn in CHART_STYLE."""
    return mpl.rc_context(CHART_STYLE)


CURVES_WIDTH, CURVES_HEIGHT, LEGEND_ROW_HEIGHT = 12, 3.8, 0.2
"""Width of a figure, height of its panels, and height of a row of its legend, in inches."""

LINE_STYLES = ("-", "--", ":")
"""Line styles of the methods in a plot; each is used with every colour before the next one."""


def draw_curves(curves: BudgetCurves, folder: Path) -> Markup:
    """Draw the curves, write `curves.png` and `curves.svg`, and return the SVG element for an HTML page."""
    with chart_style():
        return save_drawing(_curves_figure(curves), folder / "curves")


def save_drawing(figure: Figure, path: Path) -> Markup:
    """Write a figure as `path`.png and `path`.svg and return its SVG element. Call it inside `chart_style`.

    Each file is replaced only when it is complete.
    """
    with replace_file(path.with_suffix(".png")) as draft:
        figure.savefig(draft, format="png", dpi=150, facecolor="white")
    drawing = to_svg(figure)
    replace_text(path.with_suffix(".svg"), drawing)
    return drawing


def to_svg(figure: Figure) -> Markup:
    """Convert a figure to an SVG element for an HTML page; labels stay text. Call it inside `chart_style`."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=NO_METADATA)
    return Markup(file.getvalue()[file.getvalue().index("<svg") :])


def _curves_figure(curves: BudgetCurves) -> Figure:
    names = list(curves["calls"])
    # every column of the legend above the panels is as wide as the longest name, with line and gap, in inches
    columns = max(1, min(len(names), int(CURVES_WIDTH / (0.6 + 0.08 * max(map(len, names), default=0)))))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(CURVES_WIDTH, CURVES_HEIGHT + LEGEND_ROW_HEIGHT * rows), layout="constrained")
    panels = figure.subplots(1, len(AXIS_LABELS), sharey=True, squeeze=False)[0]
    for panel, (axis, label) in zip(panels, AXIS_LABELS.items(), strict=True):
        # slightly past the last point, so that a step at the end is visible
        end = 1.03 * max((knots[-1].x for knots in curves[axis].values()), default=0) or 1
        for number, (method, knots) in enumerate(curves[axis].items()):
            ink, dash = series_colour(number), LINE_STYLES[number // len(SERIES_COLOURS) % len(LINE_STYLES)]
            positions, line = [*(knot.x for knot in knots), end], pd.DataFrame([*knots, knots[-1]])
            panel.step(positions, line["mean"], where="post", color=ink, linestyle=dash, linewidth=1.6, label=method)
            low, high = line["mean"] - line["stderr"], line["mean"] + line["stderr"]
            panel.fill_between(positions, low, high, step="post", color=ink, alpha=0.14, linewidth=0)
        panel.set_xlabel(label)
        panel.set_xlim(0, end)
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20k: labels with five digits would overlap
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel("mean score so far")
    if rows:
        lines = panels[0].get_lines()
        figure.legend(handles=lines, loc="outside upper left", ncols=columns, labelcolor="linecolor")
    return figure


# Panels. A row or point without data is labelled "no data", never drawn as zero.

LABEL_WIDTH = 26
"""Maximum number of characters on a line of a label."""

MAX_LABEL_LINES = 3
"""Maximum number of lines of a label."""

ROW_HEIGHT = 0.36
"""Height of a row of a panel, in inches."""

SERIES_MARKERS = "os^D"
"""Markers of the methods in a plot; each is used with every colour before the next one."""

MAX_METHOD_SHIFT, MAX_TOTAL_SHIFT = 0.06, 0.2
"""Maximum horizontal shift between the points of two methods, and between those of the first and the last method.

The unit is the distance between two values on the axis.
"""

MIN_FILLED_ROWS = 5
"""Number of observations from which a point is drawn filled; below it the point is hollow."""


def wrap_label(name: str, width: int = LABEL_WIDTH) -> str:
    """Wrap a name to at most MAX_LABEL_LINES lines for an axis, and shorten it if it is longer."""
    lines = wrap(name, width, break_on_hyphens=False) or ["(no name)"]
    if len(lines) > MAX_LABEL_LINES:
        lines[MAX_LABEL_LINES - 1 :] = [f"{lines[MAX_LABEL_LINES - 1][:-1]}…"]
    # matplotlib leaves labels that begin with an underscore out of legends
    return ("\u200a" if lines[0].startswith("_") else "") + "\n".join(lines)


def series_marker(index: int) -> str:
    """Return the marker of the method at an index; methods with the same colour have different markers."""
    return SERIES_MARKERS[index // len(SERIES_COLOURS) % len(SERIES_MARKERS)]


def find_line(table: pd.DataFrame, method: str, **where: str) -> "pd.Series[Any] | None":
    """Find the first row of a method in a table whose columns have the values in `where`.

    Returns:
        The row; None if there is none or its column `value` is empty.
    """
    lines = table
    for column, value in {"method": method, **where}.items():
        lines = lines[lines[column] == value]
    return None if lines.empty or pd.isna(lines.iloc[0]["value"]) else lines.iloc[0]


def draw_dots(
    panel: Any, table: pd.DataFrame, names: Sequence[str], marks: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Draw the value of each method as a dot with its interval, with the number of observations to the right.

    With `marks`, the markers of two measures by name, both values of a method are drawn, one above the other.
    """
    for shift, measure in zip((-0.16, 0.16) if marks else (0.0,), marks or ("",), strict=True):
        for row, name in enumerate(names):
            line = find_line(table, name, **({"measure": measure} if measure else {}))
            if line is None:
                draw_note(panel, 0.02, row + shift, "no data", style="italic")
            else:
                draw_dot(panel, line, row + shift, series_colour(row), marks.get(measure) or series_marker(row))
                draw_note(panel, 1.02, row + 1.2 * shift, f"{int(line['n']):,}")
    draw_panel_legend(panel, marker_handles({name: (mark, GREY) for name, mark in marks.items()}))


def draw_dot(panel: Any, line: "pd.Series[Any]", at: float, colour: str, marker: str = "o") -> None:
    """Draw one value as a dot with its interval; the dot is hollow if `n` is below MIN_FILLED_ROWS."""
    if pd.notna(line["low"]):
        panel.plot([line["low"], line["high"]], [at, at], color=colour, linewidth=1.4, alpha=0.6)
    face = "none" if line["n"] < MIN_FILLED_ROWS else colour
    panel.plot([line["value"]], [at], marker, color=colour, markerfacecolor=face, markersize=6, clip_on=False)


def draw_bars(panel: Any, table: pd.DataFrame, names: Sequence[str], column: str, parts: Mapping[Any, str]) -> None:
    """Draw a stacked bar for each method, with a segment for each value of a column.

    `parts` has the values of the column in the order of the segments, with their colours.
    """
    for row, name in enumerate(names):
        shares = table[table["method"] == name].set_index(column)["value"]
        end = 0.0
        for part, colour in parts.items():
            value = float(shares.get(part, 0.0))
            if value:
                panel.barh(row, value, left=end, height=0.55, color=colour, edgecolor=GREY, linewidth=0.3)
            end += value
        if shares.empty:
            draw_note(panel, 0.02, row, "no data", style="italic")
        else:
            draw_note(panel, 1.02, row, f"{int(table.loc[table['method'] == name, 'n'].max()):,}")


def draw_lines(
    panel: Any, table: pd.DataFrame, names: Sequence[str], column: str, places: Sequence[Any], *, top: float = 1.0
) -> None:
    """Draw a line with intervals for each method over the values `places` of a column.

    The lines are shifted slightly, so that none hides another. At most eight of the values are labelled. The vertical
    axis is from 0 to `top`, the highest value that there can be.
    """
    shift = min(MAX_METHOD_SHIFT, MAX_TOTAL_SHIFT / max(len(names) - 1, 1))
    for number, name in enumerate(names):
        points = table[table["method"] == name].set_index(column)
        points = points.loc[[value for value in places if value in points.index]]
        positions = [places.index(value) + shift * (number - (len(names) - 1) / 2) for value in points.index]
        style: dict[str, Any] = {"color": series_colour(number), "linewidth": 1.2}
        panel.vlines(positions, points["low"], points["high"], alpha=0.5, **style)
        panel.plot(positions, points["value"], f"-{series_marker(number)}", markersize=5, alpha=0.9, **style)
    panel.set_xlim(-0.5, max(len(places), 1) - 0.5)
    panel.set_ylim(-0.03 * top, 1.03 * top)
    every = -(-len(places) // 8) or 1
    labels = [wrap_label(str(place), TICK_LABEL_WIDTH) for place in places[::every]]
    panel.set_xticks(range(0, len(places), every), labels)
    if not places:
        panel.text(0.5, 0.5, "no data", transform=panel.transAxes, ha="center", style="italic")


def draw_panel_legend(panel: Any, handles: Sequence[Any], columns: int = 2) -> None:
    """Draw the legend of a panel below the panel."""
    if handles:
        below = {"loc": "upper left", "bbox_to_anchor": (0, 0), "borderaxespad": 3.2}
        panel.legend(handles=handles, ncols=columns, fontsize=8, **below)


def part_handles(parts: Mapping[Any, str]) -> list[Patch]:
    """Build the legend handles of the segments of bars."""
    return [Patch(facecolor=c, edgecolor=GREY, linewidth=0.3, label=wrap_label(str(part))) for part, c in parts.items()]


def marker_handles(marks: Mapping[str, tuple[str, str]]) -> list[Line2D]:
    """Build legend handles from names with their marker and colour."""
    return [
        Line2D([], [], marker=shape, color=colour, linestyle="", label=wrap_label(name))
        for name, (shape, colour) in marks.items()
    ]


def draw_note(panel: Any, across: float, row: float, text: str, **style: Any) -> None:
    """Write a text into a row of the panel, at a share of its width: past 1 to the right of it."""
    place = panel.get_yaxis_transform()
    panel.text(across, row, text, transform=place, va="center", fontsize=7.5, **style)


# Figures of several panels.

MethodNames = Sequence[str]
"""Names of the methods, in order."""

FIGURE_WIDTH = 12.0
"""Width of a figure, in inches."""

TICK_LABEL_WIDTH = 12
"""Maximum number of characters on a line of a tick label."""


def create_panels(
    count: int, names: Sequence[str], below: float = 0.4, *, coloured: bool = True
) -> tuple[Figure, list[Any]]:
    """Create a figure with panels side by side, each with a row for each name.

    Args:
        count: number of panels.
        names: names of the rows.
        below: space below the panels, in inches, for legends.
        coloured: give each name in the first panel the colour of its row.
    """
    height = ROW_HEIGHT * max(len(names), 1) * (1.4 if any(len(n) > LABEL_WIDTH for n in names) else 1)
    figure = Figure(figsize=(FIGURE_WIDTH, height + 1.0 + below), layout="constrained")
    panels = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    for panel in panels:
        panel.set_yticks(range(len(names)), [wrap_label(name) for name in names])
        panel.set_ylim(len(names) - 0.4, -0.6)
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        panel.grid(axis="x", color=GREY, alpha=0.2, linewidth=0.6)
        panel.set_axisbelow(True)
    for index, label in enumerate(panels[0].get_yticklabels() if coloured else ()):
        label.set_color(series_colour(index))
    return figure, panels


def finish_panel(panel: Any, title: str, *, share: bool = True, counted: bool = True) -> None:
    """Set the title and horizontal axis of a panel.

    Args:
        panel: the panel.
        title: its title.
        share: whether values are shares, 0 to 1; otherwise they are numbers from 0.
        counted: whether to write the heading "n" above the numbers of observations.
    """
    panel.set_title(title)
    if counted:
        panel.text(1.02, 1.0, "n", transform=panel.transAxes, va="bottom", fontsize=7.5, style="italic")
    if share:
        panel.set_xlim(-0.03, 1.03)
        panel.xaxis.set_major_formatter(lambda value, place: f"{value:.0%}")
    else:
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(lambda value, place: f"{value:,g}")
    panel.locator_params(axis="x", nbins=4)


def draw_kinds(panel: Any, table: pd.DataFrame, names: Sequence[str], kinds: Sequence[str]) -> None:
    """Draw a dot for each kind of predicate and method, with the methods of a kind next to each other."""
    for number, name in enumerate(names):
        shift = 0.7 * ((number + 0.5) / len(names) - 0.5)
        for row, kind in enumerate(kinds):
            line = find_line(table, name, kind=kind)
            if line is not None:
                draw_dot(panel, line, row + shift, series_colour(number), series_marker(number))


def draw_figure_legend(figure: Figure, names: Sequence[str]) -> None:
    """Draw the legend below a figure: the colour and marker of each method."""
    handles = marker_handles({name: (series_marker(index), series_colour(index)) for index, name in enumerate(names)})
    if handles:
        figure.legend(handles=handles, ncols=4, fontsize=8, loc="outside lower left")


def format_sizes(table: pd.DataFrame) -> str:
    """Format how many runs the points of a curve have: `n = 30 a point` or `n = 12 to 30 a point`."""
    if table.empty:
        return "no runs"
    low, high = table["n"].min(), table["n"].max()
    return f"n = {low:,} a point" if low == high else f"n = {low:,} to {high:,} a point"
