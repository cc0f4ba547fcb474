"""Storage of checkpoints and lessons: files in the run's folder, or a Postgres server."""

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

from certigraph.adapters.processes import library
from certigraph.adapters.protocols import Context
from certigraph.runtime.checkpoints import Saver
from certigraph.runtime.files import CHECKPOINTS, MEMORY, is_run_file, own_slug, sound
from certigraph.runtime.registry import AnyGraph
from certigraph.state.records import Fault, resumable

# The store of lessons: a file in the run's folder, or next to it if several runs share one.


@contextmanager
def memory_of(
    graph: CompiledStateGraph[Any, Any, Any, Any], folder: Path, shared: str = ""
) -> Iterator[BaseStore | None]:
    """Open the store of a graph that remembers lessons between episodes; None for any other graph.

    Args:
        graph: the graph; a store that it was compiled with is not used, since a resumed run could not find it again.
        folder: the folder of the run.
        shared: name of a memory that runs in the same `out` share; if empty, the run has its own store.
    """
    if "lessons" not in graph.channels:
        yield None
        return
    path = folder.parent / f"memory-{own_slug(shared, 60)}.sqlite" if shared else folder / MEMORY
    with sound(path):
        _lay_out(path)
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        yield store


def _lay_out(path: Path) -> None:
    """Create the tables of a new file in one transaction.

    LangGraph uses several, and a crash between two of them leaves an unusable file. If several processes open the file
    at the same time, one of them creates the tables.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as file, file:
        file.execute("BEGIN IMMEDIATE")
        if not file.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _layout():
                file.execute(statement)


def _layout() -> list[str]:
    with SqliteStore.from_conn_string(":memory:") as empty:
        empty.setup()
        _begin, *statements, _commit = empty.conn.iterdump()
    return statements


# Checkpoints and lessons of one run.


class Kept(NamedTuple):
    """Checkpointer and store that the graph of one run is compiled with."""

    saver: BaseCheckpointSaver[Any]
    store: BaseStore | None


def usual_checkpoints() -> Literal["", "postgres"]:
    """Return where new runs save their checkpoints: "postgres" if CERTIGRAPH_POSTGRES names a server, else ""."""
    return "postgres" if os.environ.get("CERTIGRAPH_POSTGRES") else ""


async def checkpoints_ready() -> None:
    """Check that the server for checkpoints, if there is one, can be reached. Raises Fault."""
    if usual_checkpoints():
        await _threads().check_server()


@asynccontextmanager
async def opened(graph: AnyGraph, folder: Path, context: Context, *, resuming: bool) -> AsyncIterator[Kept]:
    """Open the checkpoints and the store of a run; the name of its folder is the thread id.

    Raises:
        Fault: they are on a Postgres server that cannot be reached or is not named, or that has another run of this
            name; or another worker is resuming the same run.
    """
    if context.checkpoints:
        async with _threads().open_thread(graph, folder.name, context.memory, new=not resuming) as (saver, store):
            yield Kept(saver, store)
    else:
        with memory_of(graph, folder, context.memory) as store, Saver.open(folder / CHECKPOINTS) as saver:
            yield Kept(saver, store)


async def drop_checkpoints(folder: Path, ending: str, context: Context) -> None:
    """Delete the checkpoints of a run that cannot be resumed; they are most of the size of a large evaluation."""
    if resumable(ending):
        return
    if context.checkpoints:
        with suppress(Fault):  # checkpoints that stay only take disk space
            await _threads().delete_rows(folder.name, lessons=False)
    _delete_files(folder)


async def delete_thread(folder: Path, context: Context) -> None:
    """Delete the checkpoints of a run, and its lessons on a server unless other runs share them.

    Raises:
        Fault: they are on a Postgres server that cannot be reached or is not named, or a worker is running the thread.
    """
    if context.checkpoints:
        await _threads().delete_rows(folder.name, lessons=True)
    _delete_files(folder)


def _threads() -> Any:
    library("psycopg", "checkpoints on a Postgres server need", "postgres")
    from certigraph.runtime import postgres

    return postgres


def _delete_files(folder: Path) -> None:
    for file in folder.glob(f"{CHECKPOINTS}*"):
        if is_run_file(file):
            file.unlink()
