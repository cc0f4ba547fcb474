"""The store in which a run's lessons survive a crash: a file of its own in the run's folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

FILE = "memory.sqlite"


@contextmanager
def memory_of(graph: CompiledStateGraph[Any, Any, Any, Any], folder: Path) -> Iterator[BaseStore | None]:
    """The store for a graph that remembers between episodes; None for one that does not."""
    if graph.store is None:
        yield None
        return
    with SqliteStore.from_conn_string(str(folder / FILE)) as store:
        store.setup()
        yield store
