"""TDP's task graph in a report: layout of the drawing, the timeline, and the runs of the sub-tasks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from certigraph.runtime.history import NodeProgress, TaskGraph
from certigraph.runtime.pages import Total
from certigraph.runtime.progress import add_gave_up_count
from certigraph.runtime.texts import clip_text, format_compact, format_count, format_duration
from certigraph.state.records import Usage
from certigraph.state.trajectory import Event, Footer, Trajectory, total_usage

NODE_LOOKS: dict[str, tuple[str, str]] = {
    "completed": ("certified", "✓"),
    "failed": ("failed", "✕"),
    "working": ("target", "▸"),
    "pending": ("waiting", "·"),
    "removed": ("gone", "~"),
}
"""CSS class and mark for a sub-task, by its status. The classes are those of the predicates of a plan."""

DENIED_LOOK = ("denied", "✕")
"""CSS class and mark for the sub-task that settles a task whose goal the scorer denies."""

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


# Edges of the drawing.

DOWN_ARROW, LEFT_ARROW = "m-4 -6l4 6l4 -6", "m6 -4l-6 4l6 4"
"""SVG paths of arrow heads."""


def edges_of(layout: GraphLayout) -> Iterator[tuple[str, str]]:
    """Yield the SVG path and the CSS class of every edge of the task graph."""
    for box in layout.boxes.values():
        for need in box.worked.node.needs:
            if above := layout.boxes.get(need):
                yield _edge_path(above, box), NODE_LOOKS["removed" if box.worked.removed else above.worked.status][0]


def _edge_path(above: NodeBox, below: NodeBox) -> str:
    # A curve with an arrow head; one that passes other rows bends around the boxes in between.
    x, y, to_x, to_y = above.middle, above.y + above.height, below.middle, below.y - 1
    if below.row == above.row + 1:
        half = (to_y - y) / 2
        return f"M{x:.0f} {y:.0f}C{x:.0f} {y + half:.0f} {to_x:.0f} {to_y - half:.0f} {to_x:.0f} {to_y:.0f}{DOWN_ARROW}"
    x, y, to_x, to_y = above.x + above.width, above.y + above.height / 2, below.x + below.width + 1, below.y + 14
    out = min(max(x, to_x) + 26 + 5 * (below.row - above.row), WIDTH - 3)
    return f"M{x:.0f} {y:.0f}C{out:.0f} {y:.0f} {out:.0f} {to_y:.0f} {to_x:.0f} {to_y:.0f}{LEFT_ARROW}"


# Sub-tasks: totals, cost and run of each.

SUBTASK_GRAPH = "subtask"
"""Name of the graph that works on a sub-task, unless the operator `solve` names another one."""


def task_totals(tasks: TaskGraph) -> list[Total]:
    """Return the totals of a task graph: completed sub-tasks, world steps and revisions."""
    replans = format_count(sum(worked.replans for worked in tasks.nodes.values()), "replan")
    gave_up = sum(worked.gave_up for worked in tasks.nodes.values())
    failed = tasks.count("failed")
    return [
        Total("sub-tasks", f"{tasks.count('completed')}/{tasks.live}", f"completed, {failed} failed"),
        Total("world steps", f"{tasks.steps:,}", "of all sub-tasks"),
        Total("revisions", f"{len(tasks.revisions)}", add_gave_up_count(replans, gave_up)),
    ]


def task_costs(tasks: TaskGraph, trajectory: Trajectory) -> list[tuple[int, Usage]]:
    """Return the number of world steps and the usage of every sub-task.

    The first row is the cost of the task graph's own operators.
    """
    own = [event.usage for event in [*trajectory.events, *trajectory.superseded] if not event.scope]
    rows = [(0, total_usage(own, "task graph"))]
    for worked in tasks.nodes.values():
        usage = Usage(node=worked.name, calls=worked.calls, input_tokens=worked.tokens, seconds=worked.seconds)
        rows.append((worked.steps, usage))
    return rows


def format_progress(worked: NodeProgress, label: str) -> str:
    """Format on one line the status of a sub-task, how many predicates have a certificate (`label`), and its cost."""
    states = [worked.changed] if worked.removed else [*filter(None, [worked.changed]), worked.status]
    if not worked.events:
        return " · ".join(states)
    certified = [f"{worked.plan.in_force}/{worked.plan.total} {label}"] if worked.plan.total else []
    counts = [
        format_count(worked.steps, "step"),
        format_count(worked.calls, "call"),
        f"{format_compact(worked.tokens)} tokens",
    ]
    return " · ".join([*states, *certified, *counts, format_duration(worked.seconds)])


def inner_run_of(worked: NodeProgress, trajectory: Trajectory) -> Trajectory:
    """Return the run of a sub-task as a trajectory of its own."""
    solver = trajectory.header.all_operators.get("solve")
    arguments = solver.get("args", {}) if isinstance(solver, dict) else {}
    graph = arguments.get("graph", SUBTASK_GRAPH) if isinstance(arguments, dict) else SUBTASK_GRAPH
    ending = worked.outcome.ending if worked.outcome else ""
    header = trajectory.header.model_copy(update={"graph": graph})
    footer = Footer(ending=ending, usage=Usage(node="all")) if ending else None
    events = [_strip_scope(event) for event in worked.events]
    return Trajectory.model_construct(header=header, events=events, superseded=[], footer=footer)


def _strip_scope(event: Event) -> Event:
    # The event without the outermost scope; `subtask` belongs to the innermost one.
    deeper = event.scope.partition("|")[2]
    return event.model_copy(update={"scope": deeper, "subtask": event.subtask if deeper else ""})


# The timeline, one row a node: nodes whose bars overlap in time worked in parallel.

TIMELINE_WIDTH, LEFT, RIGHT, BOTTOM = 1_080, 132, 96, 24
MAX_LABELLED_ROWS, LABELLED_ROW_HEIGHT, MAX_ROWS_HEIGHT = 40, 22.0, 600
"""Limits of the timeline.

Maximum number of sub-tasks for rows with labels; height of such a row; height of all rows if there are more sub-tasks.
"""

MAX_LABEL_CHARACTERS = 18
"""Maximum number of characters of a row's label."""

Span = tuple[float, float]


class TimelineRow(NamedTuple):
    """Row of a sub-task: height, CSS class, label, bar over the whole time, bars of work, and the time it took."""

    y: float
    look: str
    label: str
    bar: str
    whole: str = ""
    title: str = ""
    end: float = 0.0
    took: str = ""


class Timeline(NamedTuple):
    """Timeline of a task graph in SVG units; without rows if no sub-task was started."""

    rows: Sequence[TimelineRow] = ()
    label: str = ""
    """Description for readers who do not see the drawing."""
    height: int = 0
    seconds: float = 0.0
    resumes: Sequence[float] = ()
    """Positions of the times at which the run was resumed."""
    stroke: float = 0.0
    """Height of a bar."""
    labelled: bool = True
    width: int = TIMELINE_WIDTH
    left: int = LEFT
    right: int = TIMELINE_WIDTH - RIGHT

    @property
    def axis(self) -> int:
        """Height of the axis of time."""
        return self.height - BOTTOM + 4


def timeline(tasks: TaskGraph) -> Timeline:
    """Lay out when each sub-task was worked on, in the order in which they were started."""
    started = sorted((w for w in tasks.nodes.values() if w.spans), key=lambda worked: worked.spans[0])
    if not started:
        return Timeline()
    ends = [end for _, end in (*tasks.supervisor_spans, *(worked.spans[-1] for worked in started))]
    seconds = max(ends) or 1.0
    labelled = len(started) <= MAX_LABELLED_ROWS
    step = LABELLED_ROW_HEIGHT if labelled else min(MAX_ROWS_HEIGHT / len(started), LABELLED_ROW_HEIGHT / 2)

    def x(moment: float) -> float:
        return LEFT + (TIMELINE_WIDTH - LEFT - RIGHT) * moment / seconds

    def bar(spans: Iterable[Span], y: float) -> str:
        placed = sorted((x(start), max(x(end), x(start) + 1)) for start, end in spans)
        return "".join(f"M{start:.1f} {y:.1f}H{end:.1f}" for start, end in _merge_spans(placed))

    rows = []
    if tasks.supervisor_spans:
        rows.append(TimelineRow(step / 2, "restored", "task graph", bar(tasks.supervisor_spans, step / 2)))
    for number, worked in enumerate(started, 1):
        (look, sign), y = NODE_LOOKS[worked.status], (number + 0.5) * step
        start, end = worked.spans[0][0], worked.spans[-1][1]
        title = f"{worked.name}: {format_duration(start)} to {format_duration(end)}"
        label, took = clip_text(f"{sign} {worked.name}", MAX_LABEL_CHARACTERS), format_duration(end - start)
        rows.append(TimelineRow(y, look, label, bar(worked.spans, y), bar([(start, end)], y), title, x(end), took))
    height = round((len(started) + 1) * step) + BOTTOM
    label = f"{len(started)} nodes worked within {format_duration(seconds)}"
    return Timeline(rows, label, height, seconds, list(map(x, tasks.resume_times)), min(step * 0.8, 8), labelled)


def _merge_spans(spans: Iterable[Span]) -> Sequence[Span]:
    # Spans that are drawn less than a unit apart are merged, so that the page of a long run stays small.
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
