"""Storage of checkpoints and lessons of a run: files in the run's folder, or a Postgres server."""

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

from certigraph.adapters.extras import import_extra
from certigraph.adapters.protocols import Context
from certigraph.runtime.checkpoints import SqliteCheckpointSaver
from certigraph.runtime.files import (
    CHECKPOINTS_FILE,
    MEMORY_FILE,
    is_run_file,
    translate_database_errors,
    unique_slug_of,
)
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.state.endings import Fault, is_resumable

# The store of lessons: a file in the run's folder, or next to it if several runs share one.


@contextmanager
def open_memory(
    graph: CompiledStateGraph[Any, Any, Any, Any], folder: Path, shared: str = ""
) -> Iterator[BaseStore | None]:
    """Open the LangGraph store for a graph that remembers lessons between episodes; None for any other graph.

    Args:
        graph: the graph; a store that it was compiled with is not used, since a resumed run could not find it again.
        folder: the folder of the run.
        shared: name of a memory that several runs in the same parent folder share; if empty, the run has its own store.
    """
    if "lessons" not in graph.channels:
        yield None
        return
    path = folder.parent / f"memory-{unique_slug_of(shared, 60)}.sqlite" if shared else folder / MEMORY_FILE
    with translate_database_errors(path):
        _create_tables(path)
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        yield store


def _create_tables(path: Path) -> None:
    """Create the tables of a new SQLite file in one transaction.

    LangGraph uses several transactions, and a crash between two of them leaves an unusable file. If several processes
    open the file at the same time, one of them creates the tables.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as file, file:
        file.execute("BEGIN IMMEDIATE")
        if not file.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _schema_statements():
                file.execute(statement)


def _schema_statements() -> list[str]:
    with SqliteStore.from_conn_string(":memory:") as empty:
        empty.setup()
        _begin, *statements, _commit = empty.conn.iterdump()
    return statements


# Checkpoints and lessons of one run.


class CheckpointStorage(NamedTuple):
    """Checkpoint saver and store for the graph of one run; the store is None for a graph without lessons."""

    saver: BaseCheckpointSaver[Any]
    store: BaseStore | None


def default_checkpoints() -> Literal["", "postgres"]:
    """Return where new runs save their checkpoints: "postgres" if CERTIGRAPH_POSTGRES names a server, else ""."""
    return "postgres" if os.environ.get("CERTIGRAPH_POSTGRES") else ""


async def check_checkpoint_server() -> None:
    """Check that the Postgres server for checkpoints, if one is named, can be reached. Raises Fault if not."""
    if default_checkpoints():
        await _postgres_module().check_server()


@asynccontextmanager
async def open_storage(
    graph: AnyGraph, folder: Path, context: Context, *, resuming: bool
) -> AsyncIterator[CheckpointStorage]:
    """Open the checkpoints and the store of a run. The name of the run's folder is the thread id.

    Raises:
        Fault: the Postgres server for them cannot be reached or is not named, it has another run of this name, or
            another worker is resuming the same run.
    """
    if context.checkpoints:
        async with _postgres_module().open_thread(graph, folder.name, context.memory, new=not resuming) as (
            saver,
            store,
        ):
            yield CheckpointStorage(saver, store)
    else:
        with (
            open_memory(graph, folder, context.memory) as store,
            SqliteCheckpointSaver.open(folder / CHECKPOINTS_FILE) as saver,
        ):
            yield CheckpointStorage(saver, store)


async def drop_checkpoints(folder: Path, ending: str, context: Context) -> None:
    """Delete the checkpoints of a run if its ending is final, because they are not needed any more.

    Checkpoints are most of the size of a large evaluation.
    """
    if is_resumable(ending):
        return
    if context.checkpoints:
        with suppress(Fault):  # checkpoints that stay only take disk space
            await _postgres_module().delete_rows(folder.name, lessons=False)
    _delete_files(folder)


async def delete_thread(folder: Path, context: Context) -> None:
    """Delete the checkpoints of a run, and its lessons on a Postgres server unless other runs share them.

    Raises:
        Fault: the Postgres server cannot be reached or is not named, or a worker is running the thread.
    """
    if context.checkpoints:
        await _postgres_module().delete_rows(folder.name, lessons=True)
    _delete_files(folder)


def _postgres_module() -> Any:
    import_extra("psycopg", "checkpoints on a Postgres server need", "postgres")
    from certigraph.runtime import postgres

    return postgres


def _delete_files(folder: Path) -> None:
    for file in folder.glob(f"{CHECKPOINTS_FILE}*"):
        if is_run_file(file):
            file.unlink()
