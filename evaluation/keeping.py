"""Where a run keeps its checkpoints and lessons: files of its folder, or the Postgres server that the machine names."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from certigraph.adapters.context import Context
from certigraph.adapters.extras import library
from certigraph.evaluation.memory import memory_of
from certigraph.evaluation.naming import CHECKPOINTS, is_run_file
from certigraph.evaluation.saver import Saver
from certigraph.evaluation.settings import AnyGraph
from certigraph.state.endings import Fault, resumable


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
    from certigraph.evaluation.postgres import threads

    return threads


def _delete_files(folder: Path) -> None:
    for file in folder.glob(f"{CHECKPOINTS}*"):
        if is_run_file(file):
            file.unlink()
