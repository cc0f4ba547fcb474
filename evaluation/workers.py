"""Worker processes on a Ray cluster."""

import asyncio
import fcntl
import hashlib
import json
import math
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.files import cache_folder
from certigraph.adapters.models.chat_models import check_model, is_scripted
from certigraph.adapters.processes import library
from certigraph.adapters.protocols import Context
from certigraph.adapters.redaction import redact_message, remember_address, show_address
from certigraph.runtime.registry import AnyGraph, rebuilt_graph
from certigraph.runtime.result import Row, row_of, unfinished_footer
from certigraph.runtime.run import completed
from certigraph.runtime.storage import usual_checkpoints
from certigraph.state.records import Fault, Record, Stopped, UnknownName

# Where the runs of an evaluation lie: a folder that every worker sees, or a store of objects named by a URL.

TRAJECTORY = "trajectory.jsonl"


def is_url(out: str) -> bool:
    """Whether a place for runs is a URL: `s3://bucket/runs`."""
    return "://" in out


class Shared:
    """The folder of an evaluation; of a URL, the part of it that this machine works on.

    A run is written on this machine and put into the store when it ends. A machine that is lost takes with it what its
    unfinished runs had done: where that must not be, `out` is a folder on a file system that all machines share.

    Args:
        out: a folder, or a URL of a scheme that fsspec knows and has the package for.

    Raises:
        Fault: fsspec, or its package for the URL's scheme, is missing.
    """

    def __init__(self, out: str) -> None:
        self._files: Any = None
        self.here = Path(out)
        if is_url(out):
            remember_address(out)
            self._files, self._at = library("fsspec.core", f"{show_address(out)} needs", "ray").url_to_fs(out)
            self.here = cache_folder() / "runs" / hashlib.sha256(out.encode()).hexdigest()[:16]

    def run(self, name: str) -> Path:
        """The folder of a run, whose files are here if there are any, as far as it has come on any machine."""
        if self._files and self._size(name) > _size(self.here / name):
            shutil.rmtree(self.here / name, ignore_errors=True)
            for file in self._files.find(f"{self._at}/{name}"):
                self._fetch(f"{name}/{file.rpartition('/')[2]}")
        return self.here / name

    def drop(self, name: str) -> None:
        """Forget the copy of a run that was only looked at here; one that has come further than the store's stays."""
        if self._files and self._size(name) >= _size(self.here / name):
            shutil.rmtree(self.here / name, ignore_errors=True)

    def file(self, name: str) -> Path:
        """A file beside the runs, as it is now; it may not exist."""
        if self._files and self._files.exists(f"{self._at}/{name}"):
            self._fetch(name)
        self.here.mkdir(parents=True, exist_ok=True)
        return self.here / name

    def keep(self, name: str) -> None:
        """Put a file, or a run that has ended, where every machine finds it."""
        if not self._files:
            return
        path = self.here / name
        for file in path.iterdir() if path.is_dir() else [path]:
            at = f"{self._at}/{file.relative_to(self.here).as_posix()}"
            self._files.makedirs(at.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(file), at)
        if path.is_dir():
            shutil.rmtree(path)

    def _size(self, run: str) -> int:
        self._files.invalidate_cache()
        at = f"{self._at}/{run}/{TRAJECTORY}"
        return int(self._files.size(at) or 0) if self._files.exists(at) else 0

    def _fetch(self, name: str) -> None:
        (self.here / name).parent.mkdir(parents=True, exist_ok=True)
        self._files.get_file(f"{self._at}/{name}", str(self.here / name))


def _size(run: Path) -> int:
    """Bytes of a trajectory, which only ever grows: the longer one of a run has come further."""
    trajectory = run / TRAJECTORY
    return trajectory.stat().st_size if trajectory.is_file() else 0


# What makes a run, as plain values that can be sent to another machine.


class Job(Record):
    """One run to be carried to its ending in a folder of its own, begun there or gone on with.

    Objects that live in this process do not travel: a context's chat model, world and callbacks are left behind.
    """

    graph: str
    operators: dict[str, JsonValue]
    """As `operators_of` gives them, and headers keep them."""
    benchmark: str
    """Its name, a configuration included."""
    task: str
    context: Context
    """Models by certigraph's own names; the trial, the budget and the data folder are its."""
    out: str
    """The folder, or the URL, that holds the run's folder."""
    run: str
    """The name of the run's folder."""

    def anywhere(self) -> Self:
        """The same where nothing depends on which process does it: no relative path, no live object.

        A run whose checkpoints belong on a server has them there, or fails where a worker's machine does not name one.
        """
        given = {name: _absolute(getattr(self.context, name)) for name in ("data", "cache")}
        given["checkpoints"] = self.context.checkpoints or usual_checkpoints()
        context = Context.model_validate({**self.context.model_dump(), **given})
        return self.model_copy(update={"context": context, "out": _absolute(self.out)})

    def failed(self, ending: str, message: str) -> Row:
        """The row of a run that nobody could carry to an ending of its own."""
        footer = unfinished_footer().model_copy(update={"ending": ending, "message": message})
        return Row(id=self.task, trial=self.context.trial, run=self.run, footer=footer)


def _absolute(place: str | None) -> str | None:
    return str(Path(place).expanduser().resolve()) if place and not is_url(place) else place


# One worker process: it carries runs to their endings, with worlds, experts and caches of its own.

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


# Hands jobs to worker processes and outlives them: a lost worker's jobs go to others, where their runs go on.

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


# Connecting to a Ray cluster, or starting one on this machine, for the length of an evaluation.

LOCAL = "local"
"""The address that stands for a cluster of this machine alone, started and stopped with the evaluation."""

QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}

ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Settings of a cluster of our own, unless they are set: it reports to nobody, and it listens on the loopback alone.

Whoever reaches a cluster can run code on it. Ray reads them when it is imported: a process that has imported it before
sets them itself.
"""

REACHED = 5.0
"""Seconds for which a cluster's address is tried."""

WAITING, SCRIPTED, OWN_WEIGHTS = 10, 2, 1
"""Jobs at once on a worker: of an endpoint, which answers late; of scripts; of weights that every worker loads."""


@contextmanager
def working(
    address: str | None, model: str, workers: int | None, at_once: int | None, *, usual: int | None = None
) -> Iterator[int | None]:
    """How many runs go on at once inside the block: as asked for, else as many as fit on the workers, if there are any.

    Args:
        address: of the cluster, as in `pooled`; None: runs are carried out in this process.
        model: what the runs ask.
        workers: processes on the cluster.
        at_once: runs at once in all, where that is asked for.
        usual: runs at once in this process otherwise.

    Raises:
        UnknownName: there are to be workers, but no cluster for them.
        Fault: as `pooled`.
    """
    if not address and workers:
        raise UnknownName("--workers are a cluster's: add --ray local, or --ray ADDRESS")
    if not address:
        yield at_once or usual
        return
    with pooled(address, model, workers=workers, at_once=at_once) as pool:
        yield at_once or pool.workers * pool.at_once


@contextmanager
def pooled(address: str, model: str, *, workers: int | None = None, at_once: int | None = None) -> Iterator[Pool]:
    """Workers on a cluster, which `active_pool` gives inside the block.

    Args:
        address: `local`, `auto` for the cluster that this machine belongs to, or HOST:PORT.
        model: what the runs ask; it decides how many of them fit on a worker.
        workers: processes; as many as the cluster has processors otherwise.
        at_once: runs at once on all workers together.

    Raises:
        Fault: Ray is missing, or there is no such cluster.
    """
    if address == LOCAL:
        for name, value in ALONE.items():
            os.environ.setdefault(name, value)
    ray = library("ray", "--ray needs", "ray", "environment")
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address, workers)
    count = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
    pool = Pool(ray, count, math.ceil(at_once / count) if at_once else fitting(model))
    token = _ACTIVE.set(pool)
    try:
        yield pool
    finally:
        _ACTIVE.reset(token)
        pool.close()
        if ours:
            ray.shutdown()


def active_pool() -> Pool | None:
    """The workers that runs are handed to; None where they are run in this process."""
    return _ACTIVE.get()


def fitting(model: str) -> int:
    """How many runs that ask a model a worker does at once."""
    if is_scripted(model):
        return SCRIPTED
    return OWN_WEIGHTS if model.startswith("local") else WAITING


def own_models(*names: str) -> None:
    """Make sure that workers can ask models themselves. Raises UnknownName where only inspect in this process can."""
    for name in names:
        if "/" in name and not name.startswith(("openai:", "local:")):
            raise UnknownName(
                f"--ray asks models from its workers, where inspect's {name!r} is not: "
                "name an endpoint's as openai:NAME, with CERTIGRAPH_BASE_URL set on every machine; or leave --ray out"
            )
        check_model(name)


def _connect(ray: Any, address: str, workers: int | None) -> None:
    _must_answer(remember_address(address))
    if address == LOCAL:
        own: dict[str, Any] = {"num_cpus": workers or len(os.sched_getaffinity(0)), **QUIET}
    else:
        own = {name: value for name, value in QUIET.items() if name != "include_dashboard"}
    try:
        ray.init(address=address, **own)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        told = redact_message(" ".join(str(error).split()))
        raise Fault(
            "environment",
            f"no Ray cluster at {show_address(address)} ({told}): is it up, and is RAY_AUTH_MODE=token set as there? "
            "Start one with `ray start --head`, or write --ray local",
        ) from error


def _must_answer(address: str) -> None:
    """Ray itself would try for minutes, and say so on the terminal all the while. Raises Fault."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACHED).close()
    except (OSError, ValueError) as error:
        told = f"nothing answers at {show_address(address)} ({error})"
        fix = "is it HOST:PORT of `ray start --head --port PORT`? Or write --ray local"
        raise Fault("environment", f"{told}: {fix}") from error


_ACTIVE: ContextVar[Pool | None] = ContextVar("certigraph_pool", default=None)
