"""Every graph under strict msgpack: cut off, gone on with, and read back. A program: the switch is read at import."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.worlds.study_world import Riddles

from certigraph.nodes.specs import Spec
from certigraph.runtime.checkpoints import SqliteCheckpointSaver
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import GRAPHS, REWARD_GRAPHS, SEARCH_GRAPHS, build_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Record
from certigraph.state.trajectory import TrajectoryLine

VARYING = {"episode", "usage", "spent"}
"""What differs from run to run."""

SWAPS = {"reward_head": {"rate": Spec(name="constant")}}
"""What a graph cannot do without: trained heads are a file."""


def shape(value: Any) -> Any:
    """The types that a value is made of, down to plain ones."""
    if isinstance(value, Record):
        return type(value).__name__, {name: shape(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shape(part) for part in value]
    return type(value).__name__


def cut_off_after(events: int) -> Callable[[TrajectoryLine], None]:
    """A listener that fails once, at the event of that number."""
    seen = [0]

    def listener(line: TrajectoryLine) -> None:
        seen[0] += line.type == "event"
        if line.type == "event" and seen[0] == events:
            raise ConnectionAbortedError

    return listener


def kept(graph: AnyGraph, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state as a graph reads it from its checkpoints, and the channels as they come without its types."""
    config: Any = {"configurable": {"thread_id": folder.name}}
    with SqliteCheckpointSaver.open(folder / "checkpoints.sqlite") as saver:
        found = saver.get_tuple(config)
        assert found
        channels = found.checkpoint["channel_values"]
        whole = {name: value for name, value in channels.items() if not type(value).__module__.startswith("langgraph")}
        return graph.copy({"checkpointer": saver}).get_state(config).values, whole


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Both states hold the same where both have it, in values and in types."""
    for key in (one.keys() & other.keys()) - VARYING:
        first, second = (sorted(s[key], key=str) if key == "branches" else s[key] for s in (one, other))
        assert shape(first) == shape(second), (key, shape(first), shape(second))
        assert first == second, (key, first, second)


def checked(name: str, out: Path) -> None:
    """Run one graph whole and cut off, and compare."""
    graph = build_graph(name, SWAPS.get(name, {}))
    benchmark: Any = (
        Riddles() if name in SEARCH_GRAPHS else "rewardprediction" if name in REWARD_GRAPHS else "blocksworld"
    )
    task = "looped" if name in SEARCH_GRAPHS else None if name in REWARD_GRAPHS else "3-0"
    whole = run(graph, benchmark, task, out=out)
    cut = run(graph, benchmark, task, out=out, listener=cut_off_after(len(whole.trajectory.events) // 2))
    assert cut.ending == "error:operator", cut.ending
    result: Result = resume(cut.folder, benchmark=None if isinstance(benchmark, str) else benchmark)
    assert (result.ending, result.scores) == (whole.ending, whole.scores)
    state, channels = kept(graph, result.folder)
    same(state, result.state)
    same(state, whole.state)
    same(channels, result.state)
    assert {"task", "history"} <= state.keys()


if __name__ == "__main__":
    for graph_name in GRAPHS:
        checked(graph_name, Path(sys.argv[1]))
        print(graph_name, flush=True)
