"""The store in which a run's lessons survive a crash: a file in the run's folder, or beside it where runs share one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

from certigraph.evaluation.naming import MEMORY, own_slug
from certigraph.evaluation.sound import sound


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
