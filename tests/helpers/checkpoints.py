"""The state in a run's checkpoints, as far as its trajectory has it too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph import serializer
from certigraph.graphs import sdp

RESULT_KEYS = ("ending", "ending_reason", "scores", "operators")
"""Keys that the last node, `result`, writes."""


def without_result(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what the last node writes, which a trajectory has in its footer and header."""
    return {key: value for key, value in state.items() if key not in RESULT_KEYS}


def checkpointed(folder: Path, method: Any = sdp) -> dict[str, Any]:
    """The latest state in the checkpoints of a run; the method is the module of its graph."""
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        saver.serde = serializer()
        return without_result(method.build(saver).get_state({"configurable": {"thread_id": folder.name}}).values)
