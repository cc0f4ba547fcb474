"""The tables on the server: LangGraph's, and one that says which worker a run belongs to. One worker lays them out."""

import asyncio

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg.errors import UndefinedTable

from certigraph.evaluation.postgres.owners import LAYOUT, Connection

VERSIONS = """
SELECT (SELECT max(v) FROM checkpoint_migrations) AS checkpoints,
       (SELECT max(v) FROM store_migrations) AS store,
       (SELECT count(*) FROM certigraph_owners WHERE false) AS owners
"""
"""SQL: how far LangGraph's tables are laid out; fails where one is missing."""

LAYING = 0x6365727467_7261
"""The advisory lock of the worker that lays the tables out."""


async def lay_out(connection: Connection) -> None:
    """Lay the tables out where that is still to do; others that come at the same time wait for it."""
    while not await _laid_out(connection):
        if await locked(connection, LAYING):
            try:
                await _lay(connection)
            finally:
                await connection.execute("SELECT pg_advisory_unlock(%s)", (LAYING,))
        else:  # asked again and again: an index being built waits for everybody who waits inside a statement
            await asyncio.sleep(0.05)


async def locked(connection: Connection, key: int) -> bool:
    """Take an advisory lock until the connection ends, if nobody has it."""
    taken = await connection.execute("SELECT pg_try_advisory_lock(%s) AS taken", (key,))
    row = await taken.fetchone()
    return bool(row and row["taken"])


async def _laid_out(connection: Connection) -> bool:
    try:
        found = await (await connection.execute(VERSIONS)).fetchone()
    except UndefinedTable:
        return False
    expected = {"checkpoints": AsyncPostgresSaver.MIGRATIONS, "store": AsyncPostgresStore.MIGRATIONS}
    # a newer certigraph may have been here before
    return found is not None and all((found[name] or 0) >= len(known) - 1 for name, known in expected.items())


async def _lay(connection: Connection) -> None:
    await AsyncPostgresSaver(connection).setup()
    await AsyncPostgresStore(connection).setup()
    await connection.execute(LAYOUT)
