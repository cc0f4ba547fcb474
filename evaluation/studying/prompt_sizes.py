"""How large every prompt of a run was, and after how many world steps, as its trajectory tells."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from certigraph.adapters.models.scripted import CHARS_PER_TOKEN
from certigraph.evaluation.comparing.cells import Cell, done_cells
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.rows import steps_of
from certigraph.state.trajectory import Trajectory

WHOLE_TASK, SUBTASK, TASK_GRAPH = "whole task", "sub-task", "task graph"
"""What a prompt is about: everything, one sub-task, or TDP's graph of them."""


class Size(NamedTuple):
    """One prompt. `rooms` are the world steps that its task takes, `steps` those taken before it was asked.

    A scripted model counts four characters a token, rounded down to whole tokens.
    """

    kind: str
    rooms: int
    method: str
    about: str
    operator: str
    subtask: str
    steps: int
    tokens: int
    characters: int
    written: int
    """Tokens of the answer."""


def sizes_in(plan: Plan, folder: Path) -> list[Size]:
    """The prompts of all finished runs, in the order in which they were asked."""
    return [size for cell, trajectory in done_cells(plan, folder) for size in sizes_of(cell, trajectory)]


def sizes_of(cell: Cell, trajectory: Trajectory) -> Iterator[Size]:
    """The prompts of one run."""
    kind, _, rooms = cell.task.partition("-")
    nested, steps = any(event.scope for event in trajectory.events), 0
    for event in trajectory.events:
        about = SUBTASK if event.scope else TASK_GRAPH if nested else WHOLE_TASK
        where = (kind, int(rooms), cell.method.name, about, event.node, event.subtask, steps)
        for call in event.calls:
            tokens = int(str(call.get("input_tokens", 0)))
            yield Size(*where, tokens, tokens * CHARS_PER_TOKEN, int(str(call.get("output_tokens", 0))))
        steps += steps_of(event)
