"""Worker processes on a Ray cluster, and the storage of the runs that they execute.

`worker_pool` connects to a cluster and starts a `WorkerPool`. The method `WorkerPool.done` executes a `RunJob`, and
repeats it on another worker if a worker is lost. `RunStorage` is a folder or object store that all workers can reach.
"""

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
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.extras import import_extra
from certigraph.adapters.files import cache_folder
from certigraph.adapters.models.chat_models import check_model_name, is_scripted
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.adapters.redaction import redact_message, remember_address, show_address
from certigraph.runtime.files import TRAJECTORY_FILE
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.recorder import Listener
from certigraph.runtime.registry import rebuild_graph
from certigraph.runtime.result import BenchmarkRow, benchmark_row_of, unfinished_footer
from certigraph.runtime.run import complete_run
from certigraph.runtime.storage import default_checkpoints
from certigraph.state.endings import Fault, Stopped, UnknownName
from certigraph.state.records import Record

# Storage of runs: a folder that all workers can read, or an object store with a URL.


def is_url(out: str) -> bool:
    """Return whether a storage location is a URL such as `s3://bucket/runs`; otherwise it is a folder."""
    return "://" in out


class RunStorage:
    """Storage of the runs of an evaluation: a folder, or an object store with a local copy.

    With an object store a run is written on this machine and uploaded when it ends. If the machine is lost, the
    progress of its unfinished runs is lost too; to avoid that, use a folder on a file system that all machines share.

    Args:
        out: a folder, or a URL with a scheme that fsspec supports and whose package is installed.

    Raises:
        Fault: fsspec, or its package for the URL's scheme, is missing.
    """

    def __init__(self, out: str) -> None:
        self._files: Any = None
        self.folder = Path(out)
        if is_url(out):
            remember_address(out)
            self._files, self._at = import_extra("fsspec.core", f"{show_address(out)} needs", "ray").url_to_fs(out)
            self.folder = cache_folder() / "runs" / hashlib.sha256(out.encode()).hexdigest()[:16]

    def fetch_run(self, name: str) -> Path:
        """Return the local folder of a run, downloaded first if the copy in the object store has made more progress."""
        if self._files and self._size(name) > _trajectory_bytes(self.folder / name):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            for file in self._files.find(f"{self._at}/{name}"):
                self._fetch(f"{name}/{file.rpartition('/')[2]}")
        return self.folder / name

    def drop_copy(self, name: str) -> None:
        """Delete the local copy of a run, unless it has made more progress than the copy in the object store."""
        if self._files and self._size(name) >= _trajectory_bytes(self.folder / name):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def fetch_file(self, name: str) -> Path:
        """Download a file of the evaluation if there is an object store, and return its path; it may not exist."""
        if self._files and self._files.exists(f"{self._at}/{name}"):
            self._fetch(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def upload(self, name: str) -> None:
        """Upload a file or a finished run to the object store, if there is one, and delete the local copy of a run."""
        if not self._files:
            return
        path = self.folder / name
        for file in path.iterdir() if path.is_dir() else [path]:
            target = f"{self._at}/{file.relative_to(self.folder).as_posix()}"
            self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(file), target)
        if path.is_dir():
            shutil.rmtree(path)

    def _size(self, run: str) -> int:
        self._files.invalidate_cache()
        path = f"{self._at}/{run}/{TRAJECTORY_FILE}"
        return int(self._files.size(path) or 0) if self._files.exists(path) else 0

    def _fetch(self, name: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        self._files.get_file(f"{self._at}/{name}", str(self.folder / name))


def _trajectory_bytes(run: Path) -> int:
    """Return the size of a run's trajectory in bytes. It measures the progress of the run: the file only grows."""
    trajectory = run / TRAJECTORY_FILE
    return trajectory.stat().st_size if trajectory.is_file() else 0


# The description of a run, as plain values that can be sent to another machine.


class RunJob(Record):
    """Description of a run that a worker starts or resumes, as plain values that can be sent to another machine.

    Objects that exist only in this process are not sent: the chat model, the world and the callbacks of `context`.
    """

    graph: str
    operators: dict[str, JsonValue]
    """The operator of each slot of the graph, as `operators_of` returns them."""
    benchmark: str
    """Name of the benchmark, its configuration included."""
    task: str
    context: Context
    """Models by certigraph's names, trial, budget and data folder."""
    out: str
    """Folder, or URL, that holds the run's folder."""
    run: str
    """Name of the run's folder."""

    def to_portable(self) -> Self:
        """Return a copy that any process can execute: with absolute paths and without objects of this process.

        If this process stores checkpoints on a server, the run needs one too: it fails on a machine without such a
        server in its settings.
        """
        paths = {name: _absolute(getattr(self.context, name)) for name in ("data", "cache")}
        paths["checkpoints"] = self.context.checkpoints or default_checkpoints()
        context = Context.model_validate({**self.context.model_dump(), **paths})
        return self.model_copy(update={"context": context, "out": _absolute(self.out)})

    def failed_row(self, ending: str, message: str) -> BenchmarkRow:
        """Build the summary row of a run that no worker could finish."""
        footer = unfinished_footer().model_copy(update={"ending": ending, "message": message})
        return BenchmarkRow(id=self.task, trial=self.context.trial, run=self.run, footer=footer)


def _absolute(path: str | None) -> str | None:
    return str(Path(path).expanduser().resolve()) if path and not is_url(path) else path


async def execute_run(
    job: RunJob, graph: AnyGraph, live: Benchmark, context: Context | None = None, listener: Listener | None = None
) -> BenchmarkRow:
    """Execute the run of a job in this process, or resume it from the last checkpoint, and return its summary row.

    Args:
        job: the run.
        graph: the compiled graph of the job.
        live: the benchmark of the job.
        context: context in place of the job's, for one with objects of this process such as chat models.
        listener: called with every trajectory line.

    Raises:
        Fault: another process is writing the run, or it cannot be resumed.
    """
    shared, context = RunStorage(job.out), context or job.context
    result = await complete_run(shared.fetch_run(job.run), graph, live, job.task, context, listener=listener)
    row = benchmark_row_of(job.task, result, context.trial)
    shared.upload(job.run)
    return row


# The worker process, which has its own worlds, experts and caches.

MAX_LOCK_WAIT = 30.0
"""Maximum number of seconds to wait for a run that another process still writes, such as a cancelled one that ends."""


class RunWorker:
    """Worker process that executes runs; an instance is a Ray actor.

    Args:
        paths: the caller's `sys.path`. Folders that exist on this machine are added, so that graphs and operators named
            `module:name` can be imported.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        sys.path += [path for path in paths if path not in sys.path and Path(path).is_dir()]

    async def ready(self) -> None:
        """Do nothing; that this call returns shows that the process has started."""

    async def done(self, job: RunJob) -> BenchmarkRow:
        """Execute the run of a job and return its summary row, with an error ending if it cannot be executed here."""
        try:
            return await _execute_job(job)
        except Stopped as stopped:
            return job.failed_row(stopped.ending, redact_message(str(stopped)))
        except UnknownName as unknown:
            return job.failed_row("error:data", redact_message(str(unknown)))


async def _execute_job(job: RunJob) -> BenchmarkRow:
    live = load_benchmark(job.benchmark, job.context.data)
    graph = _graph(job.graph, json.dumps(job.operators, sort_keys=True))
    await _wait_until_unlocked(RunStorage(job.out).fetch_run(job.run) / TRAJECTORY_FILE)
    return await execute_run(job, graph, live)


@lru_cache(maxsize=32)
def _graph(name: str, operators: str) -> AnyGraph:
    return rebuild_graph(name, json.loads(operators))


async def _wait_until_unlocked(trajectory: Path) -> None:
    """Wait until no other process writes a trajectory, at most MAX_LOCK_WAIT seconds.

    If the trajectory is still locked then, the recorder of the new run raises the error.
    """
    for _ in range(int(10 * MAX_LOCK_WAIT)):
        if _is_unlocked(trajectory):
            return
        await asyncio.sleep(0.1)


def _is_unlocked(trajectory: Path) -> bool:
    if not trajectory.is_file():
        return True
    with trajectory.open("a") as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


# The pool, which assigns jobs to workers; the jobs of a lost worker are resumed by others.

MAX_SHARED_TRIES = 2
"""Number of workers that may be lost while they execute a job next to other jobs. After that the job gets a worker of
its own, so that a further loss is known to be caused by the job."""


class WorkerPool:
    """Worker processes on a connected Ray cluster.

    Args:
        ray: the module `ray`, connected to a cluster.
        workers: number of processes, each with one processor; a process waits until the cluster has a free processor.
        at_once: number of concurrent jobs of a worker: many with a model endpoint, because jobs then mostly wait; few
            with scripted models.
    """

    def __init__(self, ray: Any, workers: int, at_once: int) -> None:
        self.workers, self.at_once = workers, at_once
        self._ray = ray
        self._slots: asyncio.Queue[_WorkerHandle | None] = asyncio.Queue()
        self._own_worker_lock = asyncio.Lock()
        self._workers: list[_WorkerHandle] = []
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

    async def _free_worker(self) -> "_WorkerHandle":
        while worker := await self._slots.get():
            if not worker.lost:
                return worker
        self._slots.put_nowait(None)  # for the other tasks that wait for a worker
        raise Fault("environment", f"no Ray worker starts: {self._failures[-1]}")

    async def _run_on_own_worker(self, job: RunJob) -> BenchmarkRow:
        async with self._own_worker_lock:
            worker = _WorkerHandle(self._ray, processors=0)
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
        worker = _WorkerHandle(self._ray, processors=1)
        self._workers.append(worker)
        start = asyncio.create_task(self._add_slots(worker))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)

    async def _add_slots(self, worker: "_WorkerHandle") -> None:
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


class _WorkerHandle:
    """Handle by which a `WorkerPool` controls one worker process."""

    def __init__(self, ray: Any, processors: int) -> None:
        self._ray = ray
        self.lost = False
        # no retries by Ray: a job that crashes its worker would crash the other jobs there each time
        options = {"num_cpus": processors, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(RunWorker).options(**options).remote([path or str(Path.cwd()) for path in sys.path])

    async def failure(self) -> str:
        """Wait until the process has started; return the reason if it failed, else an empty string."""
        try:
            await self._actor.ready.remote()
        except self._ray.exceptions.RayError as error:
            self.stop()
            return redact_message(str(error).strip().rpartition("\n")[2])
        return ""

    async def done(self, job: RunJob) -> BenchmarkRow | None:
        """Execute a job on the worker and return its summary row; None if the worker was lost."""
        pending = self._actor.done.remote(job)
        try:
            row: BenchmarkRow = await pending
        except self._ray.exceptions.RayTaskError as error:
            return job.failed_row("error:operator", redact_message(str(error.cause)))
        except self._ray.exceptions.RayError:
            self.stop()
            return None
        except asyncio.CancelledError:
            self._ray.cancel(pending)
            raise
        return row

    def stop(self) -> None:
        """End the process, even if it no longer responds."""
        self.lost = True
        self._ray.kill(self._actor)


# Connection to a Ray cluster, or start of one on this machine, during an evaluation.

LOCAL_CLUSTER = "local"
"""Address that stands for a cluster on this machine only, which is started and stopped with the evaluation."""

QUIET_OPTIONS = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}

LOCAL_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Default environment variables of a local cluster.

They turn off usage reports, and let the cluster listen on the loopback interface only, because any client of a cluster
can run code on it. Ray reads them when it is imported; a process that has imported Ray earlier must set them itself.
"""

CONNECT_TIMEOUT = 5.0
"""Timeout in seconds for connecting to the cluster's address."""

ENDPOINT_RUNS, SCRIPTED_RUNS, LOCAL_MODEL_RUNS = 10, 2, 1
"""Number of concurrent jobs of a worker: with a model endpoint, with scripted models, and with a local model."""


def check_workers(address: str | None, workers: int | None) -> None:
    """Check that a number of workers is given only together with the address of a cluster; else raise UnknownName."""
    if workers and not address:
        raise UnknownName("--workers needs a Ray cluster: add --ray local, or --ray ADDRESS")


@contextmanager
def run_slots(
    address: str | None, model: str, workers: int | None, at_once: int | None, *, usual: int | None = None
) -> Iterator[int | None]:
    """Start the workers of an evaluation, if an address is given, and yield the number of concurrent runs.

    Args:
        address: address of the cluster, as in `worker_pool`; None: runs are executed in this process.
        model: name of the model of the runs.
        workers: number of processes on the cluster.
        at_once: number of concurrent runs; None: as many as the workers allow.
        usual: default of `at_once` if runs are executed in this process.

    Raises:
        UnknownName: a number of workers is given, but no cluster.
        Fault: as in `worker_pool`.
    """
    check_workers(address, workers)
    if not address:
        yield at_once or usual
        return
    with worker_pool(address, model, workers=workers, at_once=at_once) as pool:
        yield at_once or pool.workers * pool.at_once


@contextmanager
def worker_pool(
    address: str, model: str, *, workers: int | None = None, at_once: int | None = None
) -> Iterator[WorkerPool]:
    """Start workers on a Ray cluster and yield their pool; inside the block `active_pool` returns it too.

    Args:
        address: `local`, `auto` for the cluster that this machine belongs to, or HOST:PORT.
        model: name of the model of the runs, on which the default number of concurrent runs of a worker depends.
        workers: number of processes; default: the number of the cluster's processors.
        at_once: number of concurrent runs on all workers together.

    Raises:
        Fault: Ray is missing, or no cluster answers at the address.
    """
    if address == LOCAL_CLUSTER:
        for name, value in LOCAL_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    ray = import_extra("ray", "--ray needs", "ray", "environment")
    connected_here = not ray.is_initialized()
    if connected_here:
        _connect_ray(ray, address, workers)
    count = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
    usual = SCRIPTED_RUNS if is_scripted(model) else LOCAL_MODEL_RUNS if model.startswith("local") else ENDPOINT_RUNS
    pool = WorkerPool(ray, count, math.ceil(at_once / count) if at_once else usual)
    token = _ACTIVE.set(pool)
    try:
        yield pool
    finally:
        _ACTIVE.reset(token)
        pool.close()
        if connected_here:
            ray.shutdown()


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
                f"--ray runs models on its workers, where inspect's model {name!r} is not available: "
                "name an endpoint's model as openai:NAME, with CERTIGRAPH_BASE_URL set on every machine; or omit --ray"
            )
        check_model_name(name)


def _connect_ray(ray: Any, address: str, workers: int | None) -> None:
    _check_address(remember_address(address))
    if address == LOCAL_CLUSTER:
        options: dict[str, Any] = {"num_cpus": workers or len(os.sched_getaffinity(0)), **QUIET_OPTIONS}
    else:
        options = {name: value for name, value in QUIET_OPTIONS.items() if name != "include_dashboard"}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        message = redact_message(" ".join(str(error).split()))
        raise Fault(
            "environment",
            f"no Ray cluster at {show_address(address)} ({message}): is it running, and is RAY_AUTH_MODE=token set "
            "as there? Start one with `ray start --head`, or write --ray local",
        ) from error


def _check_address(address: str) -> None:
    """Raise Fault if nothing answers at HOST:PORT. Ray itself would retry for minutes and print every attempt."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT).close()
    except (OSError, ValueError) as error:
        problem = f"nothing answers at {show_address(address)} ({error})"
        fix = "is it HOST:PORT of `ray start --head --port PORT`? Or write --ray local"
        raise Fault("environment", f"{problem}: {fix}") from error


_ACTIVE: ContextVar[WorkerPool | None] = ContextVar("certigraph_pool", default=None)
