"""The study's figures: quality against tokens, and how prompts grow, a panel a harness."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from certigraph.evaluation.comparing.drawing import GREY, INKS
from certigraph.evaluation.studying.arms import MEMORIES, ON
from certigraph.evaluation.studying.tables import Tables

COLOURS = dict(zip(MEMORIES, INKS, strict=False))
COLUMNS, INCHES, HEIGHT = 4, 3.1, 3.0
WIDTH = 5.0
"""Inches that the key of the conditions takes."""


def quality_by_tokens(tables: Tables) -> Figure:
    """Mean score over mean tokens of each condition; hollow with the gate; the frontiers as lines."""
    return _panels(tables["pareto"], _frontier, "tokens a run", "mean score")


def growing_prompts(tables: Tables) -> Figure:
    """Prompt tokens of the agent's question by round, a line a condition with its 95 % interval."""
    return _panels(tables["prompts"], _growth, "round", "prompt tokens of the agent")


FIGURES: dict[str, Callable[[Tables], Figure]] = {"quality": quality_by_tokens, "growth": growing_prompts}


def _panels(found: pd.DataFrame, draw: Callable[[Any, pd.DataFrame], None], across: str, up: str) -> Figure:
    groups = list(found.groupby(["harness", "variant"], sort=False))
    columns = max(1, min(len(groups), COLUMNS))
    lines = max(1, -(-len(groups) // columns))
    figure = Figure(figsize=(max(INCHES * columns, WIDTH), HEIGHT * lines + 0.5), layout="constrained")
    panels = list(figure.subplots(lines, columns, sharey=True, squeeze=False).flat)
    for panel, ((harness, variant), rows) in zip(panels, groups, strict=False):
        draw(panel, rows)
        panel.set_title(f"{harness} {variant}".strip(), fontsize=9, loc="left")
        panel.set_xlabel(across)
        panel.spines[["top", "right"]].set_visible(False)
    for spare in panels[len(groups) :]:
        spare.remove()
    if groups:
        panels[0].set_ylim(bottom=0)  # after all are drawn: the panels share it, and a limit ends its adapting
        panels[0].set_ylabel(up)
        handles = _key(panels[0], found["memory"])
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _frontier(panel: Any, rows: pd.DataFrame) -> None:
    for gate, best in rows[rows["frontier"]].sort_values("tokens").groupby("gate"):
        panel.plot(best["tokens"], best["score"], "--" if gate == ON else "-", color=GREY, linewidth=1, zorder=1)
    for row in rows.itertuples():
        colour, hollow = COLOURS[str(row.memory)], row.gate == ON
        face = "none" if hollow else colour
        panel.scatter(row.tokens, row.score, s=36, facecolors=face, edgecolors=colour, zorder=2)
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))


def _growth(panel: Any, rows: pd.DataFrame) -> None:
    asked = rows[rows["value"] > 0]  # a first query that is the question itself asks no model
    for (memory, _gate), line in asked.groupby(["memory", "gate"], sort=False):
        colour, at = COLOURS[str(memory)], line["round"].astype(int).tolist()
        panel.plot(at, line["value"].tolist(), color=colour, marker=".", linewidth=1.4)
        panel.fill_between(at, line["low"].tolist(), line["high"].tolist(), color=colour, alpha=0.14, linewidth=0)
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _key(panel: Any, memories: pd.Series) -> Sequence[Any]:
    """A sign for each condition that was run, belonging to no data."""
    shown = {memory: colour for memory, colour in COLOURS.items() if memory in set(memories)}
    return [panel.plot([], [], "o", color=colour, label=memory)[0] for memory, colour in shown.items()]
