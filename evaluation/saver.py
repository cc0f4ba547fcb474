"""The checkpoint saver of the driver."""

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import ERROR
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class Saver(AsyncSqliteSaver):
    """SQLite checkpoints in which a node that failed or was cancelled has written nothing.

    LangGraph saves what such a node wrote on the way beside its error, and on resume takes that for all it had to
    write: a run cancelled between a node and its router would end there. Of the error the kind is kept, for its text
    may hold a key.
    """

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote; of a failed one, that it failed."""
        failures = [(ERROR, type(value).__name__) for channel, value in writes if channel == ERROR]
        await super().aput_writes(config, failures or writes, task_id, task_path)
