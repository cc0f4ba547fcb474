"""The scripted agent of the corridor: whatever it is asked, in the form of any graph's question."""

import re
from collections.abc import Mapping
from typing import Any

from certigraph.adapters.models.instances import minimal
from certigraph.adapters.models.situation import current_situation
from certigraph.state.searching import FINISH, SEARCH

DEEP, WIDE = "deep", "wide"
"""Kinds of task: one sub-task of all rooms, or one of every four."""

STRETCH = 4
"""Rooms of a wide task's sub-tasks."""

RANGE = re.compile(r"rooms (\d+) to (\d+)")


def respond(prompt: str, schema: Mapping[str, Any]) -> Any:
    """The answer that fits where the run stands.

    Raises:
        LookupError: asked outside a run.
    """
    situation, fields = current_situation(), schema.get("properties", {})
    if situation is None:
        raise LookupError("the corridor's agent answers inside a run: certigraph study tdp")
    task, turns = situation.state["task"], len(situation.state.get("turns", ()))
    first, last = map(int, RANGE.search(task.goal).groups())  # type: ignore[union-attr]
    left = range(first + turns, last + 1)
    if "nodes" in fields:
        return {"nodes": _nodes(task.id.partition("-")[0], last)}
    if "steps" in fields:
        return {"steps": [f"search[room {room:02}]" for room in left] or ["finish[the last word]"]}
    if "tool" in fields:
        return _move(left, last)
    if "status" in fields:
        return _judgement(left, last)
    return minimal(dict(schema))


def _nodes(kind: str, rooms: int) -> list[dict[str, Any]]:
    """Sub-tasks in a row, each of which needs the one before."""
    size = STRETCH if kind == WIDE else rooms
    firsts = range(1, rooms + 1, size)
    return [
        {
            "id": f"n{number:02}",
            "task": f"Read the words of rooms {first:02} to {min(first + size - 1, rooms):02}, in order.",
            "needs": [f"n{number - 1:02}"] if number else [],
        }
        for number, first in enumerate(firsts)
    ]


def _move(left: range, last: int) -> dict[str, str]:
    if left:
        return {"thought": "The next room.", "tool": SEARCH, "text": f"room {left[0]:02}"}
    return {"thought": "All rooms are read.", "tool": FINISH, "text": f"word-{last:02}"}


def _judgement(left: range, last: int) -> dict[str, Any]:
    status = "needs_more_steps" if left else "completed"
    result = f"The last word was word-{last:02}."
    return {"reason": "As planned.", "status": status, "off_plan": False, "guidance": "Go on.", "result": result}
