"""Pool of worker processes that execute the runs of an evaluation, on this machine or on a Ray cluster.

`run_slots` starts a `WorkerPool` where an evaluation has workers. The method `WorkerPool.done` executes a `RunJob`, and
repeats it on another worker if a worker is lost.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple

from certigraph.adapters.models.chat_models import check_model_name, is_scripted
from certigraph.evaluation.jobs import RunJob
from certigraph.evaluation.ray_cluster import RayWorker, connect_cluster, count_processors
from certigraph.evaluation.worker_processes import ProcessWorker
from certigraph.runtime.result import BenchmarkRow
from certigraph.state.endings import Fault, UnknownName

# The pool, which assigns jobs to workers; the jobs of a lost worker are resumed by others.

MAX_SHARED_TRIES = 2
"""Number of workers that may be lost while they execute a job next to other jobs. After that the job gets a worker of
its own, so that a further loss is known to be caused by the job."""


Worker = ProcessWorker | RayWorker
"""A process that executes jobs. `lost` says whether it ended or was stopped."""


class WorkerPool:
    """Worker processes, of this machine or on a Ray cluster.

    Args:
        start: function that starts a process. With `extra` the process does not wait for a processor of a cluster.
        workers: number of processes.
        at_once: number of concurrent jobs of a worker: many with a model endpoint, because jobs then mostly wait; few
            with scripted models.
    """

    def __init__(self, start: Callable[..., Worker], workers: int, at_once: int) -> None:
        self.workers, self.at_once = workers, at_once
        self._start_worker = start
        self._slots: asyncio.Queue[Worker | None] = asyncio.Queue()
        self._own_worker_lock = asyncio.Lock()
        self._workers: list[Worker] = []
        self._starts: set[asyncio.Task[None]] = set()
        self._started = False
        self._failures: list[str] = []

    async def done(self, job: RunJob) -> BenchmarkRow:
        """Execute the run of a job and return its summary row.

        The row has an error ending if every worker that executed the job was lost.

        Raises:
            Fault: no worker can be started.
        """
        job = job.to_portable()
        if not self._started:
            self._started = True
            for _ in range(self.workers):
                self._start()
        for _ in range(MAX_SHARED_TRIES):
            if row := await self._run_on_shared_worker(job):
                return row
        return await self._run_on_own_worker(job)

    def close(self) -> None:
        """Stop the workers. Their unfinished runs can be resumed later."""
        for start in self._starts:
            start.cancel()
        for worker in self._workers:
            worker.stop()

    async def _run_on_shared_worker(self, job: RunJob) -> BenchmarkRow | None:
        worker = await self._free_worker()
        try:
            row = await worker.done(job)
        finally:
            if not worker.lost:
                self._slots.put_nowait(worker)
            elif worker in self._workers:
                self._workers.remove(worker)
                self._start()
        return row

    async def _free_worker(self) -> Worker:
        while worker := await self._slots.get():
            if not worker.lost:
                return worker
        self._slots.put_nowait(None)  # for the other tasks that wait for a worker
        raise Fault("environment", f"no worker process starts: {self._failures[-1]}")

    async def _run_on_own_worker(self, job: RunJob) -> BenchmarkRow:
        async with self._own_worker_lock:
            worker = self._start_worker(extra=True)
            try:
                row = await worker.done(job)
            finally:
                worker.stop()
        message = (
            f"{MAX_SHARED_TRIES + 1} workers were lost while they executed this run; its progress is saved for a retry"
        )
        return row or job.failed_row("error:environment", message)

    def _start(self) -> None:
        """Start one more worker process, which takes jobs as soon as it is ready."""
        worker = self._start_worker()
        self._workers.append(worker)
        start = asyncio.create_task(self._add_slots(worker))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)

    async def _add_slots(self, worker: Worker) -> None:
        if failure := await worker.failure():
            self._failures.append(failure)
            self._workers.remove(worker)
            if len(self._failures) <= MAX_SHARED_TRIES * self.workers:
                self._start()
            elif not self._workers:
                self._slots.put_nowait(None)
            return
        self._failures.clear()
        for _ in range(self.at_once):
            self._slots.put_nowait(worker)


# Where runs are executed.

ENDPOINT_RUNS, SCRIPTED_RUNS, LOCAL_MODEL_RUNS = 10, 2, 1
"""Number of concurrent jobs of a worker: with a model endpoint, with scripted models, and with a local model."""


class WorkerOptions(NamedTuple):
    """Where the runs of an evaluation are executed, as the options --workers and --ray say."""

    processes: int | None = None
    """Number of worker processes. None: one for each processor of the cluster, or without one this process alone."""
    ray: str | None = None
    """Address of a Ray cluster, `local` for one on this machine; None: processes of this machine without Ray."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes than this one execute the runs."""
        return self.ray is not None or (self.processes or 1) > 1

    @property
    def flags(self) -> str:
        """The options on a command line, each after a space; empty if they are not given."""
        ray = f" --ray {self.ray}" if self.ray else ""
        return f"{ray} --workers {self.processes}" if self.processes else ray


HERE = WorkerOptions()
"""Runs are executed in this process."""


@contextmanager
def run_slots(
    options: WorkerOptions, model: str, at_once: int | None, *, usual: int | None = None
) -> Iterator[int | None]:
    """Start the workers of an evaluation, if it has any, and yield the number of concurrent runs.

    Args:
        options: where the runs are executed.
        model: name of the model of the runs.
        at_once: number of concurrent runs; None: as many as the workers allow.
        usual: default of `at_once` if runs are executed in this process.

    Raises:
        Fault: as in `worker_pool`.
    """
    if not options.is_shared:
        yield at_once or usual
        return
    with worker_pool(options, model, at_once=at_once) as pool:
        yield at_once or pool.workers * pool.at_once


@contextmanager
def worker_pool(options: WorkerOptions, model: str, *, at_once: int | None = None) -> Iterator[WorkerPool]:
    """Start worker processes and yield their pool; inside the block `active_pool` returns it too.

    Args:
        options: number of processes, and the Ray cluster if they belong to one.
        model: name of the model of the runs, on which the default number of concurrent runs of a worker depends.
        at_once: number of concurrent runs on all workers together.

    Raises:
        Fault: Ray is wanted and missing, or no cluster answers at its address.
    """
    usual = SCRIPTED_RUNS if is_scripted(model) else LOCAL_MODEL_RUNS if model.startswith("local") else ENDPOINT_RUNS
    with ExitStack() as stack:
        if options.ray:
            ray = stack.enter_context(connect_cluster(options.ray, options.processes))
            start: Callable[..., Worker] = partial(RayWorker, ray)
            count = options.processes or count_processors(ray)
        else:
            start, count = ProcessWorker, options.processes or 1
        pool = WorkerPool(start, count, math.ceil(at_once / count) if at_once else usual)
        stack.callback(pool.close)
        token = _ACTIVE.set(pool)
        stack.callback(_ACTIVE.reset, token)
        yield pool


def active_pool() -> WorkerPool | None:
    """Return the pool of workers that executes runs; None if runs are executed in this process."""
    return _ACTIVE.get()


def check_worker_models(*names: str) -> None:
    """Check that workers can use models of these names, although Inspect is not available there.

    Raises:
        UnknownName: a name is unknown, or is that of a model which only Inspect can reach.
    """
    for name in names:
        if "/" in name and not name.startswith(("openai:", "local:")):
            raise UnknownName(
                f"worker processes cannot reach inspect's model {name!r}: name an endpoint's model as openai:NAME, "
                "with CERTIGRAPH_BASE_URL set on every machine; or omit --workers and --ray"
            )
        check_model_name(name)


_ACTIVE: ContextVar[WorkerPool | None] = ContextVar("certigraph_pool", default=None)
