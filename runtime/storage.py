"""Storage of checkpoints and lessons: files of the run's folder, or Postgres."""

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

# The store in which a run's lessons survive a crash: a file in the run's folder, or beside it where runs share one.


@contextmanager
def memory_of(
    graph: CompiledStateGraph[Any, Any, Any, Any], folder: Path, shared: str = ""
) -> Iterator[BaseStore | None]:
    """The store for a graph that remembers between episodes; None for one that does not.

    Args:
        graph: the graph; a store that it has itself is not used, for a resumed run could not find it again.
        folder: the run's.
        shared: name of the memory that runs in the same `out` share; empty: the run's own.
    """
    if "lessons" not in graph.channels:
        yield None
        return
    place = folder.parent / f"memory-{own_slug(shared, 60)}.sqlite" if shared else folder / MEMORY
    with sound(place):
        _lay_out(place)
    with SqliteStore.from_conn_string(str(place)) as store:
        store.setup()
        yield store


def _lay_out(place: Path) -> None:
    """Lay a new file out in one transaction: LangGraph does it in several, and a crash between two leaves it unusable.

    Of several processes that share the file and come first, one lays it out.
    """
    with closing(sqlite3.connect(place, isolation_level=None)) as file, file:
        file.execute("BEGIN IMMEDIATE")
        if not file.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _layout():
                file.execute(statement)


def _layout() -> list[str]:
    with SqliteStore.from_conn_string(":memory:") as empty:
        empty.setup()
        _begin, *statements, _commit = empty.conn.iterdump()
    return statements


# Where a run keeps its checkpoints and lessons: files of its folder, or the Postgres server that the machine names.


class Kept(NamedTuple):
    """What LangGraph is compiled with for one run."""

    saver: BaseCheckpointSaver[Any]
    store: BaseStore | None


def usual_checkpoints() -> Literal["", "postgres"]:
    """Where this machine has new runs keep their checkpoints: a server where CERTIGRAPH_POSTGRES names one."""
    return "postgres" if os.environ.get("CERTIGRAPH_POSTGRES") else ""


async def checkpoints_ready() -> None:
    """Make sure, before anything is begun, that new runs can keep their checkpoints. Raises Fault."""
    if usual_checkpoints():
        await _threads().must_answer()


@asynccontextmanager
async def opened(graph: AnyGraph, folder: Path, context: Context, *, resuming: bool) -> AsyncIterator[Kept]:
    """Checkpoints and store of the run whose folder this is; its name is the thread.

    Raises:
        Fault: they are on a Postgres server that is away or not named, or that has another run of this name;
            or another worker is `resuming` the same run.
    """
    if context.checkpoints:
        async with _threads().kept(graph, folder.name, context.memory, new=not resuming) as (saver, store):
            yield Kept(saver, store)
    else:
        with memory_of(graph, folder, context.memory) as store, Saver.open(folder / CHECKPOINTS) as saver:
            yield Kept(saver, store)


async def drop_checkpoints(folder: Path, ending: str, context: Context) -> None:
    """Delete a run's checkpoints where nothing can go on from them: of thousands of runs they are most of the size."""
    if resumable(ending):
        return
    if context.checkpoints:
        with suppress(Fault):  # what stays takes room, no more: the run has ended all the same
            await _threads().delete(folder.name, lessons=False)
    _delete_files(folder)


async def delete_thread(folder: Path, context: Context) -> None:
    """Delete a run's checkpoints wherever they are, and the lessons that only it has on a server.

    Raises:
        Fault: they are on a Postgres server that is away or not named, or a worker runs the thread.
    """
    if context.checkpoints:
        await _threads().delete(folder.name, lessons=True)
    _delete_files(folder)


def _threads() -> Any:
    library("psycopg", "checkpoints on a Postgres server need", "postgres")
    from certigraph.runtime import postgres

    return postgres


def _delete_files(folder: Path) -> None:
    for file in folder.glob(f"{CHECKPOINTS}*"):
        if is_run_file(file):
            file.unlink()
