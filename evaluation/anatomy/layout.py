"""How panels stand side by side, and what they have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from certigraph.evaluation.anatomy import panels
from certigraph.evaluation.comparing.drawing import GREY

Names = Sequence[str]

INCHES = 12.0

TICK = 12
"""Characters on a line of a tick's label."""


def beside(count: int, names: Names, below: float = 0.4, *, coloured: bool = True) -> tuple[Figure, list[Any]]:
    """Panels side by side, a line a method in each."""
    height = panels.LINE_HEIGHT * max(len(names), 1) * (1.4 if any(len(n) > panels.WIDTH for n in names) else 1)
    figure = Figure(figsize=(INCHES, height + 1.0 + below), layout="constrained")
    drawn = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    for panel in drawn:
        panels.rows(panel, names, coloured=coloured and panel is drawn[0])
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
            line = panels.line_of(found, name, measure=measure)
            if line is None:
                panels.absent(panel, place + shift)
            else:
                panels.dot(panel, line, place + shift, panels.ink(place), mark)
                panels.counted(panel, place + 1.2 * shift, line["n"])
    panels.key(panel, panels.signs({name: (mark, GREY) for name, mark in marks.items()}))


def curve(panel: Any, found: pd.DataFrame, names: Names, column: str, places: Sequence[Any]) -> None:
    """Lines over a column, whose values are named on the axis, at most eight of them."""
    panels.lines(panel, found, names, column, places)
    every = -(-len(places) // 8) or 1
    panel.set_xticks(range(0, len(places), every), [panels.shown(str(place), TICK) for place in places[::every]])
    if not places:
        panel.text(0.5, 0.5, "no data", transform=panel.transAxes, ha="center", style="italic")


def by_kind(panel: Any, found: pd.DataFrame, names: Names, kinds: Sequence[str]) -> None:
    """A dot for each kind and method that has it, the methods of a kind side by side."""
    for number, name in enumerate(names):
        shift = 0.7 * ((number + 0.5) / len(names) - 0.5)
        for place, kind in enumerate(kinds):
            line = panels.line_of(found, name, kind=kind)
            if line is not None:
                panels.dot(panel, line, place + shift, panels.ink(number), panels.mark(number))


def legend(figure: Figure, names: Names) -> None:
    """What the methods' colours and marks are, below a figure."""
    handles = panels.signs({name: (panels.mark(place), panels.ink(place)) for place, name in enumerate(names)})
    if handles:
        figure.legend(handles=handles, ncols=4, frameon=False, fontsize=8, loc="outside lower left")


def sizes(found: pd.DataFrame) -> str:
    """Over how many runs the points of a curve are."""
    if found.empty:
        return "no runs"
    low, high = found["n"].min(), found["n"].max()
    return f"n = {low:,} a point" if low == high else f"n = {low:,} to {high:,} a point"
