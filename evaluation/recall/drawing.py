"""A recall study as files: every figure as JSON, and the picture drawn from it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from certigraph.evaluation.extras import equipped
from certigraph.evaluation.figures.canvas import FAINT, colours, grid, picture
from certigraph.evaluation.recall.figures import Recall, RecallStudy
from certigraph.evaluation.recall.scoring import MEASURES, ONCE, WOVEN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "recall.json"
TITLES = {ONCE: "asked once", WOVEN: "hop by hop, k in all"}
"""The queries that are drawn, a row of panels each, and how they are called above a panel."""


def write_recall(study: RecallStudy, out: Path) -> tuple[Path, ...]:
    """Write recall.json, and draw recall.png and recall.svg from it. Raises Fault where matplotlib is missing."""
    equipped("figures", "matplotlib")
    out.mkdir(parents=True, exist_ok=True)
    path = out / NAME
    path.write_text(json.dumps(study.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
    draw_recall(RecallStudy.model_validate_json(path.read_bytes()), path.with_suffix(""))
    return path, path.with_suffix(".png"), path.with_suffix(".svg")


def draw_recall(study: RecallStudy, path: Path) -> None:
    """A column a split, the question asked once above and hop by hop below; a dot a method with its 95 % interval."""
    splits = [corpus.split for corpus in study.corpora]
    colour = colours(list(dict.fromkeys(one.method for one in study.recalls)))
    with picture(path, 0.6 + 1.75 * len(splits), 4.2) as figure:
        panels = grid(figure, len(TITLES) * len(splits), len(splits))
        places = [(queries, split) for queries in TITLES for split in splits]
        for (queries, split), panel in zip(places, panels, strict=True):
            shown = [one for one in study.recalls if (one.queries, one.split) == (queries, split)]
            panel.set_title(f"{split}, {TITLES[queries]}", fontsize=6.5)
            _frame(panel)
            for place, method in enumerate(colour):
                shift = 0.15 * (place - (len(colour) - 1) / 2)
                _dots(panel, [one for one in shown if one.method == method], shift, colour[method])
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(colour), fontsize=7.5)
        figure.supylabel("supporting passages found, %", fontsize=8)


def _frame(panel: "Axes") -> None:
    panel.set(ylim=(0, 103), xlim=(-0.6, len(MEASURES) - 0.4))
    panel.set_xticks(range(len(MEASURES)), list(MEASURES), fontsize=7)
    panel.grid(axis="y", color=FAINT, linewidth=0.4)
    panel.set_axisbelow(True)


def _dots(panel: "Axes", recalls: Sequence[Recall], shift: float, colour: str) -> None:
    places = [list(MEASURES).index(one.measure) + shift for one in recalls]
    means = [100 * one.mean for one in recalls]
    lows = [100 * (one.mean - (one.mean if one.low is None else one.low)) for one in recalls]
    highs = [100 * ((one.mean if one.high is None else one.high) - one.mean) for one in recalls]
    panel.errorbar(
        places, means, (lows, highs), fmt="o", markersize=3, elinewidth=0.8, color=colour, label=recalls[0].method
    )
