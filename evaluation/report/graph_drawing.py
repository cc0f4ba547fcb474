"""The task graph as a picture: boxes by level, coloured and signed by what became of them, edges to what needs them."""

from collections.abc import Iterator

from certigraph.evaluation.report.graph_layout import WIDTH, Box, Layout, lay_out
from certigraph.evaluation.report.html import Markup, clipped, counted, joined, shortened, tag
from certigraph.evaluation.report.task_graph import TaskGraph
from certigraph.evaluation.report.worked import Status, Worked

LOOKS: dict[Status, tuple[str, str]] = {
    "completed": ("certified", "✓"),
    "failed": ("failed", "✕"),
    "working": ("target", "▸"),
    "pending": ("waiting", "·"),
    "removed": ("gone", "~"),
}
"""The look that a node shares with the predicates of a plan, and its sign."""

WORDS: dict[Status, str] = {
    "completed": "completed",
    "failed": "failed",
    "working": "begun, without an outcome",
    "pending": "not dispatched",
    "removed": "removed by a revision",
}

LONGEST_TITLE, LONGEST_TASK = 400, 150
"""Characters of a specification in a tooltip and in its box."""


def graph_drawing(tasks: TaskGraph) -> Markup:
    """An inline SVG with its legend; words where nothing was decomposed."""
    if not tasks.nodes:
        return tag("p", "The task was not decomposed.", class_="quiet")
    layout = lay_out(tasks)
    drawing = tag(
        "svg",
        *_edges(layout),
        *(_box(box, layout, last=id_ == tasks.goal) for id_, box in layout.boxes.items()),
        viewBox=f"0 0 {WIDTH} {layout.height:.0f}",
        role="img",
        aria_label=f"task graph of {counted(len(tasks.nodes), 'node')}, {tasks.count('completed')} completed",
    )
    frame = tag("div", drawing, class_="graph" if layout.roomy else "graph dense")
    return joined(_legend(tasks), frame, *_revisions(tasks))


def _legend(tasks: TaskGraph) -> Markup:
    shown = [
        tag("span", tag("b", sign, class_=f"sign {look}"), f"{count} {WORDS[status]}")
        for status, (look, sign) in LOOKS.items()
        if (count := tasks.count(status))
    ]
    changed = sum(worked.changed in ("revised", "added") for worked in tasks.nodes.values())
    revised = [tag("span", tag("i", class_="revised-key"), f"{changed} revised or added")] if changed else []
    return tag("p", *shown, *revised, tag("span", tag("i", class_="goal-key"), "settles the task"), class_="legend")


def _revisions(tasks: TaskGraph) -> list[Markup]:
    told = (f"⟲ revision {revision.number}: {revision.words}" for revision in tasks.revisions)
    return [tag("p", shortened(text, LONGEST_TITLE), class_="revision") for text in told]


def _edges(layout: Layout) -> Iterator[Markup]:
    for box in layout.boxes.values():
        for need in box.worked.node.needs:
            if above := layout.boxes.get(need):
                look, _ = LOOKS["removed" if box.worked.removed else above.worked.status]
                yield tag("path", d=_edge(above, box), class_=f"edge {look}")


def _edge(above: Box, below: Box) -> str:
    """A curve with an arrow head; one that passes other rows bends around the boxes between."""
    x, y, to_x, to_y = above.middle, above.y + above.height, below.middle, below.y - 1
    if below.row == above.row + 1:
        half = (to_y - y) / 2
        return f"M{x:.0f} {y:.0f}C{x:.0f} {y + half:.0f} {to_x:.0f} {to_y - half:.0f} {to_x:.0f} {to_y:.0f}{_DOWN}"
    x, y, to_x, to_y = above.x + above.width, above.y + above.height / 2, below.x + below.width + 1, below.y + 14
    out = min(max(x, to_x) + 26 + 5 * (below.row - above.row), WIDTH - 3)
    return f"M{x:.0f} {y:.0f}C{out:.0f} {y:.0f} {out:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}{_LEFT}"


_DOWN, _LEFT = "m-4 -6l4 6l4 -6", "m6 -4l-6 4l6 4"


def _box(box: Box, layout: Layout, *, last: bool) -> Markup:
    worked, look = box.worked, LOOKS[box.worked.status][0]
    place = {"x": f"{box.x:.1f}", "y": f"{box.y:.1f}", "width": f"{box.width:.1f}", "height": f"{box.height:.0f}"}
    kinds = [look, *(["goal"] if last else []), *(["revised"] if worked.changed in ("revised", "added") else [])]
    title = tag("title", f"{worked.name}, {worked.status}: {shortened(worked.node.task, LONGEST_TITLE)}")
    text = tag("foreignObject", _text(worked, roomy=layout.roomy), **place)
    return tag("g", title, tag("rect", rx=9, **place), text, class_=f"task {' '.join(kinds)}")


def _text(worked: Worked, *, roomy: bool) -> Markup:
    head = tag("b", f"{LOOKS[worked.status][1]} {worked.name}")
    if not roomy:
        return tag("div", tag("p", head), class_="box dense")
    took = [counted(worked.steps, "step"), counted(worked.calls, "call")] if worked.events else []
    told = " · ".join([*filter(None, [worked.changed]), *took])
    task = tag("span", clipped(worked.node.task, LONGEST_TASK))
    return tag("div", tag("p", head, tag("small", told)), task, class_="box")
