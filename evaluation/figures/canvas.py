"""What all pictures share: matplotlib, how it should look, and writing a picture as PNG and SVG."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
