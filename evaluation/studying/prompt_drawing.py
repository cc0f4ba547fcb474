"""Prompts over the world steps of the longest episode, a panel a kind of task, a line a method."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from certigraph.evaluation.comparing.drawing import GREY, INKS
from certigraph.evaluation.studying.corridor_mind import DEEP, STRETCH, WIDE
from certigraph.evaluation.studying.prompt_sizes import TASK_GRAPH, Size

TITLES = {DEEP: "one sub-task of all steps", WIDE: f"sub-tasks of {STRETCH} steps"}


def growing_prompts(sizes: Sequence[Size]) -> Figure:
    """The largest prompt that a method asks after so many steps; that of TDP's task graph is dashed."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for panel, (kind, title) in zip(panels, TITLES.items(), strict=True):
        mine = [size for size in sizes if size.kind == kind]
        _panel(panel, [size for size in mine if size.rooms == max(size.rooms for size in mine)])
        panel.set_title(title, fontsize=9, loc="left")
    panels[0].set_ylim(bottom=0)  # after all are drawn: the panels share it, and a limit ends its adapting
    panels[0].set_ylabel("characters of the largest prompt")
    if handles := panels[-1].get_legend_handles_labels()[0]:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return figure


def _panel(panel: Any, sizes: Sequence[Size]) -> None:
    for number, method in enumerate(dict.fromkeys(size.method for size in sizes)):
        mine = [size for size in sizes if size.method == method]
        _line(panel, _largest(s for s in mine if s.about != TASK_GRAPH), color=INKS[number], label=method)
        graph = list(_largest(s for s in mine if s.about == TASK_GRAPH))
        if graph:
            _line(panel, graph, color=INKS[number], label=f"{method}, task graph", linestyle="--", marker=".")
    panel.set_xlabel("world steps taken", color=GREY)
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.spines[["top", "right"]].set_visible(False)


def _line(panel: Any, points: Iterable[tuple[int, int]], **look: Any) -> None:
    at, characters = zip(*points, strict=True)
    panel.plot(at, characters, linewidth=1.4, **look)


def _largest(sizes: Iterable[Size]) -> Iterator[tuple[int, int]]:
    found: dict[int, int] = {}
    for size in sizes:
        found[size.steps] = max(found.get(size.steps, 0), size.characters)
    yield from sorted(found.items())
