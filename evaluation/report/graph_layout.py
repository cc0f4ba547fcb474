"""Where the boxes of a task graph stand: a row a level, wide levels broken into several rows of the same width."""

from typing import NamedTuple

from certigraph.evaluation.report.task_graph import TaskGraph
from certigraph.evaluation.report.worked import Worked

WIDTH, MARGIN = 1_080, 36
"""Units across, and what is left free at both sides for the edges that pass a row."""

MOST_ROOMY = 40
"""Nodes up to which a box has room for the specification; beyond, it has the id alone."""

WIDEST = 330


class Shape(NamedTuple):
    """Boxes in a row, height of one, and the space around it."""

    most: int
    height: int
    across: int
    down: int


ROOMY, DENSE = Shape(4, 68, 22, 38), Shape(9, 26, 14, 24)


class Box(NamedTuple):
    """The rectangle of a node, and the row that it stands in."""

    worked: Worked
    x: float
    y: float
    width: float
    height: float
    row: int

    @property
    def middle(self) -> float:
        """The x of its middle."""
        return self.x + self.width / 2


class Layout(NamedTuple):
    """All boxes by id; `roomy` where they have room for a specification."""

    boxes: dict[str, Box]
    height: float
    roomy: bool


def lay_out(tasks: TaskGraph) -> Layout:
    """Place every node below those that it needs, near the middle of them."""
    roomy = len(tasks.nodes) <= MOST_ROOMY
    shape, boxes, row = ROOMY if roomy else DENSE, dict[str, Box](), 0
    widest = min(max(map(len, tasks.levels()), default=1), shape.most)
    width = min((WIDTH - 2 * MARGIN - shape.across * (widest - 1)) / widest, WIDEST)
    for level in tasks.levels():
        level.sort(key=lambda worked: _above(worked, boxes))
        for start in range(0, len(level), shape.most):
            boxes |= _row(level[start : start + shape.most], row, width, shape)
            row += 1
    return Layout(boxes, row * (shape.height + shape.down) - shape.down + 8, roomy)


def _row(level: list[Worked], row: int, width: float, shape: Shape) -> dict[str, Box]:
    whole = len(level) * (width + shape.across) - shape.across
    left, y = (WIDTH - whole) / 2, 4.0 + row * (shape.height + shape.down)
    places = (left + number * (width + shape.across) for number in range(len(level)))
    return {w.node.id: Box(w, x, y, width, shape.height, row) for w, x in zip(level, places, strict=True)}


def _above(worked: Worked, boxes: dict[str, Box]) -> float:
    above = [boxes[need].middle for need in worked.node.needs if need in boxes]
    return sum(above) / len(above) if above else WIDTH / 2
