"""One worker process: it carries runs to their endings, with worlds, experts and caches of its own."""

import asyncio
import fcntl
import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.redact import redact_message
from certigraph.evaluation.completing import completed
from certigraph.evaluation.inspecting.rows import Row, row_of
from certigraph.evaluation.scaling.job import Job
from certigraph.evaluation.scaling.shared import TRAJECTORY, Shared
from certigraph.evaluation.settings import AnyGraph, rebuilt_graph
from certigraph.state.endings import Stopped, UnknownName

PATIENCE = 30.0
"""Seconds to wait for a run that another process still writes: one that was given up may be on its last breath."""


class Worker:
    """What Ray makes an actor of.

    Args:
        paths: where the caller's modules are, so that operators named `module:yours` are found where they exist.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        sys.path += [path for path in paths if path not in sys.path and Path(path).is_dir()]

    async def ready(self) -> None:
        """Answer, which says that this process is up."""

    async def done(self, job: Job) -> Row:
        """The row of a job's run, carried to its ending; a job that cannot be done here has an error's."""
        try:
            return await _row(job)
        except Stopped as stopped:
            return job.failed(stopped.ending, redact_message(str(stopped)))
        except UnknownName as unknown:
            return job.failed("error:data", redact_message(str(unknown)))


async def _row(job: Job) -> Row:
    live = load_benchmark(job.benchmark, job.context.data)
    graph = _graph(job.graph, json.dumps(job.operators, sort_keys=True))
    shared = Shared(job.out)
    folder = shared.run(job.run)
    await _released(folder / TRAJECTORY)
    result = await completed(folder, graph, live, job.task, job.context)
    row = row_of(job.task, result, job.context.trial)
    shared.keep(job.run)
    return row


@lru_cache(maxsize=32)
def _graph(name: str, operators: str) -> AnyGraph:
    return rebuilt_graph(name, json.loads(operators))


async def _released(trajectory: Path) -> None:
    """Wait until no other process writes a trajectory, but not for ever: the recorder then says what is the matter."""
    for _ in range(int(10 * PATIENCE)):
        if _free(trajectory):
            return
        await asyncio.sleep(0.1)


def _free(trajectory: Path) -> bool:
    if not trajectory.is_file():
        return True
    with trajectory.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
