"""Where a run keeps its checkpoints and lessons: files of its folder, or the Postgres server that the machine names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from langgraph.store.base import BaseStore

from certigraph.adapters.context import Context
from certigraph.evaluation.memory import memory_of
from certigraph.evaluation.saver import Saver
from certigraph.evaluation.settings import AnyGraph
from certigraph.state.endings import resumable


class Kept(NamedTuple):
    """What LangGraph is compiled with for one run."""

    saver: Saver
    store: BaseStore | None


@asynccontextmanager
async def opened(graph: AnyGraph, folder: Path, context: Context) -> AsyncIterator[Kept]:
    """Checkpoints and store of the run whose folder this is; its name is the thread."""
    with memory_of(graph, folder, context.memory) as store, Saver.open(folder / "checkpoints.sqlite") as saver:
        yield Kept(saver, store)


async def drop_checkpoints(folder: Path, ending: str, context: Context) -> None:
    """Delete a run's checkpoints where nothing can go on from them: of thousands of runs they are most of the size."""
    if not resumable(ending):
        _delete_files(folder)


def _delete_files(folder: Path) -> None:
    for file in folder.glob("checkpoints.sqlite*"):
        file.unlink()
