"""Threads that were saved by a clock that was ahead: their new checkpoints would not count.

LangGraph makes the ids of checkpoints of the time, and goes on from the greatest one.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.base.id import UUID, uuid6

from certigraph.adapters.tools.positions import CHECKPOINTER_KEY
from certigraph.state.endings import Fault

MAX_SKEW = 5.0
"""Seconds for which a run waits until the clock has reached that of the process that saved the thread before."""

UUID_EPOCH = 0x01B21DD213814000
"""Time of 1970 in the units of a UUID, 100 nanoseconds from 1582."""


def check_thread_clock(graph: Any, config: RunnableConfig | None) -> None:
    """Check that what a run of a graph saves will be the latest of its thread.

    Raises:
        Fault: ("environment") the thread was last saved by a clock that was ahead of this one.
    """
    if place := _find_place(graph, config):
        time.sleep(_read_lead(graph.checkpointer.get_tuple(place)))


async def acheck_thread_clock(graph: Any, config: RunnableConfig | None) -> None:
    """Asynchronous version of `check_thread_clock`."""
    if place := _find_place(graph, config):
        await asyncio.sleep(_read_lead(await graph.checkpointer.aget_tuple(place)))


def _find_place(graph: Any, config: RunnableConfig | None) -> RunnableConfig | None:
    """Return where the graph's own checkpointer has the thread; None in another graph, which has the checkpointer."""
    configurable = merge_configs(graph.config, ensure_config(config)).get("configurable", {})
    if not isinstance(graph.checkpointer, BaseCheckpointSaver) or CHECKPOINTER_KEY in configurable:
        return None
    return {"configurable": {"thread_id": configurable["thread_id"], "checkpoint_ns": ""}}


def _read_lead(latest: CheckpointTuple | None) -> float:
    """Return by how many seconds the latest checkpoint of a thread is ahead of the next one."""
    saved, following = _time_of(latest.checkpoint["id"] if latest else ""), _time_of(str(uuid6()))
    lead = max(0.0, saved - following)
    if latest and lead > MAX_SKEW:
        then, now = (datetime.fromtimestamp(one, UTC).isoformat(" ", "seconds") for one in (saved, following))
        thread = latest.config["configurable"]["thread_id"]
        raise Fault(
            "environment",
            f"thread {thread!r} was last saved at {then}, and by this machine's clock it is {now}: LangGraph would go "
            "on from that checkpoint again and again, whatever is saved now; correct the clock, or use another thread",
        )
    return lead


def _time_of(checkpoint_id: str) -> float:
    """Return the time in an id of LangGraph's, in seconds from 1970; 0 if it has another form."""
    try:
        identifier = UUID(checkpoint_id)
    except ValueError:
        return 0.0
    return (identifier.time - UUID_EPOCH) / 1e7 if identifier.version == 6 else 0.0
