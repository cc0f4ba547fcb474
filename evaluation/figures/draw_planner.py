"""What STEP loses without its Planner (table 2): the picture, task by task."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from certigraph.evaluation.figures.canvas import FAINT, INK, PALETTE, SOFT, picture
from certigraph.evaluation.figures.planner import Change, Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WITH, WITHOUT = PALETTE[0], PALETTE[1]
GROUP_NAMES = {"S": "mean of short tasks", "L": "mean of long tasks", "All": "mean of all tasks"}


class _Span(NamedTuple):
    """A line of the picture: a task, or the mean of a group."""

    name: str
    model: str
    score: float
    without: float
    mean: bool = False


def draw_planner(paired: Sequence[Pair], changed: Sequence[Change], path: Path) -> None:
    """A line a task from its score with the Planner to the one without; below them the means of the groups."""
    spans = [_Span(p.task, p.model, p.score, p.score_without) for p in paired]
    spans += [
        _Span(f"{GROUP_NAMES[c.group]} ({c.tasks})", c.model, c.score, c.score_without, mean=True) for c in changed
    ]
    several = len({span.model for span in spans}) > 1
    with picture(path, 5.6, 0.19 * len(spans) + 0.85) as figure:
        panel = figure.subplots()
        _frame(panel, [f"{span.name}, {span.model}" if several else span.name for span in spans])
        panel.axhline(len(paired) - 0.5, color=SOFT, linewidth=0.6)
        for place, span in enumerate(spans):
            _draw(panel, place, span)
        figure.legend(loc="outside upper right", ncols=2, fontsize=7.5, handletextpad=0.2)


def _frame(panel: "Axes", names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set(xlim=(-3, 103), ylim=(len(names) - 0.4, -0.6), xlabel="mean score of the best episode")
    panel.text(1.09, 1.0, "change", transform=panel.transAxes, ha="right", va="bottom", fontsize=7, color=SOFT)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x", color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


def _draw(panel: "Axes", place: int, span: _Span) -> None:
    size, marker = (34, "D") if span.mean else (24, "o")
    ends, heights = (span.score, span.without), (place, place)
    panel.plot(ends, heights, color=INK if span.mean else SOFT, linewidth=1.6 if span.mean else 0.9, zorder=1)
    labels = ("STEP", "STEP (planner=none)") if place == 0 else ("", "")
    panel.scatter(span.score, place, s=size, color=WITH, marker=marker, linewidths=0, zorder=2, label=labels[0])
    # A ring, so that equal scores stay visible as two.
    panel.scatter(
        span.without,
        place,
        s=size,
        marker=marker,
        facecolors="none" if span.score == span.without else "white",
        edgecolors=WITHOUT,
        linewidths=1.2,
        zorder=3,
        label=labels[1],
    )
    change = f"{span.without - span.score:+.1f}" if span.without != span.score else "0.0"
    panel.annotate(change, (1.09, place), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=7)
