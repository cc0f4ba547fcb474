"""One worker's hold on one run: an advisory lock of the very connection that writes, and a row that says whose it is.

The lock ends with the connection. When that is lost, the row tells whether somebody else had the run meanwhile.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self, TypeVar

from psycopg import Error, OperationalError

from certigraph.evaluation.postgres.connecting import SETTINGS, connected, hopeless, told, turned_away
from certigraph.evaluation.postgres.owners import Connection, key_of, last_owner, take
from certigraph.evaluation.postgres.tables import lay_out, locked
from certigraph.evaluation.saver import AWAY
from certigraph.state.endings import Fault

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
