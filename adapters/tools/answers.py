"""Answers that a person gave to an interrupted graph, each of which is used once.

LangGraph keeps the latest answer with the checkpoint of the outermost graph. If a run is resumed without a new answer,
it hands the old one to whichever question comes next: a decision about one call would decide about another.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import RESUME

from certigraph.adapters.tools.positions import CHECKPOINTER_KEY, CHECKPOINTS_KEY, NAMESPACE_KEY, TASK_KEY, use_saver

NO_TASK = "00000000-0000-0000-0000-000000000000"
"""Task id under which LangGraph keeps what a caller of the graph wrote."""

WAIT_SECONDS = 0.2
"""Seconds for which an answer that LangGraph saves in the background is awaited."""


async def bind_answers(config: RunnableConfig, answers: Sequence[Any]) -> None:
    """Keep the answers that a node got with this node, and take the latest one away from every other question.

    Args:
        config: configuration of the node that asked.
        answers: all answers that it got, in order; empty if only a tool that it called knows them.
    """
    configurable = config.get("configurable", {})
    saver, checkpoints = configurable.get(CHECKPOINTER_KEY), configurable.get(CHECKPOINTS_KEY, {})
    if not isinstance(saver, BaseCheckpointSaver) or "" not in checkpoints:
        return
    thread, own = str(configurable["thread_id"]), str(configurable.get(NAMESPACE_KEY, "")).rpartition("|")[0]
    if answers and own in checkpoints:
        place = {"thread_id": thread, "checkpoint_ns": own, "checkpoint_id": checkpoints[own]}
        task = str(configurable.get(TASK_KEY, ""))
        await use_saver(saver, "put_writes", {"configurable": place}, [(RESUME, list(answers))], task)
    place = {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": checkpoints[""]}
    if await _read_latest(saver, place) is not None:
        await use_saver(saver, "put_writes", {"configurable": place}, [(RESUME, None)], NO_TASK)


async def _read_latest(saver: BaseCheckpointSaver[Any], place: dict[str, str]) -> Any:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while True:
        found = await use_saver(saver, "get_tuple", {"configurable": place})
        writes = found.pending_writes or () if found else ()
        kept = [value for task, channel, value in writes if (task, channel) == (NO_TASK, RESUME)]
        if kept or loop.time() > deadline:  # an answer that names its question is not kept there
            return kept[0] if kept else None
        await asyncio.sleep(0.01)
