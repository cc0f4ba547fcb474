"""Checkpoint savers of the driver."""

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.serde.types import ERROR
from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph.runtime.files import lacks_space, sound
from certigraph.state.records import Fault
from certigraph.state.serialization import serializer

AWAY = "the checkpoint server is away"
"""How the message of a run begins that ended because its checkpoints could no longer be kept."""

LATEST = "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
"""SQL: the latest checkpoint of a thread's graph and of every graph inside a node of it."""


_GENERATED = "_last_v6_timestamp"
"""LangGraph's name for the time of the last checkpoint id that this process made; the next one is later."""

_LATEST_TIME = 0xE0 << 52
"""The year 4778, in the units of a checkpoint id's time. An id with a later one is none that a clock led to."""

_GENERATING = threading.Lock()


class CheckpointOrder:
    """Makes the ids of a thread's checkpoints increase in the order in which they are written, whatever the clock says.

    To LangGraph the latest checkpoint is the one with the largest id, and an id begins with the time of the machine
    that made it. Without this, a clock that was set back, or another machine's that is behind, would hide new
    checkpoints behind older ones.
    """

    def __init__(self) -> None:
        self._newest: dict[str, str] = {}

    def continue_from(self, newest: Mapping[str, str]) -> None:
        """Have the next ids exceed those that are stored.

        Args:
            newest: the largest stored id by namespace.

        Raises:
            ValueError: one of them is no id of LangGraph's.
        """
        self._newest = dict(newest)
        for checkpoint_id in newest.values():
            _generate_after(_time_of(checkpoint_id))

    def check(self, config: RunnableConfig, checkpoint: Checkpoint) -> None:
        """Make sure that a checkpoint about to be stored will be the latest one of its namespace.

        Raises:
            Fault: ("data") it would not be.
        """
        namespace, checkpoint_id = config["configurable"].get("checkpoint_ns", ""), checkpoint["id"]
        newest = self._newest.get(namespace, "")
        if checkpoint_id < newest:
            at = datetime(1582, 10, 15, tzinfo=UTC) + timedelta(microseconds=_time_of(newest) // 10)
            told = f"the clock of this machine is behind the latest checkpoint of the run, which is of {at:%F %T} UTC"
            raise Fault("data", f"{told}: set the clock, then go on with the run by `certigraph resume`")
        self._newest[namespace] = checkpoint_id


def _time_of(checkpoint_id: str) -> int:
    """The time in a checkpoint's id (a UUID of version 6), in units of 100 ns since 1582-10-15.

    Raises:
        ValueError: it has none.
    """
    value = UUID(checkpoint_id).int
    time = (value >> 80) << 12 | (value >> 64) & 0xFFF
    if time >= _LATEST_TIME:
        raise ValueError(f"{checkpoint_id} is no id of a checkpoint")
    return time


def _generate_after(time: int) -> None:
    """Make every id that this process generates from now on later than `time`."""
    generator = vars(checkpoint_ids)
    with _GENERATING:
        if (generator.get(_GENERATED) or 0) < time:
            generator[_GENERATED] = time


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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._order = CheckpointOrder()

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
            try:
                connection.commit()
            except sqlite3.OperationalError as error:
                if not lacks_space(error):  # what nodes wrote after the latest checkpoint they write again
                    raise

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
        """As `put`. Raises Fault where the checkpoint would not be the latest one of its graph."""
        self._order.check(config, checkpoint)
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

    async def prepare_resume(self, thread: str) -> None:
        """Make sure that new checkpoints follow the stored ones, and drop what nodes wrote after the latest one.

        LangGraph would take that up instead of running the nodes again, wrongly where a node was cancelled before its
        router: that has written no next node, so that the run would end there. And what a trajectory keeps is what
        checkpoints hold, no more.

        Raises:
            ValueError: the id of a checkpoint is none of LangGraph's.
        """
        with self.cursor() as cursor:
            self._order.continue_from(dict(cursor.execute(LATEST, (thread,)).fetchall()))
            statement = f"DELETE FROM writes WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) IN ({LATEST})"
            cursor.execute(statement, (thread, thread))

    async def inner_steps(self, thread: str) -> dict[str, int]:
        """The superstep of the latest checkpoint of every graph that ran inside a node, by its namespace."""
        asked = "SELECT checkpoint_ns, json_extract(metadata, '$.step') FROM checkpoints"
        asked += f" WHERE thread_id = ? AND checkpoint_ns != '' AND (checkpoint_ns, checkpoint_id) IN ({LATEST})"
        with self.cursor(transaction=False) as cursor:
            return dict(cursor.execute(asked, (thread, thread)).fetchall())
