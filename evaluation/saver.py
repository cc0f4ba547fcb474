"""The checkpoint saver of the driver: a run goes on from whole checkpoints, and an error's text stays out of them."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import ERROR
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class Saver(AsyncSqliteSaver):
    """Checkpoints in SQLite."""

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote; of one that failed only the kind of its error, whose text may hold a key."""
        failures = [(ERROR, type(value).__name__) for channel, value in writes if channel == ERROR]
        # A run that is interrupted closes the file while LangGraph still hands in writes: they are made again.
        try:
            await super().aput_writes(config, failures or writes, task_id, task_path)
        except sqlite3.ProgrammingError as error:
            if "closed" not in str(error):
                raise

    async def forget_unfinished(self, thread: str) -> None:
        """Drop what nodes wrote after the latest checkpoint, so that they run again.

        LangGraph would take it up instead, in two cases wrongly: a node cancelled before its router has written no
        next node, so that the run would end there; and a line may be missing in the trajectory for what it wrote.
        """
        await self.setup()
        latest = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
        async with self.lock:
            statement = f"DELETE FROM writes WHERE thread_id = ? AND checkpoint_id = ({latest})"
            await self.conn.execute(statement, (thread, thread))
            await self.conn.commit()
