"""The best traces beside each other (STEP, figure 5): the picture, one heat map a method."""

from collections.abc import Sequence
from math import nan
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from certigraph.evaluation.figures.best import Row
from certigraph.evaluation.figures.canvas import BLANK, grid, picture
from certigraph.evaluation.figures.order import GROUPS, titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MOST_COLUMNS = 3
TITLE = 32
"""Letters that fit above a panel; a longer name takes more lines."""

COLOURS = "viridis"
"""Even in brightness, so that it reads in grey and for the colour-blind: dark is low, yellow is high."""


def draw_best(rows: Sequence[Row], tasks: Sequence[str], path: Path) -> None:
    """A row a task, a column a step; blank where the episode is over or the task was not run."""
    names = {method: fill(name, TITLE) for method, name in titles(dict.fromkeys(row.method for row in rows)).items()}
    columns = min(MOST_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    longest = max(len(row.scores) for row in rows)
    margin = 0.055 * max(map(len, tasks)) + 0.9
    heading = 0.2 + 0.15 * max(name.count("\n") + 1 for name in names.values())
    with picture(path, margin + 2.5 * columns, lines * (max(0.9, 0.17 * len(tasks)) + heading) + 0.45) as figure:
        panels = grid(figure, len(names), columns)
        for method, panel in zip(names, panels, strict=True):
            scores = {row.task: row.scores for row in rows if row.method == method}
            image = _map(panel, [_filled(scores.get(task, ()), longest) for task in tasks])
            _part_groups(panel, tasks)
            panel.set_title(names[method])
            panel.set_yticks(range(len(tasks)), tasks, fontsize=7)
        figure.supxlabel("environment step", fontsize=8)
        figure.colorbar(image, ax=panels, label="score so far", shrink=0.9, aspect=30, pad=0.01)


def _map(panel: "Axes", scores: Sequence[Sequence[float]]) -> "AxesImage":
    from matplotlib import colormaps

    extent = (0.5, len(scores[0]) + 0.5, len(scores) - 0.5, -0.5)
    shades = colormaps[COLOURS].with_extremes(bad=BLANK)
    image = panel.imshow(scores, aspect="auto", interpolation="none", cmap=shades, vmin=0, vmax=100, extent=extent)
    panel.tick_params(axis="y", length=0)
    panel.spines[:].set_visible(False)
    return image


def _part_groups(panel: "Axes", tasks: Sequence[str]) -> None:
    groups = [GROUPS.get(task) for task in tasks]
    for line in range(1, len(tasks)):
        wide = 3.0 if groups[line] != groups[line - 1] else 0.7
        panel.axhline(line - 0.5, color="white", linewidth=wide)


def _filled(scores: Sequence[float], length: int) -> list[float]:
    return [*scores, *[nan] * (length - len(scores))]
