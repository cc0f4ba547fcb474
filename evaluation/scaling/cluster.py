"""Connecting to a Ray cluster, or starting one on this machine, for the length of an evaluation."""

import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from certigraph.adapters.extras import library
from certigraph.adapters.models.chat import check_model, is_scripted
from certigraph.adapters.models.redact import redact_message, remember_address, show_address
from certigraph.evaluation.scaling.pool import Pool
from certigraph.state.endings import Fault, UnknownName

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
