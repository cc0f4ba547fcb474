"""Checkpoints and lessons of runs on a Postgres server."""

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
from certigraph.runtime.checkpoints import AWAY, CheckpointOrder, kinds_of_errors
from certigraph.state.records import Fault
from certigraph.state.serialization import serializer

# JSON as Postgres takes it: jsonb has no NUL, no half of a surrogate pair, no infinity and no difference of 1 and
# 1.0.
#
# What it would refuse or change is kept as a marked text of its own JSON, and comes back as it was.

MARK = "\x1b"
"""Begins a text that stands for something else; one that begins with it anyway is marked, too."""


def dumped(value: Any) -> str:
    """The JSON text of a value."""
    return json.dumps(escaped(value))


def loaded(text: str | bytes) -> Any:
    """The value of a JSON text."""
    return unescaped(json.loads(text))


def escaped(value: Any) -> Any:
    """The value with marked texts in place of what jsonb would refuse or change."""
    if isinstance(value, dict):
        return {escaped(key): escaped(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [escaped(inner) for inner in value]
    return MARK + json.dumps(value) if _refused(value) else value


def unescaped(value: Any) -> Any:
    """What `escaped` was given."""
    if isinstance(value, dict):
        return {unescaped(key): unescaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unescaped(inner) for inner in value]
    return json.loads(value[1:]) if isinstance(value, str) and value.startswith(MARK) else value


def _refused(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(MARK) or "\0" in value or any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, float)


# Connections to the server that CERTIGRAPH_POSTGRES names; its password is kept nowhere and shown to nobody.

VARIABLE = "CERTIGRAPH_POSTGRES"
EXPORT = f"export {VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE"

HOPELESS = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")
"""What a server says that will say the same in a minute."""

UNHEARD = logging.NullHandler()
"""Takes psycopg's own words, which would else go to the terminal: what becomes of a connection is told by us."""

PROMPT: dict[str, Any] = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
"""What makes the client notice within a minute that a server has vanished: seconds, seconds, milliseconds."""

SETTINGS = """
SELECT set_config('synchronous_commit', 'on', false), set_config('tcp_keepalives_idle', '30', false),
       set_config('tcp_keepalives_interval', '10', false), set_config('tcp_keepalives_count', '3', false)
"""
"""SQL: a checkpoint that was confirmed outlives a power cut; a worker whose machine vanished is let go of."""


async def connected() -> AsyncConnection[DictRow]:
    """A new connection that commits every statement.

    Raises:
        Fault: no address is set, or it is none.
        psycopg.OperationalError: the server is not there.
    """
    try:
        connection = await AsyncConnection[DictRow].connect(
            **_parts(),
            **PROMPT,
            autocommit=True,
            prepare_threshold=0,
            row_factory=dict_row,
            application_name="certigraph",
        )
    except UnicodeError:
        raise _no_address() from None
    logging.getLogger("psycopg").addHandler(UNHEARD)
    set_json_dumps(dumped, connection)
    set_json_loads(loaded, connection)
    return connection


def told(error: Error) -> str:
    """What the server or the way to it said, without rows and without who asked."""
    said = error.diag.message_primary or str(error) or type(error).__name__
    secrets = {str(value) for key, value in _parts().items() if key in ("user", "password")}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        said = said.replace(secret, MASK)
    return redact_message(said.splitlines()[0])


def hopeless(error: Error) -> bool:
    """Whether a server turned us away for a reason that will be the same in a minute."""
    return any(text in str(error) for text in HOPELESS)


def turned_away(error: Error) -> Fault:
    """The fault that a hopeless error is."""
    return Fault("data", f"the checkpoint server turned this machine away ({told(error)}): {EXPORT}")


def _parts() -> dict[str, Any]:
    address = os.environ.get(VARIABLE, "")
    if not address:
        raise Fault("data", f"the checkpoints are on a Postgres server, and {VARIABLE} is not set: {EXPORT}")
    try:
        parts = conninfo_to_dict(address)
    except ProgrammingError:  # its text repeats the address
        raise _no_address() from None
    if not str(parts.get("port", 0)).isdigit():  # what follows a slash within a password
        raise _no_address()
    return {**parts}


def _no_address() -> Fault:
    return Fault("data", f"{VARIABLE} is no address of a Postgres server (%-escape its password): {EXPORT}")


# Whose a run is: the row that says which worker took it last, and the key of the lock that the worker holds.

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


# The tables on the server: LangGraph's, and one that says which worker a run belongs to. One worker lays them out.

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


# One worker's hold on one run: an advisory lock of the very connection that writes, and a row that says whose it is.
#
# The lock ends with the connection. When that is lost, the row tells whether somebody else had the run meanwhile.

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds for which a server that is away is tried again."""

GRACE = 2.0
"""Seconds for which a lock is asked for: that of a worker which was just killed is let go of in moments."""


class Lease:
    """The right to read and write one thread, one statement at a time."""

    def __init__(self, thread: str, *, new: bool) -> None:
        self.thread, self.owner, self._new = thread, uuid.uuid4().hex, new
        self._connection: Connection | None = None
        self._turn, self._held, self._over = asyncio.Lock(), False, ""

    @classmethod
    @asynccontextmanager
    async def taken(cls, thread: str, *, new: bool = False) -> AsyncIterator[Self]:
        """The lease of a thread, until the block ends.

        Raises:
            Fault: another worker runs the thread, a `new` one is there already, or the server is away.
        """
        if "\0" in thread or any("\ud800" <= char <= "\udfff" for char in thread):
            raise Fault("data", f"{thread!r} cannot be the name of a run: it is no text for Postgres")
        lease = cls(thread, new=new)
        try:
            await lease.use(lambda _: asyncio.sleep(0))
            yield lease
        finally:
            lease._over = lease._over or f"run {thread} is closed"
            await lease._drop()

    async def use(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do what may be done twice; again on a new connection where one was lost, for PATIENCE seconds.

        Raises:
            Fault: the server stayed away or refused, or another worker took the run over. It is over then.
        """
        async with self._turn:
            if self._over:
                raise Fault("data", self._over)
            try:
                return await self._insist(work)
            except Fault as fault:
                self._over = str(fault)
                raise
            except BaseException:
                await self._drop()  # cancelled within a statement, who knows where it is
                raise

    async def _insist(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        deadline, pause = 0.0, 0.1
        while True:
            try:
                return await work(await self._ready())
            except OperationalError as error:
                await self._drop()
                deadline = deadline or time.monotonic() + PATIENCE
                if time.monotonic() > deadline or hopeless(error):
                    raise self._away(error) from None
            except Error as error:
                raise Fault("data", f"Postgres refused {type(error).__name__}: {told(error)}") from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    async def _ready(self) -> Connection:
        if self._connection is None:
            self._connection = await connected()
            await self._connection.execute(SETTINGS)
            await lay_out(self._connection)
            await self._take(self._connection)
        return self._connection

    async def _take(self, connection: Connection) -> None:
        taken = await self._locked(connection)
        if self._held and await last_owner(connection, self.thread) != self.owner:
            raise self._elsewhere("was gone on with by another worker while this one had lost the server")
        if not taken and self._held:
            raise OperationalError("the lost connection has not ended yet")
        if not taken:
            raise self._elsewhere("is being run by another worker")
        if not self._held:
            if not await take(connection, self.thread, self.owner, new=self._new):
                raise Fault("data", f"the server has another run named {self.thread}: give yours another folder")
            self._held = True

    async def _locked(self, connection: Connection) -> bool:
        deadline = time.monotonic() + GRACE
        while not await locked(connection, key_of(self.thread)):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _elsewhere(self, does: str) -> Fault:
        return Fault("data", f"run {self.thread} {does}: wait for that worker or stop it")

    def _away(self, error: Error) -> Fault:
        if hopeless(error):
            return turned_away(error)
        return Fault("data", f"{AWAY} ({told(error)}): start it, then: certigraph resume FOLDER/{self.thread}")


# The saver of runs whose checkpoints are on a Postgres server; it does what `runtime.checkpoints.Saver` does.

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


# The store of lessons on a Postgres server: every run's own part of one table, or one that a memory's name opens.

Namespace = tuple[str, ...]


def place_of(thread: str, shared: str = "") -> Namespace:
    """The part of the table that holds a run's lessons, or a shared memory's. A digest is safe where a name is not."""
    name = shared or thread
    return "memory" if shared else "run", sha256(name.encode(errors="surrogatepass")).hexdigest()


class PostgresLessons(BaseStore):
    """LangGraph's store, under a place of its own, on the connection of a lease: nobody writes who lost his run."""

    def __init__(self, lease: Lease, place: Namespace) -> None:
        self._lease, self._place, self._loop = lease, place, asyncio.get_running_loop()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """As `abatch`, from a worker thread.

        Raises:
            Fault: it was called on the event loop, which it would wait for.
        """
        if _running() is self._loop:
            raise Fault("operator", "a node that blocks the event loop asked the store: await store.asearch(...)")
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of operations, in their order."""
        inward = [self._inward(op) for op in ops]

        async def answered(connection: Connection) -> list[Result]:
            return await AsyncPostgresStore(connection).abatch(inward)

        return [self._outward(result) for result in await self._lease.use(answered)]

    def _inward(self, op: Op) -> Any:
        if isinstance(op, ListNamespacesOp):
            asked = [_under(self._place, condition) for condition in op.match_conditions or ()]
            here = MatchCondition("prefix", self._place)
            depth = op.max_depth and op.max_depth + len(self._place)
            return op._replace(match_conditions=(here, *asked), max_depth=depth)
        if isinstance(op, SearchOp):
            return op._replace(namespace_prefix=(*self._place, *op.namespace_prefix))
        return op._replace(namespace=(*self._place, *op.namespace))

    def _outward(self, result: Any) -> Any:
        if isinstance(result, list):
            return [self._outward(inner) for inner in result]
        if isinstance(result, tuple):
            return result[len(self._place) :]
        if result is not None:
            result.namespace = self._outward(result.namespace)
        return result


def _under(place: Namespace, condition: MatchCondition) -> MatchCondition:
    path: Any = (*place, *condition.path) if condition.match_type == "prefix" else condition.path
    return MatchCondition(condition.match_type, path)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# A run's part of the server: opened for one worker, emptied, and deleted.

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
