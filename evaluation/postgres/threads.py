"""A run's part of the server: opened for one worker, emptied, and deleted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.store.base import BaseStore
from psycopg import OperationalError

from certigraph.evaluation.postgres.connecting import VARIABLE, connected, hopeless, told, turned_away
from certigraph.evaluation.postgres.lease import Lease
from certigraph.evaluation.postgres.owners import Connection
from certigraph.evaluation.postgres.saver import PostgresSaver
from certigraph.evaluation.postgres.store import PostgresLessons, place_of
from certigraph.evaluation.saver import AWAY
from certigraph.state.endings import Fault

CHECKPOINTS = tuple(
    f"DELETE FROM {table} WHERE thread_id = %s"
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "certigraph_owners")
)
LESSONS = "DELETE FROM store WHERE prefix = %s OR starts_with(prefix, %s)"


@asynccontextmanager
async def kept(
    graph: Any, thread: str, memory: str, *, new: bool
) -> AsyncIterator[tuple[PostgresSaver, BaseStore | None]]:
    """Saver and store of a thread; no store for a graph that remembers nothing between episodes.

    Raises:
        Fault: another worker runs the thread, or the server stayed away, or a `new` thread is there already.
    """
    async with Lease.taken(thread, new=new) as lease:
        remembers = "lessons" in graph.channels
        yield PostgresSaver(lease), PostgresLessons(lease, place_of(thread, memory)) if remembers else None


async def must_answer() -> None:
    """Make sure that the server is there now. Raises Fault where it is not; nothing is tried again."""
    try:
        connection = await connected()
    except OperationalError as error:
        if hopeless(error):
            raise turned_away(error) from None
        raise Fault("data", f"{AWAY} ({told(error)}): start it, or unset {VARIABLE} to use files") from None
    await connection.close()


async def delete(thread: str, *, lessons: bool) -> None:
    """Delete a thread's checkpoints, and the `lessons` of its own; what runs share is not the run's to delete.

    Raises:
        Fault: a worker runs the thread, or the server stayed away.
    """
    own = ".".join(place_of(thread))

    async def deleted(connection: Connection) -> None:
        async with connection.transaction():
            for statement in CHECKPOINTS:
                await connection.execute(statement, (thread,))
            if lessons:
                await connection.execute(LESSONS, (own, f"{own}."))

    async with Lease.taken(thread) as lease:
        await lease.use(deleted)
