"""Figures of the STEP paper, and the command `certigraph figures`."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import pandas as pd
from matplotlib import colormaps
from matplotlib.lines import Line2D

from certigraph.evaluation.plots import (
    BLANK,
    INK,
    SERIES_COLOURS,
    SOFT,
    add_panels,
    assign_colours,
    draw_grid,
    open_figure,
)
from certigraph.evaluation.tables import write_frame
from certigraph.state.endings import Fault
from certigraph.studies.step import (
    TASK_GROUPS,
    best_curves,
    find_accidents,
    learning_curves,
    order_episodes,
    planner_changes,
    planner_tasks,
    read_episodes,
    read_gold_scores,
    reward_curves,
)
from certigraph.studies.tables import print_frames

# Figure 5: the best episodes, one heat map per method.


def draw_best(curves: pd.DataFrame, tasks: Sequence[str], path: Path) -> None:
    """Draw the mean scores of the best episodes as one heat map per method, with a row per task and a column per step.

    Cells are blank after the end of an episode and for tasks without runs.
    """
    titles = {title: fill(title, 32) for title in curves["title"].unique()}
    columns = min(3, len(titles))
    lines = -(-len(titles) // columns)
    margin = 0.055 * max(map(len, tasks)) + 0.9
    heading = 0.2 + 0.15 * max(title.count("\n") + 1 for title in titles.values())
    steps = range(1, curves["step"].max() + 1)
    # readable in greyscale and with colour blindness: dark is low, yellow is high
    shades = colormaps["viridis"].with_extremes(bad=BLANK)
    groups = [TASK_GROUPS.get(task) for task in tasks]
    extent = (0.5, len(steps) + 0.5, len(tasks) - 0.5, -0.5)
    with open_figure(path, margin + 2.5 * columns, lines * (max(0.9, 0.17 * len(tasks)) + heading) + 0.45) as figure:
        panels = add_panels(figure, len(titles), columns)
        for title, panel in zip(titles, panels, strict=True):
            wide = curves[curves["title"] == title].pivot(index="task", columns="step", values="score")
            scores = wide.reindex(index=tasks, columns=steps)
            style: dict[str, Any] = {"aspect": "auto", "interpolation": "none", "extent": extent}
            image = panel.imshow(scores, cmap=shades, vmin=0, vmax=100, **style)
            panel.tick_params(axis="y", length=0)
            panel.spines[:].set_visible(False)
            for line in range(1, len(tasks)):
                panel.axhline(line - 0.5, color="white", linewidth=0.7 if groups[line] == groups[line - 1] else 3.0)
            panel.set_title(titles[title])
            panel.set_yticks(range(len(tasks)), tasks, fontsize=7)
        figure.supxlabel("environment step", fontsize=8)
        figure.colorbar(image, ax=panels, label="score so far", shrink=0.9, aspect=30, pad=0.01)


# Table 2 as a figure: STEP with and without its Planner, by task.

GROUP_NAMES = {"S": "mean of short tasks", "L": "mean of long tasks", "All": "mean of all tasks"}


def draw_planner(tasks: pd.DataFrame, changes: pd.DataFrame, path: Path) -> None:
    """Draw a line per task from STEP's score with its Planner to the score without, then the means of the groups."""
    means = [f"{GROUP_NAMES[group]} ({n})" for group, n in zip(changes["group"], changes["tasks"], strict=True)]
    spans = pd.concat([tasks.assign(name=tasks["task"].astype(str)), changes.assign(name=means)], ignore_index=True)
    names = spans["name"] + (", " + spans["model"] if spans["model"].nunique() > 1 else "")
    with open_figure(path, 5.6, 0.19 * len(spans) + 0.85) as figure:
        panel = figure.subplots()
        panel.set_yticks(range(len(names)), names, fontsize=7)
        panel.set(xlim=(-3, 103), ylim=(len(names) - 0.4, -0.6), xlabel="mean score of the best episode")
        panel.text(1.09, 1.0, "change", transform=panel.transAxes, ha="right", va="bottom", fontsize=7, color=SOFT)
        panel.tick_params(axis="y", length=0)
        draw_grid(panel, "x")
        panel.axhline(len(tasks) - 0.5, color=SOFT, linewidth=0.6)
        for row, (score, without) in enumerate(zip(spans["score"], spans["score_without"], strict=True)):
            is_mean = row >= len(tasks)
            marks: dict[str, Any] = {"s": 34, "marker": "D"} if is_mean else {"s": 24, "marker": "o"}
            style: dict[str, Any] = {"color": INK, "linewidth": 1.6} if is_mean else {"color": SOFT, "linewidth": 0.9}
            panel.plot((score, without), (row, row), zorder=1, **style)
            labels = ("STEP", "STEP (planner=none)") if row == 0 else ("", "")
            panel.scatter(score, row, color=SERIES_COLOURS[0], linewidths=0, zorder=2, label=labels[0], **marks)
            # a ring, so that both of two equal scores are visible
            inside = "none" if score == without else "white"
            ring: dict[str, Any] = {"facecolors": inside, "edgecolors": SERIES_COLOURS[1], "linewidths": 1.2}
            panel.scatter(without, row, zorder=3, label=labels[1], **ring, **marks)
            change = f"{without - score:+.1f}" if without != score else "0.0"
            at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center"}
            panel.annotate(change, (1.09, row), fontsize=7, **at)
        figure.legend(loc="outside upper right", ncols=2, fontsize=7.5, handletextpad=0.2)


# Figure 4: reward by step with its standard deviation, one panel per task.

EPISODE_STYLES: dict[str, tuple[Any, str]] = {
    "all": ("solid", "all episodes, mean ± SD"),
    "first": ((0, (1.2, 1.2)), "first episode"),
    "last": ("solid", "last episode"),
}
"""Line style and label of the curves over these episodes of each run."""


def draw_rewards(curves: pd.DataFrame, path: Path) -> None:
    """Draw the mean score by step, one panel per task and one line per method.

    Curves over all episodes have a band of one standard deviation.
    """
    tasks = curves["task"].unique()
    columns = min(4, len(tasks))
    colour = assign_colours(curves["title"].unique())
    handles = [Line2D([], [], color=shade, linewidth=1.3, label=title) for title, shade in colour.items()]
    for line, label in map(EPISODE_STYLES.__getitem__, curves["episodes"].unique()):
        handles.append(Line2D([], [], color=SOFT, linewidth=1.3, linestyle=line, label=label))
    width = max(3.6, 2.0 * columns + 0.3)
    # every column of the legend is as wide as its longest label
    longest = max(len(str(handle.get_label())) for handle in handles)
    legend_columns = max(1, min(len(handles), int(width / (0.5 + 0.065 * longest))))
    legend_height = 0.16 * -(-len(handles) // legend_columns)
    with open_figure(path, width, 1.5 * -(-len(tasks) // columns) + 0.5 + legend_height) as figure:
        for task, panel in zip(tasks, add_panels(figure, len(tasks), columns), strict=True):
            shown = curves[curves["task"] == task]
            panel.set_title(task, fontsize=6.5)
            panel.set(xlim=(0, shown["step"].max()), ylim=(0, 103), yticks=(0, 25, 50, 75, 100))
            panel.locator_params(axis="x", integer=True, nbins=5)
            draw_grid(panel, "y")
            for (title, episodes), curve in shown.groupby(["title", "episodes"], sort=False):
                ink, (line, _) = colour[title], EPISODE_STYLES[str(episodes)]
                panel.plot(curve["step"], curve["mean"], color=ink, linestyle=line, linewidth=1.3)
                if episodes == "all":
                    low = (curve["mean"] - curve["sd"]).clip(lower=0)
                    high = (curve["mean"] + curve["sd"]).clip(upper=100)
                    panel.fill_between(curve["step"], low, high, color=ink, alpha=0.13, linewidth=0)
        figure.supxlabel("environment step", fontsize=8)
        figure.supylabel("score so far", fontsize=8)
        figure.legend(handles=handles, loc="outside upper left", ncols=legend_columns, fontsize=7.5)


# All figures of several runs, with their data as CSV.


class DrawnFigures(NamedTuple):
    """The written files, the number of episodes, and the data frames of `find_accidents` and `planner_changes`.

    `left_out` has the folders of runs that are unfinished or ended by an error.
    """

    files: Sequence[Path]
    episodes: int
    accidents: pd.DataFrame
    left_out: Sequence[Path]
    changes: pd.DataFrame


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
        Fault: there is no episode to draw.
    """
    found, left_out = read_episodes(folders)
    accidents = find_accidents(found, read_gold_scores(data))
    included = found if with_accidental else found.drop(accidents.index)
    if included.empty:
        raise Fault("data", f"all {len(found)} episodes were won by accident: add --with-accidental to keep them")
    out.mkdir(parents=True, exist_ok=True)
    episodes, files = order_episodes(included), list[Path]()
    rewards, learning, best = reward_curves(episodes), learning_curves(episodes), best_curves(episodes)
    tasks = planner_tasks(episodes)
    changes = planner_changes(tasks)
    for name, table, draw in (
        ("rewards", rewards, partial(draw_rewards, rewards)),
        ("learning", learning, partial(draw_rewards, learning)),
        ("best", best, partial(draw_best, best, list(episodes["task"].cat.categories))),
        ("planner", changes, partial(draw_planner, tasks, changes)),
    ):
        if len(table):
            draw(out / name)
            files += [out / f"{name}.png", out / f"{name}.svg"]
            files.append(_write_rounded(table.drop(columns="title", errors="ignore"), out / f"{name}.csv"))
    files += [_write_rounded(tasks, out / "planner_tasks.csv")] if len(tasks) else []
    files.append(_write_rounded(accidents, out / "accidental.csv"))
    return DrawnFigures(files, len(found), accidents, left_out, changes)


def _write_rounded(table: pd.DataFrame, path: Path) -> Path:
    cells = table.astype(object)
    return write_frame(cells.map(lambda cell: f"{round(cell, 4):g}" if isinstance(cell, float) else cell), path)


# Output of the command `figures`.


def print_figures(drawn: DrawnFigures, *, kept: bool) -> None:
    """Print the Planner's effect, accidental wins, runs that were left out, and the files.

    Args:
        drawn: the result of `draw_figures`.
        kept: whether accidental wins are included.
    """
    treated = "kept" if kept else "left out; --with-accidental keeps them"
    notes = [
        f"{drawn.episodes} episodes, {len(drawn.accidents)} of them won by accident ({treated})",
        *(f"left out, unfinished or ended by an error: {folder}" for folder in drawn.left_out),
        *map(str, drawn.files),
    ]
    print_frames({"STEP with and without its Planner": drawn.changes} if len(drawn.changes) else {}, notes)
