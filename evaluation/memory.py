"""The store in which a run's lessons survive a crash: a file in the run's folder, or beside it where runs share one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

FILE = "memory.sqlite"


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
    place = folder.parent / f"memory-{_slug(shared)}.sqlite" if shared else folder / FILE
    with SqliteStore.from_conn_string(str(place)) as store:
        store.setup()
        yield store


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)
