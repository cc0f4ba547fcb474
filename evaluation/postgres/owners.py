"""Whose a run is: the row that says which worker took it last, and the key of the lock that the worker holds."""

from hashlib import sha256

from psycopg import AsyncConnection
from psycopg.rows import DictRow

Connection = AsyncConnection[DictRow]

LAYOUT = "CREATE TABLE IF NOT EXISTS certigraph_owners (thread_id text PRIMARY KEY, owner text NOT NULL)"

CLAIM = "INSERT INTO certigraph_owners (thread_id, owner) VALUES (%s, %s) ON CONFLICT DO NOTHING"
TAKE = """
INSERT INTO certigraph_owners (thread_id, owner) VALUES (%s, %s)
ON CONFLICT (thread_id) DO UPDATE SET owner = EXCLUDED.owner
"""
OWNER = "SELECT owner FROM certigraph_owners WHERE thread_id = %s"


async def take(connection: Connection, thread: str, owner: str, *, new: bool) -> bool:
    """Enter the owner of a thread whose lock is held; False where a `new` thread is another's already."""
    await connection.execute(CLAIM if new else TAKE, (thread, owner))
    return await last_owner(connection, thread) == owner


async def last_owner(connection: Connection, thread: str) -> str | None:
    """Who took the thread last; None where nobody did or it is deleted."""
    row = await (await connection.execute(OWNER, (thread,))).fetchone()
    return row["owner"] if row else None


def key_of(thread: str) -> int:
    """The signed 64 bits of a thread's advisory lock."""
    return int.from_bytes(sha256(b"certigraph thread\0" + thread.encode()).digest()[:8], signed=True)
