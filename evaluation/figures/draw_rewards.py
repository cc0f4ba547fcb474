"""Reward by step with its spread (STEP, figure 4): the pictures, one panel a task."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certigraph.evaluation.figures.canvas import FAINT, SOFT, colours, grid, picture
from certigraph.evaluation.figures.order import titles
from certigraph.evaluation.figures.rewards import Curve, Episodes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 4
DASHES: dict[Episodes, Any] = {
    "all": "solid",
    "first": (0, (1.2, 1.2)),
    "last": "solid",
}
MEANING: dict[Episodes, str] = {"all": "all episodes, mean ± SD", "first": "first episode", "last": "last episode"}


def draw_rewards(curves: Sequence[Curve], path: Path) -> None:
    """The mean over the episodes, in its standard deviation where it is over all of them."""
    tasks = list(dict.fromkeys(curve.task for curve in curves))
    columns = min(MOST_COLUMNS, len(tasks))
    names = titles(dict.fromkeys(curve.method for curve in curves))
    colour = colours(list(names.values()))
    kinds = list(dict.fromkeys(curve.episodes for curve in curves))
    width = max(3.6, 2.0 * columns + 0.3)
    across, down = _legend_shape([*colour, *(MEANING[kind] for kind in kinds)], width)
    with picture(path, width, 1.5 * -(-len(tasks) // columns) + 0.5 + 0.16 * down) as figure:
        for task, panel in zip(tasks, grid(figure, len(tasks), columns), strict=True):
            shown = [curve for curve in curves if curve.task == task]
            _frame(panel, task, max(len(curve.mean) for curve in shown) - 1)
            for curve in shown:
                _line(panel, curve, colour[names[curve.method]])
        figure.supxlabel("environment step", fontsize=8)
        figure.supylabel("score so far", fontsize=8)
        _legend(figure, colour, kinds, across)


def _frame(panel: "Axes", task: str, last: int) -> None:
    panel.set_title(task, fontsize=6.5)
    panel.set(xlim=(0, last), ylim=(0, 103), yticks=(0, 25, 50, 75, 100))
    panel.locator_params(axis="x", integer=True, nbins=5)
    panel.grid(axis="y", color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


def _line(panel: "Axes", curve: Curve, colour: str) -> None:
    steps = range(len(curve.mean))
    panel.plot(steps, curve.mean, color=colour, linestyle=DASHES[curve.episodes], linewidth=1.3)
    if curve.episodes == "all":
        spread = list(zip(curve.mean, curve.sd, strict=True))
        low, high = [max(0.0, mean - sd) for mean, sd in spread], [min(100.0, mean + sd) for mean, sd in spread]
        panel.fill_between(steps, low, high, color=colour, alpha=0.13, linewidth=0)


def _legend_shape(names: Sequence[str], width: float) -> tuple[int, int]:
    """Columns and rows that fit into `width` inches with the longest name in every column."""
    columns = max(1, min(len(names), int(width / (0.5 + 0.065 * max(map(len, names))))))
    return columns, -(-len(names) // columns)


def _legend(figure: "Figure", colour: dict[str, str], kinds: Sequence[Episodes], columns: int) -> None:
    from matplotlib.lines import Line2D

    methods = [Line2D([], [], color=shade, linewidth=1.3, label=name) for name, shade in colour.items()]
    lines = [Line2D([], [], color=SOFT, linewidth=1.3, linestyle=DASHES[k], label=MEANING[k]) for k in kinds]
    handles = [*methods, *lines]
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, fontsize=7.5)
