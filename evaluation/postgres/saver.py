"""The saver of runs whose checkpoints are on a Postgres server; it does what `evaluation.saver.Saver` does."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from certigraph.evaluation.postgres.lease import Lease
from certigraph.evaluation.postgres.owners import Connection
from certigraph.evaluation.saver import CheckpointOrder, kinds_of_errors
from certigraph.state.serializing import serializer

T = TypeVar("T")

LATEST = """
SELECT checkpoint_ns, max(checkpoint_id) AS checkpoint_id FROM checkpoints WHERE thread_id = %s GROUP BY checkpoint_ns
"""
"""SQL: the latest checkpoint of a thread's graph and of every graph inside a node of it."""

FORGET = f"DELETE FROM checkpoint_writes WHERE thread_id = %s AND (checkpoint_ns, checkpoint_id) IN ({LATEST})"

INNER = f"""
SELECT checkpoint_ns, (metadata ->> 'step')::int AS step FROM checkpoints
WHERE thread_id = %s AND checkpoint_ns <> '' AND (checkpoint_ns, checkpoint_id) IN ({LATEST})
"""


class PostgresSaver(BaseCheckpointSaver[str]):
    """LangGraph's saver on the connection of a lease, which may be another one by the next call."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(serde=serializer())
        self._lease, self._order = lease, CheckpointOrder()

    async def _asked(self, call: Callable[[AsyncPostgresSaver], Awaitable[T]]) -> T:
        return await self._lease.use(lambda connection: call(AsyncPostgresSaver(connection, serde=self.serde)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint, by default the thread's latest."""
        return await self._asked(lambda saver: saver.aget_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, the latest first."""

        async def listed(saver: AsyncPostgresSaver) -> list[CheckpointTuple]:
            return [found async for found in saver.alist(config, filter=filter, before=before, limit=limit)]

        for found in await self._asked(listed):
            yield found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to append-only channels up to a checkpoint."""
        return await self._asked(lambda saver: saver.aget_delta_channel_history(config=config, channels=channels))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint. Raises Fault where it would not be the latest one of its graph."""
        self._order.check(config, checkpoint)
        return await self._asked(lambda saver: saver.aput(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote; of one that failed only the kind of its error, whose text may hold a key."""
        kept = kinds_of_errors(writes) or writes
        await self._asked(lambda saver: saver.aput_writes(config, kept, task_id, task_path))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A channel's version after `current`: the later sorts last, and a crash's leftovers are never taken for it."""
        number = int(current.partition(".")[0]) if current else 0
        return f"{number + 1:032}.{uuid.uuid4().hex}"

    async def prepare_resume(self, thread: str) -> None:
        """Make sure that new checkpoints follow the stored ones, and drop what nodes wrote after the latest one.

        `Saver` says why. Raises ValueError where the id of a checkpoint is none of LangGraph's.
        """

        async def prepare(connection: Connection) -> dict[str, str]:
            await connection.execute(FORGET, (thread, thread))
            rows = await (await connection.execute(LATEST, (thread,))).fetchall()
            return {row["checkpoint_ns"]: row["checkpoint_id"] for row in rows}

        self._order.continue_from(await self._lease.use(prepare))

    async def inner_steps(self, thread: str) -> dict[str, int]:
        """The superstep of the latest checkpoint of every graph that ran inside a node, by its namespace."""

        async def steps(connection: Connection) -> dict[str, int]:
            rows = await (await connection.execute(INNER, (thread, thread))).fetchall()
            return {row["checkpoint_ns"]: row["step"] for row in rows}

        return await self._lease.use(steps)
