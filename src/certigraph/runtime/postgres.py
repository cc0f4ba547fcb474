"""Checkpoints and lessons of runs on a Postgres server.

A `ThreadLease` gives one worker the exclusive right to write the thread of a run. `PostgresSaver` and `PostgresLessons`
are LangGraph's checkpoint saver and store on the connection of that lease.
"""

import asyncio
import json
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Self, TypeVar

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
from langgraph.store.base import BaseStore, ListNamespacesOp, MatchCondition, Op, Result, SearchOp
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg import AsyncConnection, Error, OperationalError, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import UndefinedTable
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_dumps, set_json_loads

from certigraph.adapters.redaction import MASK, redact_message
from certigraph.runtime.checkpoints import OF_GRAPHS, OF_RESULTS, UNREACHABLE_SERVER, CheckpointOrder, error_types_of
from certigraph.state.endings import Fault
from certigraph.state.trajectory import serializer

# JSON for Postgres: jsonb has no NUL, no half of a surrogate pair, no infinity, and does not distinguish 1 from 1.0.
# Such values are saved as marked strings that hold their JSON, and are restored when they are read.

ESCAPE_PREFIX = "\x1b"
"""Prefix of a string that holds an escaped value. Strings that begin with it are escaped themselves."""


def dump_json(value: Any) -> str:
    """Return a value as JSON text for a jsonb column, with `escape_value` applied."""
    return json.dumps(escape_value(value))


def load_json(text: str | bytes) -> Any:
    """Return the value of a JSON text from a jsonb column, with `unescape_value` applied."""
    return unescape_value(json.loads(text))


def escape_value(value: Any) -> Any:
    """Replace everything in a value that jsonb would refuse or change by marked strings."""
    if isinstance(value, dict):
        return {escape_value(key): escape_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [escape_value(inner) for inner in value]
    return ESCAPE_PREFIX + json.dumps(value) if _needs_escape(value) else value


def unescape_value(value: Any) -> Any:
    """Restore the original value from the result of `escape_value`."""
    if isinstance(value, dict):
        return {unescape_value(key): unescape_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unescape_value(inner) for inner in value]
    return json.loads(value[1:]) if isinstance(value, str) and value.startswith(ESCAPE_PREFIX) else value


def _needs_escape(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(ESCAPE_PREFIX) or "\0" in value or any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, float)


# Connections to the server that CERTIGRAPH_POSTGRES names. Its password is never saved or shown.

ADDRESS_VARIABLE = "CERTIGRAPH_POSTGRES"
"""Environment variable with the address of the Postgres server for checkpoints."""

EXPORT_ADVICE = f"export {ADDRESS_VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE"
"""Advice in error messages about the server's address."""

PERMANENT_ERRORS = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")
"""Parts of error messages of the server after which another attempt to connect would fail as well."""

SILENT_HANDLER = logging.NullHandler()
"""Handler that keeps psycopg's log off the terminal, because certigraph reports lost connections itself."""

CONNECT_OPTIONS: dict[str, Any] = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
"""Options by which a client notices within a minute that the server is gone (seconds, seconds, milliseconds)."""

SESSION_SETTINGS = """
SELECT set_config('synchronous_commit', 'on', false), set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false), set_config('tcp_keepalives_count', '3', false)
"""
"""SQL settings of a session: checkpoints survive a power cut, and the connection of a lost worker is closed."""


async def open_connection() -> AsyncConnection[DictRow]:
    """Open a new connection to the server that commits every statement.

    Raises:
        Fault: no address is set, or it is not valid.
        psycopg.OperationalError: the server cannot be reached.
    """
    try:
        connection = await AsyncConnection[DictRow].connect(
            **_address_parts(),
            **CONNECT_OPTIONS,
            autocommit=True,
            prepare_threshold=0,
            row_factory=dict_row,
            application_name="certigraph",
        )
    except UnicodeError:
        raise _invalid_address_fault() from None
    logging.getLogger("psycopg").addHandler(SILENT_HANDLER)
    set_json_dumps(dump_json, connection)
    set_json_loads(load_json, connection)
    return connection


def format_error(error: Error) -> str:
    """Format an error of the server on one line, without table rows, user name and password."""
    message = error.diag.message_primary or str(error) or type(error).__name__
    secrets = {str(value) for key, value in _address_parts().items() if key in ("user", "password")}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        message = message.replace(secret, MASK)
    return redact_message(message.splitlines()[0])


def is_permanent(error: Error) -> bool:
    """Whether a server refused the connection for a reason that another attempt would not change."""
    return any(text in str(error) for text in PERMANENT_ERRORS)


def refused_fault(error: Error) -> Fault:
    """Create the Fault for a connection that the server refused."""
    return Fault("data", f"the checkpoint server refused the connection ({format_error(error)}): {EXPORT_ADVICE}")


def _address_parts() -> dict[str, Any]:
    address = os.environ.get(ADDRESS_VARIABLE, "")
    if not address:
        raise Fault(
            "data", f"the checkpoints are on a Postgres server, but {ADDRESS_VARIABLE} is not set: {EXPORT_ADVICE}"
        )
    try:
        parts = conninfo_to_dict(address)
    except ProgrammingError:  # its text repeats the address
        raise _invalid_address_fault() from None
    if not str(parts.get("port", 0)).isdigit():  # a slash in the password ends the address early
        raise _invalid_address_fault()
    return {**parts}


def _invalid_address_fault() -> Fault:
    return Fault(
        "data", f"{ADDRESS_VARIABLE} is not the address of a Postgres server (%-escape its password): {EXPORT_ADVICE}"
    )


# Ownership of a thread: a row with the worker that claimed it last, and the key of the lock that this worker holds.

Connection = AsyncConnection[DictRow]
"""Connection whose rows are dicts."""

CREATE_OWNERS = "CREATE TABLE IF NOT EXISTS certigraph_owners (thread_id text PRIMARY KEY, owner text NOT NULL)"

CLAIM_NEW = "INSERT INTO certigraph_owners (thread_id, owner) VALUES (%s, %s) ON CONFLICT DO NOTHING"
CLAIM_ANY = """
INSERT INTO certigraph_owners (thread_id, owner) VALUES (%s, %s)
ON CONFLICT (thread_id) DO UPDATE SET owner = EXCLUDED.owner
"""
SELECT_OWNER = "SELECT owner FROM certigraph_owners WHERE thread_id = %s"
"""SQL statements on the table of owners: create it, claim a new thread, take over a thread, read a thread's owner."""


async def claim_thread(connection: Connection, thread: str, owner: str, *, new: bool) -> bool:
    """Save the owner of a thread whose lock this worker holds; False if a `new` thread has another owner already."""
    await connection.execute(CLAIM_NEW if new else CLAIM_ANY, (thread, owner))
    return await read_owner(connection, thread) == owner


async def read_owner(connection: Connection, thread: str) -> str | None:
    """Read the owner that claimed a thread last; None if no owner did, or the thread was deleted."""
    row = await (await connection.execute(SELECT_OWNER, (thread,))).fetchone()
    return row["owner"] if row else None


def lock_key_of(thread: str) -> int:
    """Return the key of the Postgres advisory lock for a thread, a signed 64-bit integer."""
    return int.from_bytes(sha256(b"certigraph thread\0" + thread.encode()).digest()[:8], signed=True)


# Tables on the server: LangGraph's and the table of owners. One worker creates them.

SELECT_MIGRATIONS = """
SELECT (SELECT max(v) FROM checkpoint_migrations) AS checkpoints,
       (SELECT max(v) FROM store_migrations) AS store,
       (SELECT count(*) FROM certigraph_owners WHERE false) AS owners
"""
"""SQL query for the latest migrations of LangGraph's tables. It fails if a table is missing."""

SETUP_LOCK = 0x6365727467_7261
"""Key of the advisory lock that a worker holds while it creates the tables."""


async def ensure_tables(connection: Connection) -> None:
    """Create the tables if they are missing. Of several workers, one creates them while the others wait."""
    while not await _has_tables(connection):
        if await try_lock(connection, SETUP_LOCK):
            try:
                await _create_tables(connection)
            finally:
                await connection.execute("SELECT pg_advisory_unlock(%s)", (SETUP_LOCK,))
        else:  # polls, since an index that is being built waits for every statement that waits for a lock
            await asyncio.sleep(0.05)


async def try_lock(connection: Connection, key: int) -> bool:
    """Try to take an advisory lock until the connection ends; False if another connection holds it."""
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS taken", (key,))
    row = await cursor.fetchone()
    return bool(row and row["taken"])


async def _has_tables(connection: Connection) -> bool:
    try:
        versions = await (await connection.execute(SELECT_MIGRATIONS)).fetchone()
    except UndefinedTable:
        return False
    expected = {"checkpoints": AsyncPostgresSaver.MIGRATIONS, "store": AsyncPostgresStore.MIGRATIONS}
    # a newer certigraph may have created tables with more migrations
    return versions is not None and all((versions[name] or 0) >= len(known) - 1 for name, known in expected.items())


async def _create_tables(connection: Connection) -> None:
    await AsyncPostgresSaver(connection).setup()
    await AsyncPostgresStore(connection).setup()
    await connection.execute(CREATE_OWNERS)


# The lease of a thread: an advisory lock of the connection that writes, and a row with the owner. The lock ends with
# the connection; after a new connection the row shows whether another worker had the thread in between.

T = TypeVar("T")

RETRY_SECONDS = 60.0
"""Number of seconds for which a server that cannot be reached is tried again."""

LOCK_SECONDS = 2.0
"""Number of seconds for which a lock is tried again. The server releases a killed worker's lock within moments."""


class ThreadLease:
    """Exclusive right of a worker to read and write one thread. Statements are executed one at a time.

    Args:
        thread: thread id, which is the name of the run's folder.
        new: whether the thread must not exist yet.
    """

    def __init__(self, thread: str, *, new: bool) -> None:
        self.thread, self.owner, self._new = thread, uuid.uuid4().hex, new
        self._connection: Connection | None = None
        self._statement_lock, self._claimed, self._closed_reason = asyncio.Lock(), False, ""

    @classmethod
    @asynccontextmanager
    async def acquire(cls, thread: str, *, new: bool = False) -> AsyncIterator[Self]:
        """Hold the lease of a thread until the block ends.

        Raises:
            Fault: another worker runs the thread, a `new` thread exists already, or the server cannot be reached.
        """
        if "\0" in thread or any("\ud800" <= char <= "\udfff" for char in thread):
            raise Fault("data", f"{thread!r} cannot be the name of a run: Postgres cannot store it as text")
        lease = cls(thread, new=new)
        try:
            await lease.use(lambda _: asyncio.sleep(0))
            yield lease
        finally:
            lease._closed_reason = lease._closed_reason or f"run {thread} is closed"
            await lease._close_connection()

    async def use(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Call an idempotent function with the connection; if that is lost, again with a new one (RETRY_SECONDS).

        Raises:
            Fault: the server could not be reached or refused, or another worker took over; the lease is then closed.
        """
        async with self._statement_lock:
            if self._closed_reason:
                raise Fault("data", self._closed_reason)
            try:
                return await self._retry(work)
            except Fault as fault:
                self._closed_reason = str(fault)
                raise
            except BaseException:
                await self._close_connection()  # after a cancelled statement the state of the connection is unknown
                raise

    async def _retry(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        deadline, pause = 0.0, 0.1
        while True:
            try:
                return await work(await self._ensure_connection())
            except OperationalError as error:
                await self._close_connection()
                deadline = deadline or time.monotonic() + RETRY_SECONDS
                if time.monotonic() > deadline or is_permanent(error):
                    raise self._unreachable_fault(error) from None
            except Error as error:
                raise Fault("data", f"Postgres refused {type(error).__name__}: {format_error(error)}") from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    async def _ensure_connection(self) -> Connection:
        if self._connection is None:
            self._connection = await open_connection()
            await self._connection.execute(SESSION_SETTINGS)
            await ensure_tables(self._connection)
            await self._claim(self._connection)
        return self._connection

    async def _claim(self, connection: Connection) -> None:
        has_lock = await self._acquire_lock(connection)
        if self._claimed and await read_owner(connection, self.thread) != self.owner:
            raise self._owner_fault("was resumed by another worker while this one had lost the server")
        if not has_lock and self._claimed:
            raise OperationalError("the lost connection has not ended yet")
        if not has_lock:
            raise self._owner_fault("is running in another worker")
        if not self._claimed:
            if not await claim_thread(connection, self.thread, self.owner, new=self._new):
                raise Fault("data", f"the server has another run named {self.thread}: use another folder name")
            self._claimed = True

    async def _acquire_lock(self, connection: Connection) -> bool:
        deadline = time.monotonic() + LOCK_SECONDS
        while not await try_lock(connection, lock_key_of(self.thread)):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    async def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _owner_fault(self, reason: str) -> Fault:
        return Fault("data", f"run {self.thread} {reason}: wait for that worker or stop it")

    def _unreachable_fault(self, error: Error) -> Fault:
        if is_permanent(error):
            return refused_fault(error)
        return Fault(
            "data",
            f"{UNREACHABLE_SERVER} ({format_error(error)}): start it, then: certigraph resume FOLDER/{self.thread}",
        )


# The checkpoint saver: the counterpart of `runtime.checkpoints.SqliteCheckpointSaver`.

LATEST_QUERY = f"""
SELECT checkpoint_ns, max(checkpoint_id) AS checkpoint_id FROM checkpoints WHERE thread_id = %s AND {OF_GRAPHS}
GROUP BY checkpoint_ns
"""
"""SQL query: id of a thread's latest checkpoint in every namespace, as in `runtime.checkpoints`."""

DELETE_WRITES = f"""
DELETE FROM checkpoint_writes
WHERE thread_id = %s AND (checkpoint_ns, checkpoint_id) IN ({LATEST_QUERY}) AND {OF_RESULTS}
"""

INNER_STEPS_QUERY = f"""
SELECT checkpoint_ns, (metadata ->> 'step')::int AS step FROM checkpoints
WHERE thread_id = %s AND checkpoint_ns <> '' AND (checkpoint_ns, checkpoint_id) IN ({LATEST_QUERY})
"""


class PostgresSaver(BaseCheckpointSaver[str]):
    """LangGraph's Postgres saver on the connection of a lease. That connection may change between two calls."""

    def __init__(self, lease: ThreadLease) -> None:
        super().__init__(serde=serializer())
        self._lease, self._order = lease, CheckpointOrder()

    async def _call_saver(self, call: Callable[[AsyncPostgresSaver], Awaitable[T]]) -> T:
        return await self._lease.use(lambda connection: call(AsyncPostgresSaver(connection, serde=self.serde)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Load a checkpoint, by default the latest one of the thread."""
        return await self._call_saver(lambda saver: saver.aget_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the latest first."""

        async def load(saver: AsyncPostgresSaver) -> list[CheckpointTuple]:
            return [each async for each in saver.alist(config, filter=filter, before=before, limit=limit)]

        for checkpoint in await self._call_saver(load):
            yield checkpoint

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Load what was written to delta channels (logs and plans) up to a checkpoint."""
        return await self._call_saver(lambda saver: saver.aget_delta_channel_history(config=config, channels=channels))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint. Raises Fault if it would not be the latest one of its graph."""
        self._order.check(config, checkpoint)
        return await self._call_saver(lambda saver: saver.aput(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a node wrote; of a failed node only the type of its error, whose text may hold an API key."""
        saved = error_types_of(writes) or writes
        await self._call_saver(lambda saver: saver.aput_writes(config, saved, task_id, task_path))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a channel's version after `current`; it sorts last, also after any that a crashed worker left."""
        number = int(current.partition(".")[0]) if current else 0
        return f"{number + 1:032}.{uuid.uuid4().hex}"

    async def prepare_resume(self, thread: str, *, waited: bool = False) -> None:
        """Do what `SqliteCheckpointSaver.prepare_resume` does, on the server, with the same errors."""

        async def prepare(connection: Connection) -> dict[str, str]:
            if not waited:
                await connection.execute(DELETE_WRITES, (thread, thread))
            rows = await (await connection.execute(LATEST_QUERY, (thread,))).fetchall()
            return {row["checkpoint_ns"]: row["checkpoint_id"] for row in rows}

        self._order.continue_from(await self._lease.use(prepare))

    async def inner_steps(self, thread: str) -> dict[str, int]:
        """Return the superstep of the latest checkpoint of every graph inside a node, by namespace of the graph."""

        async def steps(connection: Connection) -> dict[str, int]:
            rows = await (await connection.execute(INNER_STEPS_QUERY, (thread, thread))).fetchall()
            return {row["checkpoint_ns"]: row["step"] for row in rows}

        return await self._lease.use(steps)


# The store of lessons: one table, in which every run or shared memory has a namespace.

Namespace = tuple[str, ...]
"""Path in a LangGraph store, under which a part of its items is kept."""


def namespace_of(thread: str, shared: str = "") -> Namespace:
    """Return the namespace of the lessons of a run or of a shared memory; names may be any text, so they are hashed."""
    name = shared or thread
    return "memory" if shared else "run", sha256(name.encode(errors="surrogatepass")).hexdigest()


class PostgresLessons(BaseStore):
    """LangGraph's Postgres store in one namespace, on the connection of a lease: without the lease it cannot write."""

    def __init__(self, lease: ThreadLease, namespace: Namespace) -> None:
        self._lease, self._namespace, self._loop = lease, namespace, asyncio.get_running_loop()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `abatch` and wait for its results. Call it from a worker thread.

        Raises:
            Fault: it was called on the event loop, which would wait for itself.
        """
        if _running_loop() is self._loop:
            raise Fault("operator", "a node called the store and would block the event loop: await store.asearch(...)")
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute store operations and return their results in order."""
        inward = [self._add_prefix(op) for op in ops]

        async def run(connection: Connection) -> list[Result]:
            return await AsyncPostgresStore(connection).abatch(inward)

        return [self._strip_prefix(result) for result in await self._lease.use(run)]

    def _add_prefix(self, op: Op) -> Any:
        if isinstance(op, ListNamespacesOp):
            conditions = [_prefix_condition(self._namespace, condition) for condition in op.match_conditions or ()]
            own = MatchCondition("prefix", self._namespace)
            depth = op.max_depth and op.max_depth + len(self._namespace)
            return op._replace(match_conditions=(own, *conditions), max_depth=depth)
        if isinstance(op, SearchOp):
            return op._replace(namespace_prefix=(*self._namespace, *op.namespace_prefix))
        return op._replace(namespace=(*self._namespace, *op.namespace))

    def _strip_prefix(self, result: Any) -> Any:
        if isinstance(result, list):
            return [self._strip_prefix(inner) for inner in result]
        if isinstance(result, tuple):
            return result[len(self._namespace) :]
        if result is not None:
            result.namespace = self._strip_prefix(result.namespace)
        return result


def _prefix_condition(namespace: Namespace, condition: MatchCondition) -> MatchCondition:
    path: Any = (*namespace, *condition.path) if condition.match_type == "prefix" else condition.path
    return MatchCondition(condition.match_type, path)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# Opening and deleting the thread of a run.

DELETE_OWNER = "DELETE FROM certigraph_owners WHERE thread_id = %s"
DELETE_LESSONS = "DELETE FROM store WHERE prefix = %s OR starts_with(prefix, %s)"
"""SQL statements that delete the owner of a thread, and the lessons in a namespace of the store."""


@asynccontextmanager
async def open_thread(
    graph: Any, thread: str, memory: str, *, new: bool
) -> AsyncIterator[tuple[PostgresSaver, BaseStore | None]]:
    """Open the checkpoint saver and the store of a thread. The store is None for a graph without lessons.

    Args:
        graph: the graph.
        thread: thread id, which is the name of the run's folder.
        memory: name of a memory that several runs share; if empty, the run has its own.
        new: whether the thread must not exist yet.

    Raises:
        Fault: another worker runs the thread, the server cannot be reached, or a `new` thread exists already.
    """
    async with ThreadLease.acquire(thread, new=new) as lease:
        remembers = "lessons" in graph.channels
        yield PostgresSaver(lease), PostgresLessons(lease, namespace_of(thread, memory)) if remembers else None


async def check_server() -> None:
    """Check once that the Postgres server can be reached. Raises Fault if not."""
    try:
        connection = await open_connection()
    except OperationalError as error:
        if is_permanent(error):
            raise refused_fault(error) from None
        advice = f"start it, or unset {ADDRESS_VARIABLE} to use files"
        raise Fault("data", f"{UNREACHABLE_SERVER} ({format_error(error)}): {advice}") from None
    await connection.close()


async def delete_rows(thread: str, *, lessons: bool) -> None:
    """Delete the checkpoints of a thread and, if `lessons` is True, its lessons. Shared memories stay.

    Raises:
        Fault: a worker runs the thread, or the server cannot be reached.
    """
    own = ".".join(namespace_of(thread))

    async def run(connection: Connection) -> None:
        async with connection.transaction():
            await AsyncPostgresSaver(connection).adelete_thread(thread)
            await connection.execute(DELETE_OWNER, (thread,))
            if lessons:
                await connection.execute(DELETE_LESSONS, (own, f"{own}."))

    async with ThreadLease.acquire(thread) as lease:
        await lease.use(run)
