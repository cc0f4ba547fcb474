"""Hands jobs to worker processes and outlives them: a lost worker's jobs go to others, where their runs go on."""

import asyncio
import sys
from typing import Any

from certigraph.adapters.models.redact import redact_message
from certigraph.evaluation.inspecting.rows import Row
from certigraph.evaluation.scaling.job import Job
from certigraph.evaluation.scaling.worker import Worker
from certigraph.state.endings import Fault

TRIES = 2
"""Workers that a job may lose in company. The next one it has to itself: whoever is lost then lost itself."""


class Pool:
    """Worker processes of a Ray cluster that is connected to.

    Args:
        ray: the module, initialized.
        workers: processes, of one processor each; one for which the cluster has no room waits until it has.
        at_once: jobs that a worker does at once. Those of an endpoint wait, and many fit; those of a script do not.
    """

    def __init__(self, ray: Any, workers: int, at_once: int) -> None:
        self.workers, self.at_once = workers, at_once
        self._ray = ray
        self._seats: asyncio.Queue[_Hired | None] = asyncio.Queue()
        self._alone = asyncio.Lock()
        self._hired: list[_Hired] = []
        self._starts: set[asyncio.Task[None]] = set()
        self._began = False
        self._failures: list[str] = []

    async def done(self, job: Job) -> Row:
        """The row of a job's run, carried to its ending; an error's where the job costs one worker after another.

        Raises:
            Fault: no worker comes up.
        """
        job = job.anywhere()
        if not self._began:
            self._began = True
            for _ in range(self.workers):
                self._start()
        for _ in range(TRIES):
            if row := await self._in_company(job):
                return row
        return await self._on_its_own(job)

    def close(self) -> None:
        """Stop the workers; a run that one of them is at can be gone on with."""
        for start in self._starts:
            start.cancel()
        for worker in self._hired:
            worker.stop()

    async def _in_company(self, job: Job) -> Row | None:
        worker = await self._free_worker()
        try:
            row = await worker.done(job)
        finally:
            if not worker.lost:
                self._seats.put_nowait(worker)
            elif worker in self._hired:
                self._hired.remove(worker)
                self._start()
        return row

    async def _free_worker(self) -> "_Hired":
        while worker := await self._seats.get():
            if not worker.lost:
                return worker
        self._seats.put_nowait(None)  # for whoever else waits
        raise Fault("environment", f"no Ray worker comes up: {self._failures[-1]}")

    async def _on_its_own(self, job: Job) -> Row:
        async with self._alone:
            worker = _Hired(self._ray, processors=0)
            try:
                row = await worker.done(job)
            finally:
                worker.stop()
        lost = f"{TRIES + 1} workers were lost while they were at it; what it had done is kept for a retry"
        return row or job.failed("error:environment", lost)

    def _start(self) -> None:
        """Have one more worker, which takes jobs as soon as it is up."""
        worker = _Hired(self._ray, processors=1)
        self._hired.append(worker)
        start = asyncio.create_task(self._seat(worker))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)

    async def _seat(self, worker: "_Hired") -> None:
        if failure := await worker.failure():
            self._failures.append(failure)
            self._hired.remove(worker)
            if len(self._failures) <= TRIES * self.workers:
                self._start()
            elif not self._hired:
                self._seats.put_nowait(None)
            return
        self._failures.clear()
        for _ in range(self.at_once):
            self._seats.put_nowait(worker)


class _Hired:
    """A worker process as its employer sees it: it does jobs until it is lost."""

    def __init__(self, ray: Any, processors: int) -> None:
        self._ray = ray
        self.lost = False
        # Ray repeats nothing by itself: a job that takes its worker down would take its neighbours down as often
        chosen = {"num_cpus": processors, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(Worker).options(**chosen).remote(sys.path)

    async def failure(self) -> str:
        """Why the process did not come up, once that is known; empty where it did."""
        try:
            await self._actor.ready.remote()
        except self._ray.exceptions.RayError as error:
            self.stop()
            return redact_message(str(error).strip().rpartition("\n")[2])
        return ""

    async def done(self, job: Job) -> Row | None:
        """The row of a job's run; None where the worker was lost over it."""
        asked = self._actor.done.remote(job)
        try:
            row: Row = await asked
        except self._ray.exceptions.RayTaskError as error:
            return job.failed("error:operator", redact_message(str(error.cause)))
        except self._ray.exceptions.RayError:
            self.stop()
            return None
        except asyncio.CancelledError:
            self._ray.cancel(asked)
            raise
        return row

    def stop(self) -> None:
        """End the process, wherever it is and whether or not it still answers."""
        self.lost = True
        self._ray.kill(self._actor)
