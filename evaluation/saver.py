"""The checkpoint saver of the driver: a run goes on from whole checkpoints, and an error's text stays out of them."""

import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.types import ERROR
from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph.evaluation.sound import sound
from certigraph.state.serializing import serializer

LATEST = "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
"""SQL: the latest checkpoint of a thread's graph and of every graph inside a node of it."""


def kinds_of_errors(writes: Sequence[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Of what a node that failed wrote, the kinds of its errors; their texts may hold a key."""
    return [(ERROR, type(value).__name__) for channel, value in writes if channel == ERROR]


class Saver(SqliteSaver):
    """Checkpoints in SQLite, written on the event loop: a write takes less time than the way to a thread and back.

    What is written outlives the process, however that ends. A power cut may cost the latest checkpoints, never the
    file: the run then goes on from an earlier one, and lines that ran ahead of it are superseded.
    """

    _together = False
    """Whether what is being written waits for the checkpoint that follows it and is committed with that."""

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """The saver of the file at `path`, which is made if need be. Raises Fault where it is no database."""
        with closing(sqlite3.connect(path)) as connection:
            saver = cls(connection, serde=serializer())
            with sound(path):
                connection.execute("PRAGMA synchronous = OFF")  # an empty file need not outlive a power cut
                saver.setup()
                connection.execute("PRAGMA synchronous = NORMAL")
            yield saver
            connection.commit()

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """As SqliteSaver's, but for what nodes wrote, which is committed with the checkpoint after it."""
        with super().cursor(transaction and not self._together) as cursor:
            yield cursor

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        for found in self.list(config, filter=filter, before=before, limit=limit):
            yield found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        return self.get_delta_channel_history(config=config, channels=channels)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote; of one that failed only the kind of its error, whose text may hold a key."""
        failures = kinds_of_errors(writes)
        # A run that is interrupted closes the file while LangGraph still hands in writes: they are made again.
        try:
            self._together = not failures
            self.put_writes(config, failures or writes, task_id, task_path)
        except sqlite3.ProgrammingError as error:
            if "closed" not in str(error):
                raise
        finally:
            self._together = False

    async def forget_unfinished(self, thread: str) -> None:
        """Drop what nodes wrote after the latest checkpoint, so that they run again.

        LangGraph would take it up instead, wrongly where a node was cancelled before its router: that has written no
        next node, so that the run would end there. And what a trajectory keeps is what checkpoints hold, no more.
        """
        with self.cursor() as cursor:
            statement = f"DELETE FROM writes WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) IN ({LATEST})"
            cursor.execute(statement, (thread, thread))

    async def inner_steps(self, thread: str) -> dict[str, int]:
        """The superstep of the latest checkpoint of every graph that ran inside a node, by its namespace."""
        asked = "SELECT checkpoint_ns, json_extract(metadata, '$.step') FROM checkpoints"
        asked += f" WHERE thread_id = ? AND checkpoint_ns != '' AND (checkpoint_ns, checkpoint_id) IN ({LATEST})"
        with self.cursor(transaction=False) as cursor:
            return dict(cursor.execute(asked, (thread, thread)).fetchall())
