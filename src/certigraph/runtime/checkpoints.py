"""Checkpoint saver for SQLite, and the ordering of checkpoint ids that the Postgres saver uses too."""

import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self
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
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph.adapters.files import replace_file
from certigraph.adapters.tools.effects import EFFECTS_NAMESPACE
from certigraph.runtime.files import is_disk_full, translate_database_errors
from certigraph.state.endings import Fault
from certigraph.state.trajectory import serializer

UNREACHABLE_SERVER = "the checkpoint server cannot be reached"
"""Beginning of the message of a run that ended because its checkpoints could no longer be saved."""

OF_GRAPHS = f"checkpoint_ns <> '{EFFECTS_NAMESPACE}'"
"""SQL condition for checkpoints of graphs. The others are entries of the effects ledger, whose ids hold no time."""

OF_RESULTS = f"channel NOT IN ('{INTERRUPT}', '{RESUME}')"
"""SQL condition for what nodes wrote, without questions to a person and the answers to them."""

LATEST_QUERY = f"""
SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND {OF_GRAPHS} GROUP BY checkpoint_ns
"""
"""SQL query: id of a thread's latest checkpoint in every namespace. The graph and each graph inside a node have one."""

DELETE_WRITES = f"""
DELETE FROM writes WHERE thread_id = ? AND (checkpoint_ns, checkpoint_id) IN ({LATEST_QUERY}) AND {OF_RESULTS}
"""
"""SQL statement that deletes what nodes wrote after the latest checkpoints, but no question and no answer to one."""


_TIMESTAMP_ATTRIBUTE = "_last_v6_timestamp"
"""LangGraph's name for the time of the last checkpoint id that this process generated. The next id is later."""

_MAX_TIME = 0xE0 << 52
"""The year 4778, in the time unit of checkpoint ids. No clock generates a later id."""

_GENERATION_LOCK = threading.Lock()


class CheckpointOrder:
    """Increasing checkpoint ids of a thread in the order of writing, whatever the clock of the machine shows.

    LangGraph takes the checkpoint with the largest id for the latest one, and an id begins with the time of the machine
    that generated it. Without this class, a clock that was set back, or the slower clock of another machine, would hide
    new checkpoints behind older ones.
    """

    def __init__(self) -> None:
        self._newest: dict[str, str] = {}

    def continue_from(self, newest: Mapping[str, str]) -> None:
        """Make sure that the next checkpoint ids are larger than those that are stored already.

        Args:
            newest: the largest stored id by namespace.

        Raises:
            ValueError: a stored id is not a LangGraph checkpoint id.
        """
        self._newest = dict(newest)
        for checkpoint_id in newest.values():
            _generate_after(_time_of(checkpoint_id))

    def check(self, config: RunnableConfig, checkpoint: Checkpoint) -> None:
        """Check that a checkpoint that is about to be stored will be the latest one of its namespace.

        Raises:
            Fault: ("data") it would not, because the clock of this machine is behind.
        """
        namespace, checkpoint_id = config["configurable"].get("checkpoint_ns", ""), checkpoint["id"]
        if namespace == EFFECTS_NAMESPACE:
            return
        newest = self._newest.get(namespace, "")
        if checkpoint_id < newest:
            at = datetime(1582, 10, 15, tzinfo=UTC) + timedelta(microseconds=_time_of(newest) // 10)
            reason = f"the clock of this machine is behind the latest checkpoint of the run, which is of {at:%F %T} UTC"
            raise Fault("data", f"{reason}: set the clock, then resume the run with `certigraph resume`")
        self._newest[namespace] = checkpoint_id


def _time_of(checkpoint_id: str) -> int:
    """Return the time in a checkpoint id (a UUID of version 6), in units of 100 ns since 1582-10-15.

    Raises:
        ValueError: the text is not a UUID, or its time is beyond `_MAX_TIME`.
    """
    value = UUID(checkpoint_id).int
    time = (value >> 80) << 12 | (value >> 64) & 0xFFF
    if time >= _MAX_TIME:
        raise ValueError(f"{checkpoint_id} is not a checkpoint id")
    return time


def _generate_after(time: int) -> None:
    """Make every checkpoint id that this process generates from now on later than `time`."""
    generator = vars(checkpoint_ids)
    with _GENERATION_LOCK:
        if (generator.get(_TIMESTAMP_ATTRIBUTE) or 0) < time:
            generator[_TIMESTAMP_ATTRIBUTE] = time


def error_types_of(writes: Sequence[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Return the writes of a failed node with each error replaced by its type.

    The text of an error may hold an API key. For a node that did not fail, the list is empty.
    """
    return [(ERROR, type(value).__name__) for channel, value in writes if channel == ERROR]


@cache
def _empty_file() -> bytes:
    """Return the file of a saver that has saved nothing. Copying it is faster than creating its tables."""
    with closing(sqlite3.connect(":memory:")) as connection:
        SqliteSaver(connection).setup()
        return connection.serialize()


class _NodeWrites(NamedTuple):
    """What a node wrote: the arguments of `put_writes`."""

    config: RunnableConfig
    writes: Sequence[tuple[str, Any]]
    task_id: str
    task_path: str

    def without_values_of(self, config: RunnableConfig, checkpoint: Checkpoint) -> "_NodeWrites":
        """Return the writes without those that the checkpoint has, if it is the next one of their graph."""
        place, after = self.config["configurable"], config["configurable"]
        if any(place.get(key) != after.get(key) for key in ("thread_id", "checkpoint_ns", "checkpoint_id")):
            return self
        known = checkpoint["channel_values"]
        return self._replace(writes=[write for write in self.writes if write[0] not in known])


class SqliteCheckpointSaver(SqliteSaver):
    """Checkpoint saver for SQLite that writes on the event loop, since a write is faster than a switch of threads.

    A checkpoint survives the death of the process. A power cut may lose the latest ones but leaves the file readable.
    The run is then resumed from an earlier checkpoint, and the work after it is done again.

    What nodes write is saved together with the next checkpoint, and only what that checkpoint does not have itself.
    Where none follows, because a node interrupts the run, all of it is saved.
    """

    _is_part = False
    """Whether the current write is a part of a transaction, so that it is not committed alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._order = CheckpointOrder()
        self._waiting: list[_NodeWrites] = []

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open a saver on the file at `path`, which is created if it is missing.

        Raises:
            Fault: ("data") the file is not a database.
        """
        with translate_database_errors(path):
            if new := not path.exists():
                with replace_file(path) as draft:
                    draft.write_bytes(_empty_file())
        with closing(sqlite3.connect(path)) as connection:
            saver = cls(connection, serde=serializer())
            with translate_database_errors(path):
                connection.execute("PRAGMA synchronous = OFF")  # an empty file need not survive a power cut
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                saver.is_setup = new
                saver.setup()
            yield saver
            try:
                saver.save_waiting()
            except sqlite3.OperationalError as error:
                if not is_disk_full(error):  # nodes repeat what they wrote after the latest checkpoint
                    raise

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """Open a cursor as `SqliteSaver` does. What nodes wrote is saved first, in the same transaction."""
        if self._waiting:
            self._write_waiting()
        with super().cursor(transaction and not self._is_part) as cursor:
            yield cursor

    def save_waiting(self) -> None:
        """Save what nodes wrote since the latest checkpoint."""
        with self.cursor():
            pass

    def _write_waiting(self) -> None:
        waiting, self._waiting, self._is_part = self._waiting, [], True
        try:
            for one in waiting:
                if one.writes:
                    self.put_writes(*one)
        finally:
            self._is_part = False

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Asynchronous version of `get_tuple`."""
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Asynchronous version of `list`."""
        for checkpoint in self.list(config, filter=filter, before=before, limit=limit):
            yield checkpoint

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Asynchronous version of `get_delta_channel_history`."""
        return self.get_delta_channel_history(config=config, channels=channels)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint as `put` does. Raises Fault if it would not be the latest one of its graph."""
        self._order.check(config, checkpoint)
        if config["configurable"].get("checkpoint_ns") == EFFECTS_NAMESPACE:
            with self._durably():
                return self.put(config, checkpoint, metadata, new_versions)
        self._waiting = [one.without_values_of(config, checkpoint) for one in self._waiting]
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote with the next checkpoint. Of a node that failed, save only the type of its error, now.

        The text of an error may hold an API key. The effects ledger's entry of a call is on disk before the call
        starts, with everything that was saved before, and survives a power cut.
        """
        if config["configurable"].get("checkpoint_ns") == EFFECTS_NAMESPACE:
            with self._durably():
                self.put_writes(config, writes, task_id)
            return
        failures = error_types_of(writes)
        self._waiting.append(_NodeWrites(config, failures or writes, task_id, task_path))
        if not failures:
            return
        # An interrupted run closes the file while LangGraph still hands in writes; the resumed run repeats them.
        try:
            self.save_waiting()
        except sqlite3.ProgrammingError as error:
            if "closed" not in str(error):
                raise

    @contextmanager
    def _durably(self) -> Iterator[None]:
        self.save_waiting()  # a transaction keeps the setting that it began with
        self.conn.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self.conn.execute("PRAGMA synchronous = NORMAL")

    async def prepare_resume(self, thread: str, *, waited: bool = False) -> None:
        """Make new checkpoints of a thread follow the stored ones, and delete what nodes wrote after the latest one.

        LangGraph would use what nodes wrote after the latest checkpoint instead of running the nodes again. That is
        wrong for a node that was cancelled before its conditional edge, which has written no next node: the run would
        end there. It would also leave updates in the state that the trajectory counts as superseded. Questions and the
        answers to earlier ones are kept: a node that puts several questions is not answered by the wrong one.

        Args:
            thread: id of the thread.
            waited: whether the run had stopped at a question; what nodes wrote that ran parallel to it is then complete
                and is kept.

        Raises:
            ValueError: a stored checkpoint id is not one of LangGraph's.
        """
        with self.cursor() as cursor:
            self._order.continue_from(dict(cursor.execute(LATEST_QUERY, (thread,)).fetchall()))
            if not waited:
                cursor.execute(DELETE_WRITES, (thread, thread))

    async def inner_steps(self, thread: str) -> dict[str, int]:
        """Return the superstep of the latest checkpoint of every graph inside a node, by namespace of the graph."""
        query = "SELECT checkpoint_ns, json_extract(metadata, '$.step') FROM checkpoints"
        query += f" WHERE thread_id = ? AND checkpoint_ns != '' AND (checkpoint_ns, checkpoint_id) IN ({LATEST_QUERY})"
        with self.cursor(transaction=False) as cursor:
            return dict(cursor.execute(query, (thread, thread)).fetchall())
