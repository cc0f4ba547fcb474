"""The lease of a thread: one worker writes at a time, whatever becomes of connections."""

import asyncio
import os

import pytest

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")

import psycopg
from postgres_server import VARIABLE, Server

from certigraph.runtime import postgres as leases
from certigraph.runtime.postgres import Connection, Lease, key_of
from certigraph.state.records import Fault

pytestmark = pytest.mark.slow


async def alive(connection: Connection) -> bool:
    return bool(await (await connection.execute("SELECT true")).fetchone())


async def backend(connection: Connection) -> int:
    return connection.info.backend_pid


def test_who_lost_the_connection_writes_nothing_once_another_worker_had_the_run(used: Server):
    async def overtaken() -> None:
        async with Lease.taken("t", new=True) as mine:
            used.sql("SELECT pg_terminate_backend(%s)", await mine.use(backend))
            async with Lease.taken("t"):
                pass  # somebody else went on with it, and is through with it already
            with pytest.raises(Fault, match="run t was gone on with by another worker"):
                await mine.use(alive)
            with pytest.raises(Fault, match="another worker"):
                await mine.use(alive)

    asyncio.run(overtaken())


def test_who_lost_the_connection_waits_for_its_own_ghost_and_goes_on(used: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leases, "GRACE", 0.1)

    async def haunted() -> bool:
        async with Lease.taken("g", new=True) as mine:
            pid = await mine.use(backend)
            with psycopg.connect(used.url, autocommit=True) as ghost:
                used.sql("SELECT pg_terminate_backend(%s)", pid)
                ghost.execute("SELECT pg_advisory_lock(%s)", (key_of("g"),))
                going_on = asyncio.create_task(mine.use(alive))
                await asyncio.sleep(0.5)
                assert not going_on.done()
            return await going_on

    assert asyncio.run(haunted())


def test_a_lease_is_one_workers(used: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leases, "GRACE", 0.1)

    async def both() -> None:
        async with Lease.taken("l"), Lease.taken("l2"):
            with pytest.raises(Fault, match="run l is being run by another worker"):
                async with Lease.taken("l"):
                    pass

    asyncio.run(both())


def test_workers_that_come_first_lay_the_tables_out_once(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.sql("CREATE DATABASE fresh")
    monkeypatch.setenv(VARIABLE, server.url.removesuffix("postgres") + "fresh")

    async def one(number: int) -> bool:
        async with Lease.taken(f"t{number}") as lease:
            return await lease.use(alive)

    async def all_at_once() -> list[bool]:
        return await asyncio.gather(*map(one, range(12)))

    assert asyncio.run(all_at_once()) == [True] * 12
    with psycopg.connect(os.environ[VARIABLE]) as connection:
        [[invalid]] = connection.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid").fetchall()
    assert invalid == 0
