"""Workers on a Ray cluster: the connection to a cluster, or one on this machine, and its actors as workers."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certigraph.adapters.extras import import_extra
from certigraph.adapters.own_modules import own_modules
from certigraph.adapters.redaction import redact_message, remember_address, show_address
from certigraph.evaluation.jobs import RunJob
from certigraph.runtime.result import BenchmarkRow
from certigraph.state.endings import Fault

# A worker: an actor of Ray, and the handle by which the pool controls it.


def _create_actor_class() -> type[Any]:
    """Create the class of the actors that execute runs.

    Ray puts its caller's working folder first on the path of its processes. It sends the code of a class in a function;
    that of a class in a module it imports, with all of certigraph, before the path can be put right.
    """

    class RunActor:
        """Ray actor that executes runs.

        Args:
            folder: the caller's working folder, which is taken from the path.
            paths: the caller's `sys.path`. Folders that exist on this machine are added, so that graphs and operators
                named `module:name` can be imported.
            own: where the caller looks for its user's modules, as a tuple.
        """

        def __init__(self, folder: str, paths: Sequence[str], own: tuple[Any, ...] | None) -> None:
            sys.path[:] = [path for path in sys.path if path not in ("", folder)]
            sys.path += [path for path in paths if path not in sys.path and Path(path).is_dir()]

            from certigraph.adapters.own_modules import OwnModules, find_own_modules
            from certigraph.evaluation.jobs import execute_job

            if own:
                find_own_modules(OwnModules(*own))
            self._execute = execute_job

        async def ready(self) -> None:
            """Do nothing; that this call returns shows that the process has started."""

        async def done(self, job: Any) -> Any:
            """Execute the run of a job and return its summary row."""
            return await self._execute(job)

    return RunActor


class RayWorker:
    """Worker on a Ray cluster.

    Args:
        ray: the module `ray`, connected to a cluster.
        extra: do not wait for a free processor of the cluster.
    """

    def __init__(self, ray: Any, *, extra: bool = False) -> None:
        self._ray = ray
        self.lost = False
        # no retries by Ray: a job that crashes its worker would crash the other jobs there each time
        options = {
            "num_cpus": 0 if extra else 1,
            "max_restarts": 0,
            "max_task_retries": 0,
            "scheduling_strategy": "SPREAD",
        }
        folder, own = str(Path.cwd()), own_modules()
        paths = [path or folder for path in sys.path]
        actor = ray.remote(_create_actor_class()).options(**options)
        self._actor = actor.remote(folder, paths, own and tuple(own))

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


@contextmanager
def connect_cluster(address: str, workers: int | None) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one on this machine, and yield the module `ray`.

    Args:
        address: `local`, `auto` for the cluster that this machine belongs to, or HOST:PORT.
        workers: number of processors of a cluster that is started here; default: all.

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
    try:
        yield ray
    finally:
        if connected_here:
            ray.shutdown()


def count_processors(ray: Any) -> int:
    """Return the number of processors of the connected cluster."""
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


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
