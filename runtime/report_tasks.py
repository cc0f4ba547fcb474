"""TDP's task graph in a report: the drawing, a section for every sub-task, and the timeline."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from certigraph.runtime.history import NodeProgress, NodeStatus, TaskGraph
from certigraph.runtime.html import Markup, cost_table, join_markup, tag, total_cell
from certigraph.runtime.texts import clip_text, format_compact, format_count, format_duration, shorten_text
from certigraph.state.records import Usage
from certigraph.state.trajectory import Event, Footer, Trajectory, total_usage

# Layout: one row of boxes for each level; a wide level takes several rows.

WIDTH, MARGIN = 1_080, 36
"""Width of the drawing, and the margin at both sides for edges that go around a row."""

MAX_ROOMY_NODES = 40
"""Maximum number of sub-tasks for boxes that show the specification.

In larger task graphs the boxes show the id alone.
"""

MAX_BOX_WIDTH = 330
"""Maximum width of a box."""


class LayoutShape(NamedTuple):
    """Shape of a layout: maximum number of boxes in a row, height of a box, and space between boxes and rows."""

    most: int
    height: int
    across: int
    down: int


ROOMY_SHAPE, DENSE_SHAPE = LayoutShape(4, 68, 22, 38), LayoutShape(9, 26, 14, 24)


class NodeBox(NamedTuple):
    """Rectangle of a sub-task in the drawing, and the number of its row."""

    worked: NodeProgress
    x: float
    y: float
    width: float
    height: float
    row: int

    @property
    def middle(self) -> float:
        """The x coordinate of the middle of the box."""
        return self.x + self.width / 2


class GraphLayout(NamedTuple):
    """Boxes of all sub-tasks, by id; `roomy` is True if they show the specification and not the id alone."""

    boxes: dict[str, NodeBox]
    height: float
    roomy: bool


def layout_graph(tasks: TaskGraph) -> GraphLayout:
    """Place every sub-task below the sub-tasks that it needs, and near their middle."""
    roomy = len(tasks.nodes) <= MAX_ROOMY_NODES
    shape, boxes, row = ROOMY_SHAPE if roomy else DENSE_SHAPE, dict[str, NodeBox](), 0
    widest = min(max(map(len, tasks.levels()), default=1), shape.most)
    width = min((WIDTH - 2 * MARGIN - shape.across * (widest - 1)) / widest, MAX_BOX_WIDTH)
    for level in tasks.levels():
        level.sort(key=lambda worked: _middle_above(worked, boxes))
        for start in range(0, len(level), shape.most):
            boxes |= _place_row(level[start : start + shape.most], row, width, shape)
            row += 1
    return GraphLayout(boxes, row * (shape.height + shape.down) - shape.down + 8, roomy)


def _place_row(level: list[NodeProgress], row: int, width: float, shape: LayoutShape) -> dict[str, NodeBox]:
    total_width = len(level) * (width + shape.across) - shape.across
    left, y = (WIDTH - total_width) / 2, 4.0 + row * (shape.height + shape.down)
    lefts = (left + number * (width + shape.across) for number in range(len(level)))
    return {w.node.id: NodeBox(w, x, y, width, shape.height, row) for w, x in zip(level, lefts, strict=True)}


def _middle_above(worked: NodeProgress, boxes: dict[str, NodeBox]) -> float:
    above = [boxes[need].middle for need in worked.node.needs if need in boxes]
    return sum(above) / len(above) if above else WIDTH / 2


# The drawing.

STATUS_MARKS: dict[NodeStatus, tuple[str, str]] = {
    "completed": ("certified", "✓"),
    "failed": ("failed", "✕"),
    "working": ("target", "▸"),
    "pending": ("waiting", "·"),
    "removed": ("gone", "~"),
}
"""CSS class and mark for a sub-task, by its status. The classes are those of the predicates of a plan."""

STATUS_LABELS: dict[NodeStatus, str] = {
    "completed": "completed",
    "failed": "failed",
    "working": "begun, without an outcome",
    "pending": "not dispatched",
    "removed": "removed by a revision",
}
"""Label in the legend, by status."""

MAX_TITLE_CHARACTERS, MAX_TASK_CHARACTERS = 400, 150
"""Maximum number of characters of a specification in a tooltip, and in a box."""


def graph_drawing(tasks: TaskGraph) -> Markup:
    """Draw the task graph as SVG, with a legend and the revisions; a notice if there is no sub-task."""
    if not tasks.nodes:
        return tag("p", "The task was not decomposed.", class_="quiet")
    layout = layout_graph(tasks)
    drawing = tag(
        "svg",
        *_edge_paths(layout),
        *(_box_group(box, layout, last=id_ == tasks.goal) for id_, box in layout.boxes.items()),
        viewBox=f"0 0 {WIDTH} {layout.height:.0f}",
        role="img",
        aria_label=f"task graph of {format_count(len(tasks.nodes), 'node')}, {tasks.count('completed')} completed",
    )
    frame = tag("div", drawing, class_="graph" if layout.roomy else "graph dense")
    return join_markup(_legend(tasks), frame, *_revision_lines(tasks))


def _legend(tasks: TaskGraph) -> Markup:
    shown = [
        tag("span", tag("b", sign, class_=f"sign {look}"), f"{count} {STATUS_LABELS[status]}")
        for status, (look, sign) in STATUS_MARKS.items()
        if (count := tasks.count(status))
    ]
    changed = sum(worked.changed in ("revised", "added") for worked in tasks.nodes.values())
    revised = [tag("span", tag("i", class_="revised-key"), f"{changed} revised or added")] if changed else []
    return tag("p", *shown, *revised, tag("span", tag("i", class_="goal-key"), "settles the task"), class_="legend")


def _revision_lines(tasks: TaskGraph) -> list[Markup]:
    lines = (f"⟲ revision {revision.number}: {revision.line}" for revision in tasks.revisions)
    return [tag("p", shorten_text(text, MAX_TITLE_CHARACTERS), class_="revision") for text in lines]


def _edge_paths(layout: GraphLayout) -> Iterator[Markup]:
    for box in layout.boxes.values():
        for need in box.worked.node.needs:
            if above := layout.boxes.get(need):
                look, _ = STATUS_MARKS["removed" if box.worked.removed else above.worked.status]
                yield tag("path", d=_edge_path(above, box), class_=f"edge {look}")


def _edge_path(above: NodeBox, below: NodeBox) -> str:
    # A curve with an arrow head; one that passes other rows bends around the boxes in between.
    x, y, to_x, to_y = above.middle, above.y + above.height, below.middle, below.y - 1
    if below.row == above.row + 1:
        half = (to_y - y) / 2
        return (
            f"M{x:.0f} {y:.0f}C{x:.0f} {y + half:.0f} {to_x:.0f} {to_y - half:.0f} {to_x:.0f} {to_y:.0f}{_DOWN_ARROW}"
        )
    x, y, to_x, to_y = above.x + above.width, above.y + above.height / 2, below.x + below.width + 1, below.y + 14
    out = min(max(x, to_x) + 26 + 5 * (below.row - above.row), WIDTH - 3)
    return f"M{x:.0f} {y:.0f}C{out:.0f} {y:.0f} {out:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}{_LEFT_ARROW}"


_DOWN_ARROW, _LEFT_ARROW = "m-4 -6l4 6l4 -6", "m6 -4l-6 4l6 4"


def _box_group(box: NodeBox, layout: GraphLayout, *, last: bool) -> Markup:
    worked, look = box.worked, STATUS_MARKS[box.worked.status][0]
    position = {"x": f"{box.x:.1f}", "y": f"{box.y:.1f}", "width": f"{box.width:.1f}", "height": f"{box.height:.0f}"}
    kinds = [look, *(["goal"] if last else []), *(["revised"] if worked.changed in ("revised", "added") else [])]
    title = tag("title", f"{worked.name}, {worked.status}: {shorten_text(worked.node.task, MAX_TITLE_CHARACTERS)}")
    text = tag("foreignObject", _box_text(worked, roomy=layout.roomy), **position)
    return tag("g", title, tag("rect", rx=9, **position), text, class_=f"task {' '.join(kinds)}")


def _box_text(worked: NodeProgress, *, roomy: bool) -> Markup:
    head = tag("b", f"{STATUS_MARKS[worked.status][1]} {worked.name}")
    if not roomy:
        return tag("div", tag("p", head), class_="box dense")
    took = [format_count(worked.steps, "step"), format_count(worked.calls, "call")] if worked.events else []
    facts = " · ".join([*filter(None, [worked.changed]), *took])
    task = tag("span", clip_text(worked.node.task, MAX_TASK_CHARACTERS))
    return tag("div", tag("p", head, tag("small", facts)), task, class_="box")


# Sections of nodes.

MAX_RESULT_CHARACTERS, MAX_PART_CHARACTERS = 200, 4_000
"""Maximum number of characters of a result in a collapsed section, and in an expanded one."""

SUBTASK_GRAPH = "subtask"
"""Name of the graph that works on a sub-task, unless the operator `solve` names another one."""

ShowRun = Callable[[Trajectory], Markup]
"""Function that shows the run of the graph that worked on a sub-task."""


def task_figures(tasks: TaskGraph) -> list[Markup]:
    """Build the totals of a task graph: completed sub-tasks, world steps and revisions."""
    replans = sum(worked.replans for worked in tasks.nodes.values())
    failed = tasks.count("failed")
    return [
        total_cell("sub-tasks", f"{tasks.count('completed')}/{tasks.live}", f"completed, {failed} failed"),
        total_cell("world steps", f"{tasks.steps:,}", "of all sub-tasks"),
        total_cell("revisions", f"{len(tasks.revisions)}", format_count(replans, "replan")),
    ]


def task_column(tasks: TaskGraph, trajectory: Trajectory, inside: ShowRun) -> Markup:
    """Show a section for every sub-task, level by level.

    Args:
        tasks: the task graph.
        trajectory: the run of the whole task.
        inside: shows the run of a sub-task.
    """
    nodes = [worked for level in tasks.levels() for worked in level]
    sections = (_node_section(worked, tasks, inside(inner_run_of(worked, trajectory))) for worked in nodes)
    return tag("div", *sections, class_="tasks")


def inner_run_of(worked: NodeProgress, trajectory: Trajectory) -> Trajectory:
    """Return the run of a sub-task as a trajectory of its own."""
    solver = trajectory.header.operators.get("solve")
    arguments = solver.get("args", {}) if isinstance(solver, dict) else {}
    graph = arguments.get("graph", SUBTASK_GRAPH) if isinstance(arguments, dict) else SUBTASK_GRAPH
    ending = worked.outcome.ending if worked.outcome else ""
    header = trajectory.header.model_copy(update={"graph": graph})
    footer = Footer(ending=ending, usage=Usage(node="all")) if ending else None
    events = [_strip_scope(event) for event in worked.events]
    return Trajectory.model_construct(header=header, events=events, superseded=[], footer=footer)


def task_cost_table(tasks: TaskGraph, trajectory: Trajectory) -> Markup:
    """Build the table of world steps, model calls, tokens and seconds of every sub-task.

    The first row is the cost of the task graph's own operators.
    """
    own = [event.usage for event in [*trajectory.events, *trajectory.superseded] if not event.scope]
    rows = [(0, total_usage(own, "task graph"))]
    for worked in tasks.nodes.values():
        usage = Usage(node=worked.name, calls=worked.calls, input_tokens=worked.tokens, seconds=worked.seconds)
        rows.append((worked.steps, usage))
    return cost_table(("sub-task", "steps"), rows)


def _strip_scope(event: Event) -> Event:
    # The event without the outermost scope; `subtask` belongs to the innermost one.
    deeper = event.scope.partition("|")[2]
    return event.model_copy(update={"scope": deeper, "subtask": event.subtask if deeper else ""})


def _node_section(worked: NodeProgress, tasks: TaskGraph, inside: Markup) -> Markup:
    look, sign = STATUS_MARKS[worked.status]
    result = shorten_text(" ".join(worked.outcome.result.split()), MAX_RESULT_CHARACTERS) if worked.outcome else ""
    head = tag(
        "summary",
        tag("span", sign, class_="mark", title=worked.status),
        tag("span", worked.name, class_="id"),
        tag("span", shorten_text(worked.node.task, MAX_PART_CHARACTERS), class_="condition"),
        tag("span", _format_cost(worked), class_="when"),
        *([tag("span", result, class_="subtask-result")] if result else []),
    )
    return tag(
        "details", head, *_specification_parts(worked, tasks), inside, *_outcome_parts(worked), class_=f"subtask {look}"
    )


def _format_cost(worked: NodeProgress) -> str:
    states = [worked.changed] if worked.removed else [*filter(None, [worked.changed]), worked.status]
    if not worked.events:
        return " · ".join(states)
    certified = [f"{worked.plan.in_force}/{worked.plan.total} certified"] if worked.plan.total else []
    counts = [
        format_count(worked.steps, "step"),
        format_count(worked.calls, "call"),
        f"{format_compact(worked.tokens)} tokens",
    ]
    return " · ".join([*states, *certified, *counts, format_duration(worked.seconds)])


def _specification_parts(worked: NodeProgress, tasks: TaskGraph) -> list[Markup]:
    # Earlier versions of the node, its revisions, and the results of the nodes that it needs.
    former = [
        _labelled_paragraph(f"until revision {number}", f"{node.task} (needs {', '.join(node.needs) or 'nothing'})")
        for number, node in worked.earlier
    ]
    history = [f"added by revision {worked.added}"] if worked.added else []
    history += [f"removed by revision {worked.removed}"] if worked.removed else []
    needs = [_labelled_paragraph("needs", "\n".join(_format_need(need, tasks) for need in worked.node.needs))]
    return [*(tag("p", words, class_="how back") for words in history), *former, *(needs if worked.node.needs else [])]


def _format_need(need: str, tasks: TaskGraph) -> str:
    outcome = tasks.nodes[need].outcome if need in tasks.nodes else None
    return f"{need}: {shorten_text(outcome.result, MAX_RESULT_CHARACTERS)}" if outcome else need


def _outcome_parts(worked: NodeProgress) -> list[Markup]:
    outcome = worked.outcome
    if outcome is None:
        return []
    named = {"completed": "result", "failed": "failed because", "pending": "set aside because"}
    return [_labelled_paragraph(named[outcome.status], shorten_text(outcome.result, MAX_PART_CHARACTERS))]


def _labelled_paragraph(name: str, text: str) -> Markup:
    return tag("p", tag("b", name), text, class_="part")


# The timeline, one row a node: nodes whose bars overlap in time worked in parallel.

TIMELINE_WIDTH, LEFT, RIGHT, BOTTOM = 1_080, 132, 96, 24
MAX_LABELLED_ROWS, LABELLED_ROW_HEIGHT, MAX_ROWS_HEIGHT = 40, 22.0, 600
"""Limits of the timeline.

Maximum number of sub-tasks for rows with labels; height of such a row; height of all rows if there are more sub-tasks.
"""

MAX_LABEL_CHARACTERS = 18
"""Maximum number of characters of a row's label."""

Span = tuple[float, float]


def timeline(tasks: TaskGraph) -> Markup:
    """Draw as SVG when each sub-task was worked on; a notice if no sub-task was started."""
    started = sorted((w for w in tasks.nodes.values() if w.spans), key=lambda worked: worked.spans[0])
    if not started:
        return tag("p", "No node was dispatched.", class_="quiet")
    scale = _TimelineScale(tasks, len(started))
    return tag(
        "svg",
        *_time_axis(tasks, scale),
        *_supervisor_row(tasks, scale),
        *(part for row, worked in enumerate(started, 1) for part in _node_row(worked, row, scale)),
        viewBox=f"0 0 {TIMELINE_WIDTH} {scale.height}",
        role="img",
        aria_label=f"{len(started)} nodes worked within {format_duration(scale.seconds)}",
        class_="timeline",
        style=f"stroke-width:{min(scale.step * 0.8, 8):.1f}",
    )


class _TimelineScale:
    def __init__(self, tasks: TaskGraph, rows: int) -> None:
        spans = [*tasks.supervisor_spans, *(worked.spans[-1] for worked in tasks.nodes.values() if worked.spans)]
        self.seconds = max((end for _, end in spans), default=0.0) or 1.0
        self.labelled = rows <= MAX_LABELLED_ROWS
        self.step = LABELLED_ROW_HEIGHT if self.labelled else min(MAX_ROWS_HEIGHT / rows, LABELLED_ROW_HEIGHT / 2)
        self.height = round((rows + 1) * self.step) + BOTTOM

    def x(self, seconds: float) -> float:
        return LEFT + (TIMELINE_WIDTH - LEFT - RIGHT) * seconds / self.seconds

    def y(self, row: int) -> float:
        return (row + 0.5) * self.step


def _time_axis(tasks: TaskGraph, scale: _TimelineScale) -> list[Markup]:
    low = scale.height - BOTTOM + 4
    ends = ((0.0, "start"), (scale.seconds, "end"))
    labels = [
        tag("text", format_duration(t) if t else "0 s", x=f"{scale.x(t):.1f}", y=low + 13, text_anchor=anchor)
        for t, anchor in ends
    ]
    lines = [tag("line", x1=LEFT, x2=TIMELINE_WIDTH - RIGHT, y1=low, y2=low, class_="axis")]
    for seconds in tasks.resume_times:
        x = f"{scale.x(seconds):.1f}"
        lines.append(tag("line", tag("title", "resumed"), x1=x, x2=x, y1=0, y2=low, class_="whole"))
    return [*lines, *labels]


def _supervisor_row(tasks: TaskGraph, scale: _TimelineScale) -> list[Markup]:
    label = [_row_label("task graph", scale.y(0))] if scale.labelled else []
    return [*label, _bar_path(tasks.supervisor_spans, 0, scale, "restored")] if tasks.supervisor_spans else []


def _node_row(worked: NodeProgress, row: int, scale: _TimelineScale) -> list[Markup]:
    look, sign = STATUS_MARKS[worked.status]
    start, end = worked.spans[0][0], worked.spans[-1][1]
    span = _bar_path([(start, end)], row, scale, f"{look} lasting")
    bar = _bar_path(
        worked.spans, row, scale, look, f"{worked.name}: {format_duration(start)} to {format_duration(end)}"
    )
    if not scale.labelled:
        return [span, bar]
    took = tag("text", format_duration(end - start), x=f"{scale.x(end) + 7:.1f}", y=f"{scale.y(row) + 4:.1f}")
    return [_row_label(f"{sign} {worked.name}", scale.y(row)), span, bar, took]


def _row_label(text: str, y: float) -> Markup:
    return tag("text", clip_text(text, MAX_LABEL_CHARACTERS), x=LEFT - 10, y=f"{y + 4:.1f}", text_anchor="end")


def _bar_path(spans: Iterable[Span], row: int, scale: _TimelineScale, look: str, title: str = "") -> Markup:
    y = f"{scale.y(row):.1f}"
    path = "".join(f"M{start:.1f} {y}H{end:.1f}" for start, end in _merge_spans(spans, scale))
    return tag("path", *([tag("title", title)] if title else []), d=path, class_=f"bar-line {look}")


def _merge_spans(spans: Iterable[Span], scale: _TimelineScale) -> Sequence[Span]:
    # Spans that are drawn less than a unit apart are merged, so that the page of a long run stays small.
    merged: list[Span] = []
    for span_start, end in sorted(spans):
        start, stop = scale.x(span_start), max(scale.x(end), scale.x(span_start) + 1)
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
