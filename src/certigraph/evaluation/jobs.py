"""Jobs of worker processes: the description of a run as plain values, its execution, and the storage of runs.

`RunJob` describes a run, `execute_run` executes it in this process, `execute_job` in a worker process.
`RunStorage` is a folder or object store that all workers can reach.
"""

import asyncio
import hashlib
import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.extras import import_extra
from certigraph.adapters.file_locks import try_lock
from certigraph.adapters.files import cache_folder
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.adapters.redaction import redact_message, remember_address, show_address
from certigraph.adapters.trajectories import TRAJECTORY_FILE
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.recorder import Listener
from certigraph.runtime.registry import rebuild_graph
from certigraph.runtime.result import BenchmarkRow, benchmark_row_of, unfinished_footer
from certigraph.runtime.run import complete_run
from certigraph.runtime.storage import default_checkpoints
from certigraph.state.endings import Stopped, UnknownName
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
    keep_prompts: bool = False
    """Whether the run keeps its prompts and replies."""

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
    folder, kept = shared.fetch_run(job.run), job.keep_prompts
    result = await complete_run(folder, graph, live, job.task, context, keep_prompts=kept, listener=listener)
    row = benchmark_row_of(job.task, result, context.trial)
    shared.upload(job.run)
    return row


# Execution in a worker process, which has its own worlds, experts and caches.

MAX_LOCK_WAIT = 30.0
"""Maximum number of seconds to wait for a run that another process still writes, such as a cancelled one that ends."""


async def execute_job(job: RunJob) -> BenchmarkRow:
    """Execute the run of a job and return its summary row, with an error ending if it cannot be executed here."""
    try:
        live = load_benchmark(job.benchmark, job.context.data)
        graph = _graph(job.graph, json.dumps(job.operators, sort_keys=True))
        await _wait_until_unlocked(RunStorage(job.out).fetch_run(job.run) / TRAJECTORY_FILE)
        return await execute_run(job, graph, live)
    except (Stopped, UnknownName) as error:
        ending = error.ending if isinstance(error, Stopped) else "error:data"
        return job.failed_row(ending, redact_message(str(error)))


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
    with trajectory.open("a") as file:
        return try_lock(file)
