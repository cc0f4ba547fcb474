"""When the nodes of a task graph worked, side by side: where bars lie above each other, nodes worked at once."""

from collections.abc import Iterable, Sequence

from certigraph.evaluation.report.graph_drawing import LOOKS
from certigraph.evaluation.report.html import Markup, clipped, tag
from certigraph.evaluation.report.parts import clock
from certigraph.evaluation.report.task_graph import TaskGraph
from certigraph.evaluation.report.worked import Worked

WIDTH, LEFT, RIGHT, BOTTOM = 1_080, 132, 96, 24
MOST_ROOMY, ROOMY, TALLEST = 40, 22.0, 600
"""Nodes up to which a row has a label, the height of such a row, and that of all rows where there are more."""

LONGEST_LABEL = 18

Span = tuple[float, float]


def timeline(tasks: TaskGraph) -> Markup:
    """An inline SVG; words where no node was dispatched."""
    begun = sorted((w for w in tasks.nodes.values() if w.spans), key=lambda worked: worked.spans[0])
    if not begun:
        return tag("p", "No node was dispatched.", class_="quiet")
    scale = _Scale(tasks, len(begun))
    return tag(
        "svg",
        *_grid(tasks, scale),
        *_own(tasks, scale),
        *(part for row, worked in enumerate(begun, 1) for part in _row(worked, row, scale)),
        viewBox=f"0 0 {WIDTH} {scale.height}",
        role="img",
        aria_label=f"{len(begun)} nodes worked within {clock(scale.seconds)}",
        class_="timeline",
        style=f"stroke-width:{min(scale.step * 0.8, 8):.1f}",
    )


class _Scale:
    def __init__(self, tasks: TaskGraph, rows: int) -> None:
        spans = [*tasks.supervised, *(worked.spans[-1] for worked in tasks.nodes.values() if worked.spans)]
        self.seconds = max((end for _, end in spans), default=0.0) or 1.0
        self.labelled = rows <= MOST_ROOMY
        self.step = ROOMY if self.labelled else min(TALLEST / rows, ROOMY / 2)
        self.height = round((rows + 1) * self.step) + BOTTOM

    def x(self, seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.seconds

    def y(self, row: int) -> float:
        return (row + 0.5) * self.step


def _grid(tasks: TaskGraph, scale: _Scale) -> list[Markup]:
    low = scale.height - BOTTOM + 4
    ends = ((0.0, "start"), (scale.seconds, "end"))
    said = [
        tag("text", clock(t) if t else "0 s", x=f"{scale.x(t):.1f}", y=low + 13, text_anchor=where) for t, where in ends
    ]
    lines = [tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=low, y2=low, class_="axis")]
    for seconds in tasks.resumed:
        x = f"{scale.x(seconds):.1f}"
        lines.append(tag("line", tag("title", "resumed"), x1=x, x2=x, y1=0, y2=low, class_="whole"))
    return [*lines, *said]


def _own(tasks: TaskGraph, scale: _Scale) -> list[Markup]:
    label = [_label("task graph", scale.y(0))] if scale.labelled else []
    return [*label, _bar(tasks.supervised, 0, scale, "restored")] if tasks.supervised else []


def _row(worked: Worked, row: int, scale: _Scale) -> list[Markup]:
    look, sign = LOOKS[worked.status]
    begin, end = worked.spans[0][0], worked.spans[-1][1]
    whole = _bar([(begin, end)], row, scale, f"{look} lasting")
    bar = _bar(worked.spans, row, scale, look, f"{worked.name}: {clock(begin)} to {clock(end)}")
    if not scale.labelled:
        return [whole, bar]
    took = tag("text", clock(end - begin), x=f"{scale.x(end) + 7:.1f}", y=f"{scale.y(row) + 4:.1f}")
    return [_label(f"{sign} {worked.name}", scale.y(row)), whole, bar, took]


def _label(text: str, y: float) -> Markup:
    return tag("text", clipped(text, LONGEST_LABEL), x=LEFT - 10, y=f"{y + 4:.1f}", text_anchor="end")


def _bar(spans: Iterable[Span], row: int, scale: _Scale, look: str, title: str = "") -> Markup:
    y = f"{scale.y(row):.1f}"
    path = "".join(f"M{start:.1f} {y}H{end:.1f}" for start, end in _merged(spans, scale))
    return tag("path", *([tag("title", title)] if title else []), d=path, class_=f"bar-line {look}")


def _merged(spans: Iterable[Span], scale: _Scale) -> Sequence[Span]:
    """The spans as drawn, those a unit apart as one: a long run has as many as a short one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        start, stop = scale.x(begin), max(scale.x(end), scale.x(begin) + 1)
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found
