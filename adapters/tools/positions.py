"""Position of a graph in the graphs around it: equal after a replay or a fork, another one for every new request.

LangGraph names the run of a nested graph by a task id that a replay changes. What a replay keeps are the ancestors of
the checkpoints: the input that a turn began with, and how often a node ran since. The position is made of them.
"""

import asyncio
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS

from certigraph.adapters.processes import is_invoked, run_in_thread
from certigraph.state.endings import Fault

CHECKPOINTER_KEY = "__pregel_checkpointer"
"""Key under which LangGraph keeps a run's checkpointer in `configurable`."""

DURABILITY_KEY = "__pregel_durability"
"""Key under which LangGraph keeps the durability that the caller of the outermost graph chose, if the caller did."""

SEND_KEY = "__certigraph_send"
"""Key in `configurable`: number of the `Send` that started a nested graph; None if no `Send` did."""

CHECKPOINTS_KEY, NAMESPACE_KEY = "checkpoint_map", "checkpoint_ns"
"""Keys in `configurable`: checkpoints of the graphs around a node by namespace, and the namespace of the node."""

TASK_KEY = "__pregel_task_id"
"""Key in `configurable`: id of the run of a node."""

PUSH = "__pregel_push"
"""First part of the path of a node that was started by `Send`."""

RUNTIME_KEY = "__pregel_runtime"
"""Key under which LangGraph keeps a run's runtime in `configurable`."""

SAVE_SECONDS = 30.0
"""Seconds for which a checkpoint that LangGraph saves in the background is awaited."""


async def use_saver(saver: BaseCheckpointSaver[Any], method: str, *args: Any) -> Any:
    """Call a method of a checkpointer: the synchronous one if the graph was invoked, since it may lack the other."""
    if is_invoked():
        return await run_in_thread(getattr(saver, method), *args)
    return await getattr(saver, f"a{method}")(*args)


def require_checkpointer(purpose: str, config: RunnableConfig) -> None:
    """Check that the graph of a node has a checkpointer, without which nobody could resume it after an interrupt.

    Raises:
        Fault: ("operator") it has none.
    """
    if not config.get("configurable", {}).get(CHECKPOINTER_KEY):
        fix = "give the outermost graph one: agent(..., checkpointer=InMemorySaver(serde=certigraph.serializer()))"
        raise Fault("operator", f"{purpose} interrupts the run, which needs a checkpointer to go on: {fix}")


def with_send(config: RunnableConfig | None) -> RunnableConfig:
    """Return the configuration of a graph's run with the number of the `Send` that started it."""
    given = config or RunnableConfig()
    configurable = given.get("configurable") or {}
    if CHECKPOINTER_KEY not in configurable:
        return given
    path: Any = (given.get("metadata") or {}).get("langgraph_path") or [""]
    number = path[1] if path[0] == PUSH else None
    return {**given, "configurable": {**configurable, SEND_KEY: number}}


class _Level(NamedTuple):
    """A graph around a node, and the node in it that leads inwards."""

    graph: str
    """Namespace of the graph."""
    node: str
    task: str
    """Id of the run of the node; empty if its graph keeps its state between runs."""
    calls: str
    """Which call it is, if the node calls nested graphs several times."""


async def find_position(config: RunnableConfig) -> str:
    """Return the position of the graph whose node runs; empty for an outermost graph.

    Args:
        config: configuration of the node.

    Raises:
        Fault: ("environment") a checkpoint of a graph around it is not saved.
    """
    configurable = config.get("configurable", {})
    levels, saver = _levels_of(configurable.get(NAMESPACE_KEY, "")), configurable.get(CHECKPOINTER_KEY)
    if not levels or not isinstance(saver, BaseCheckpointSaver):
        return ""
    parts = []
    for number, level in enumerate(levels, 1):
        checkpoint = configurable.get(CHECKPOINTS_KEY, {}).get(level.graph)
        if checkpoint is None:  # a task of LangGraph's functional interface
            parts.append(f"{level.node}@{level.task}{level.calls}")
            continue
        begin, runs, sends, sent = await _count_runs(saver, configurable["thread_id"], level, checkpoint)
        innermost = number == len(levels)
        number_of_send = configurable.get(SEND_KEY) if innermost else level.task
        which = f".{number_of_send}" if sent else ""
        parts.append(f"{'' if level.graph else begin}/{level.node}@{runs}.{sends}{which}{level.calls}")
    return "".join(parts)


def _levels_of(namespace: str) -> list[_Level]:
    *around, _ = namespace.split("|")
    levels: list[_Level] = []
    for index, part in enumerate(around):
        if part.isdigit() and levels:
            levels[-1] = levels[-1]._replace(calls=f"{levels[-1].calls}|{part}")
        else:
            node, _, task = part.partition(":")
            levels.append(_Level("|".join(around[:index]), node, task, ""))
    return levels


async def _count_runs(
    saver: BaseCheckpointSaver[Any], thread: str, level: _Level, checkpoint: str
) -> tuple[str, int, int, bool]:
    """Return where the turn of a graph began, how often a node ran since, and whether a `Send` started it now."""
    seen, sends, sent = set[str](), 0, None
    while True:
        found = await await_checkpoint(saver, thread, level.graph, checkpoint)
        if versions := found.checkpoint["versions_seen"].get(level.node):
            seen.add(repr(sorted(versions.items())))
        waiting = any(one.node == level.node for one in found.checkpoint["channel_values"].get(TASKS, ()))
        sent = waiting if sent is None else sent
        sends += waiting and found.metadata.get("source") == "loop"
        before = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        if found.metadata.get("source") == "input" or not before:
            return found.checkpoint["id"], len(seen), sends, sent
        checkpoint = before


async def await_checkpoint(
    saver: BaseCheckpointSaver[Any], thread: str, namespace: str, checkpoint: str
) -> CheckpointTuple:
    """Return a checkpoint as soon as it is saved.

    Raises:
        Fault: ("environment") it is not saved within `SAVE_SECONDS`.
    """
    stateful = "|".join(part.partition(":")[0] for part in namespace.split("|"))
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + SAVE_SECONDS, 0.001
    while True:
        for name in dict.fromkeys((namespace, stateful)):  # a graph with `checkpointer=True` has no task ids
            place = {"thread_id": str(thread), "checkpoint_ns": name, "checkpoint_id": checkpoint}
            found: CheckpointTuple | None = await use_saver(saver, "get_tuple", {"configurable": place})
            if found is not None:
                return found
        if loop.time() > deadline:
            reason = f"the checkpoint before a call was not saved within {SAVE_SECONDS:g} seconds"
            raise Fault(
                "environment", f"{reason}, so that its effect might happen twice: invoke with durability='sync'"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)
