"""Figures of the STEP paper, and the command `certigraph figures`."""

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from certigraph.adapters.processes import check_evaluation_packages
from certigraph.evaluation.analyses.step import (
    SERIES_COLUMNS,
    TASK_GROUPS,
    AccidentalWin,
    BestTraceRow,
    Episodes,
    PlannerChange,
    PlannerPair,
    RewardCurve,
    best_trace_lines,
    best_trace_rows,
    curve_lines,
    find_accident,
    gold_scores,
    learning_curves,
    method_titles,
    planner_changes,
    planner_pairs,
    reward_curves,
    tasks_of,
    write_rounded_csv,
)
from certigraph.evaluation.frames import EpisodeTrace, read_traces
from certigraph.evaluation.plots import BLANK, FAINT, INK, PALETTE, SOFT, add_panels, assign_colours, open_figure
from certigraph.state.records import Fault, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


# Figure 5: the best episodes, one heat map per method.

MAX_HEAT_MAP_COLUMNS = 3
MAX_TITLE_CHARACTERS = 32
"""Maximum number of characters of a line of a panel's title; a longer title is wrapped."""

HEAT_MAP_COLOURS = "viridis"
"""Colour map that is readable in greyscale and with colour blindness: dark is low, yellow is high."""


def draw_best(rows: Sequence[BestTraceRow], tasks: Sequence[str], path: Path) -> None:
    """Draw the mean scores of the best episodes as one heat map per method, with a row per task and a column per step.

    Cells are blank after the end of an episode and for tasks without runs.
    """
    names = {
        method: fill(name, MAX_TITLE_CHARACTERS)
        for method, name in method_titles(dict.fromkeys(row.method for row in rows)).items()
    }
    columns = min(MAX_HEAT_MAP_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    longest = max(len(row.scores) for row in rows)
    margin = 0.055 * max(map(len, tasks)) + 0.9
    heading = 0.2 + 0.15 * max(name.count("\n") + 1 for name in names.values())
    with open_figure(path, margin + 2.5 * columns, lines * (max(0.9, 0.17 * len(tasks)) + heading) + 0.45) as figure:
        panels = add_panels(figure, len(names), columns)
        for method, panel in zip(names, panels, strict=True):
            scores = {row.task: row.scores for row in rows if row.method == method}
            image = _draw_heat_map(panel, [_pad_scores(scores.get(task, ()), longest) for task in tasks])
            _separate_groups(panel, tasks)
            panel.set_title(names[method])
            panel.set_yticks(range(len(tasks)), tasks, fontsize=7)
        figure.supxlabel("environment step", fontsize=8)
        figure.colorbar(image, ax=panels, label="score so far", shrink=0.9, aspect=30, pad=0.01)


def _draw_heat_map(panel: "Axes", scores: Sequence[Sequence[float]]) -> "AxesImage":
    from matplotlib import colormaps

    extent = (0.5, len(scores[0]) + 0.5, len(scores) - 0.5, -0.5)
    shades = colormaps[HEAT_MAP_COLOURS].with_extremes(bad=BLANK)
    image = panel.imshow(scores, aspect="auto", interpolation="none", cmap=shades, vmin=0, vmax=100, extent=extent)
    panel.tick_params(axis="y", length=0)
    panel.spines[:].set_visible(False)
    return image


def _separate_groups(panel: "Axes", tasks: Sequence[str]) -> None:
    groups = [TASK_GROUPS.get(task) for task in tasks]
    for line in range(1, len(tasks)):
        wide = 3.0 if groups[line] != groups[line - 1] else 0.7
        panel.axhline(line - 0.5, color="white", linewidth=wide)


def _pad_scores(scores: Sequence[float], length: int) -> list[float]:
    return [*scores, *[nan] * (length - len(scores))]


# Table 2 as a figure: STEP with and without its Planner, by task.

WITH_COLOUR, WITHOUT_COLOUR = PALETTE[0], PALETTE[1]
GROUP_NAMES = {"S": "mean of short tasks", "L": "mean of long tasks", "All": "mean of all tasks"}


class _PlannerSpan(NamedTuple):
    """A row of the figure about STEP's Planner: scores on a task, or the means over a group of tasks."""

    name: str
    model: str
    score: float
    without: float
    mean: bool = False


def draw_planner(paired: Sequence[PlannerPair], changed: Sequence[PlannerChange], path: Path) -> None:
    """Draw a line per task from STEP's score with its Planner to the score without, then the means of the groups."""
    spans = [_PlannerSpan(p.task, p.model, p.score, p.score_without) for p in paired]
    spans += [
        _PlannerSpan(f"{GROUP_NAMES[c.group]} ({c.tasks})", c.model, c.score, c.score_without, mean=True)
        for c in changed
    ]
    several = len({span.model for span in spans}) > 1
    with open_figure(path, 5.6, 0.19 * len(spans) + 0.85) as figure:
        panel = figure.subplots()
        _format_planner_axes(panel, [f"{span.name}, {span.model}" if several else span.name for span in spans])
        panel.axhline(len(paired) - 0.5, color=SOFT, linewidth=0.6)
        for row, span in enumerate(spans):
            _draw_span(panel, row, span)
        figure.legend(loc="outside upper right", ncols=2, fontsize=7.5, handletextpad=0.2)


def _format_planner_axes(panel: "Axes", names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set(xlim=(-3, 103), ylim=(len(names) - 0.4, -0.6), xlabel="mean score of the best episode")
    panel.text(1.09, 1.0, "change", transform=panel.transAxes, ha="right", va="bottom", fontsize=7, color=SOFT)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x", color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


def _draw_span(panel: "Axes", row: int, span: _PlannerSpan) -> None:
    size, marker = (34, "D") if span.mean else (24, "o")
    ends, heights = (span.score, span.without), (row, row)
    panel.plot(ends, heights, color=INK if span.mean else SOFT, linewidth=1.6 if span.mean else 0.9, zorder=1)
    labels = ("STEP", "STEP (planner=none)") if row == 0 else ("", "")
    panel.scatter(span.score, row, s=size, color=WITH_COLOUR, marker=marker, linewidths=0, zorder=2, label=labels[0])
    # a ring, so that both of two equal scores are visible
    panel.scatter(
        span.without,
        row,
        s=size,
        marker=marker,
        facecolors="none" if span.score == span.without else "white",
        edgecolors=WITHOUT_COLOUR,
        linewidths=1.2,
        zorder=3,
        label=labels[1],
    )
    change = f"{span.without - span.score:+.1f}" if span.without != span.score else "0.0"
    panel.annotate(change, (1.09, row), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=7)


# Figure 4: reward by step with its standard deviation, one panel per task.

MAX_REWARD_COLUMNS = 4
LINE_STYLES: dict[Episodes, Any] = {
    "all": "solid",
    "first": (0, (1.2, 1.2)),
    "last": "solid",
}
EPISODE_LABELS: dict[Episodes, str] = {
    "all": "all episodes, mean ± SD",
    "first": "first episode",
    "last": "last episode",
}


def draw_rewards(curves: Sequence[RewardCurve], path: Path) -> None:
    """Draw the mean score by step, one panel per task and one line per method.

    Curves over all episodes have a band of one standard deviation.
    """
    tasks = list(dict.fromkeys(curve.task for curve in curves))
    columns = min(MAX_REWARD_COLUMNS, len(tasks))
    names = method_titles(dict.fromkeys(curve.method for curve in curves))
    colour = assign_colours(list(names.values()))
    kinds = list(dict.fromkeys(curve.episodes for curve in curves))
    width = max(3.6, 2.0 * columns + 0.3)
    legend_columns, legend_rows = _legend_shape([*colour, *(EPISODE_LABELS[kind] for kind in kinds)], width)
    with open_figure(path, width, 1.5 * -(-len(tasks) // columns) + 0.5 + 0.16 * legend_rows) as figure:
        for task, panel in zip(tasks, add_panels(figure, len(tasks), columns), strict=True):
            shown = [curve for curve in curves if curve.task == task]
            _format_reward_axes(panel, task, max(len(curve.mean) for curve in shown) - 1)
            for curve in shown:
                _draw_curve(panel, curve, colour[names[curve.method]])
        figure.supxlabel("environment step", fontsize=8)
        figure.supylabel("score so far", fontsize=8)
        _draw_legend(figure, colour, kinds, legend_columns)


def _format_reward_axes(panel: "Axes", task: str, last: int) -> None:
    panel.set_title(task, fontsize=6.5)
    panel.set(xlim=(0, last), ylim=(0, 103), yticks=(0, 25, 50, 75, 100))
    panel.locator_params(axis="x", integer=True, nbins=5)
    panel.grid(axis="y", color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


def _draw_curve(panel: "Axes", curve: RewardCurve, colour: str) -> None:
    steps = range(len(curve.mean))
    panel.plot(steps, curve.mean, color=colour, linestyle=LINE_STYLES[curve.episodes], linewidth=1.3)
    if curve.episodes == "all":
        spread = list(zip(curve.mean, curve.sd, strict=True))
        low, high = [max(0.0, mean - sd) for mean, sd in spread], [min(100.0, mean + sd) for mean, sd in spread]
        panel.fill_between(steps, low, high, color=colour, alpha=0.13, linewidth=0)


def _legend_shape(names: Sequence[str], width: float) -> tuple[int, int]:
    """Return the number of columns and rows of a legend that fits into `width` inches.

    Each column is as wide as the longest name.
    """
    columns = max(1, min(len(names), int(width / (0.5 + 0.065 * max(map(len, names))))))
    return columns, -(-len(names) // columns)


def _draw_legend(figure: "Figure", colour: dict[str, str], kinds: Sequence[Episodes], columns: int) -> None:
    from matplotlib.lines import Line2D

    methods = [Line2D([], [], color=shade, linewidth=1.3, label=name) for name, shade in colour.items()]
    lines = [
        Line2D([], [], color=SOFT, linewidth=1.3, linestyle=LINE_STYLES[k], label=EPISODE_LABELS[k]) for k in kinds
    ]
    handles = [*methods, *lines]
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, fontsize=7.5)


# All figures of several runs, with their data as CSV.


class DrawnFigures(Record):
    """Result of drawing the figures.

    It has the written files, the number of episodes, the accidental wins, the runs left out, and the effect of STEP's
    Planner (`changes`).
    """

    files: tuple[Path, ...]
    episodes: int
    accidents: tuple[AccidentalWin, ...]
    left_out: tuple[Path, ...]
    changes: tuple[PlannerChange, ...]


def draw_figures(
    folders: Iterable[Path], out: Path, *, data: str | None = None, with_accidental: bool = False
) -> DrawnFigures:
    """Draw the figures of the STEP paper from recorded runs.

    Writes `rewards` (score by step) and `best` (best episodes). If runs have several episodes, also `learning` (first
    and last episodes); if STEP was run with and without its Planner, also `planner`. Each figure is a .png, a .svg and
    a .csv; planner_tasks.csv has the scores on single tasks.

    Args:
        folders: folders to search for runs at any depth.
        out: folder of the files, created where it is missing.
        data: data folder with ScienceWorld's gold paths, which are needed to detect accidental wins; None:
            CERTIGRAPH_DATA.
        with_accidental: include the episodes that were won by accident; accidental.csv lists them in any case.

    Raises:
        Fault: there is no episode to draw, or matplotlib is missing.
    """
    check_evaluation_packages("figures", "matplotlib")
    traces, left_out = read_traces(folders)
    golds = gold_scores(data)
    results = [(trace, find_accident(trace, golds)) for trace in traces]
    accidents = tuple(accident for _, accident in results if accident)
    included = [trace for trace, accident in results if with_accidental or not accident]
    if not included:
        raise Fault("data", f"all {len(traces)} episodes were won by accident: add --with-accidental to keep them")
    out.mkdir(parents=True, exist_ok=True)
    write_rounded_csv(
        out / "accidental.csv", list(AccidentalWin.model_fields), [accident.model_dump() for accident in accidents]
    )
    planner = planner_pairs(included)
    files = [
        *_write_rewards(reward_curves(included), out / "rewards"),
        *_write_rewards(learning_curves(included), out / "learning"),
        *_write_best(included, out),
        *_write_planner(planner, out),
        out / "accidental.csv",
    ]
    return DrawnFigures(
        files=tuple(files),
        episodes=len(traces),
        accidents=accidents,
        left_out=tuple(left_out),
        changes=tuple(planner_changes(planner)),
    )


def _write_rewards(curves_to_draw: Sequence[RewardCurve], path: Path) -> list[Path]:
    if not curves_to_draw:
        return []
    draw_rewards(curves_to_draw, path)
    write_rounded_csv(
        path.with_suffix(".csv"),
        [*SERIES_COLUMNS, "episodes", "n", "step", "mean", "sd"],
        list(curve_lines(curves_to_draw)),
    )
    return _figure_files(path)


def _write_best(traces: Sequence[EpisodeTrace], out: Path) -> list[Path]:
    rows = best_trace_rows(traces)
    draw_best(rows, tasks_of(traces), out / "best")
    write_rounded_csv(out / "best.csv", [*SERIES_COLUMNS, "runs", "step", "score"], list(best_trace_lines(rows)))
    return _figure_files(out / "best")


def _write_planner(paired: Sequence[PlannerPair], out: Path) -> list[Path]:
    if not paired:
        return []
    changed = planner_changes(paired)
    draw_planner(paired, changed, out / "planner")
    write_rounded_csv(
        out / "planner.csv", list(PlannerChange.model_fields), [change.model_dump() for change in changed]
    )
    write_rounded_csv(out / "planner_tasks.csv", list(PlannerPair.model_fields), [pair.model_dump() for pair in paired])
    return [*_figure_files(out / "planner"), out / "planner_tasks.csv"]


def _figure_files(path: Path) -> list[Path]:
    return [path.with_suffix(suffix) for suffix in (".png", ".svg", ".csv")]


# Output of the command `figures`.


def print_figures(drawn: DrawnFigures, *, kept: bool) -> None:
    """Print the Planner's effect, accidental wins, runs that were left out, and the files.

    Args:
        drawn: the result of `draw_figures`.
        kept: whether accidental wins are included.
    """
    console = Console(highlight=False, soft_wrap=True)
    if drawn.changes:
        console.print(_planner_table(drawn.changes))
    treated = "kept" if kept else "left out; --with-accidental keeps them"
    console.print(f"{drawn.episodes} episodes, {len(drawn.accidents)} of them won by accident ({treated})")
    for folder in drawn.left_out:
        console.print(f"left out, unfinished or ended by an error: {folder}", style="dim", markup=False)
    for file in drawn.files:
        console.print(str(file), markup=False)


def _planner_table(changes: tuple[PlannerChange, ...]) -> Table:
    table = Table("tasks", "n", "score", "planner=none", "change", "solved %", "planner=none", "change", box=None)
    several = len({change.model for change in changes}) > 1
    for c in changes:
        figures = (c.score, c.score_without, c.score_change, c.success, c.success_without, c.success_change)
        shown = (f"{value:+.1f}" if index in (2, 5) else f"{value:.1f}" for index, value in enumerate(figures))
        table.add_row(f"{c.group}, {c.model}" if several else c.group, str(c.tasks), *shown)
    return table
