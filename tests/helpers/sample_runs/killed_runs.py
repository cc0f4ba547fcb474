"""Runs in child processes that ask a counting endpoint and are killed with SIGKILL while they do."""

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.models import calls as trying
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.runtime.run import resume, run
from helpers.processes.prepared_processes import FORK
from helpers.servers.misbehaving_endpoint import MisbehavingEndpoint


class Case(NamedTuple):
    """A run: its graph, its world, and the calls it is granted."""

    graph: str
    benchmark: str
    task: str
    calls: int
    keep_prompts: bool = False


def carry(case: Case, url: str, out: Path) -> None:
    """Begin the run of a case in `out`, or go on with it, in this process."""
    os.environ["CERTIGRAPH_BASE_URL"] = url
    os.environ.pop("CERTIGRAPH_DATA", None)  # the generated worlds
    trying.RETRY_PAUSES = (0.001, 0.001)
    if folder := run_folder(out):
        resume(folder)
    else:
        context = Context(model="openai:m", budget=Budget(calls=case.calls))
        run(case.graph, case.benchmark, case.task or None, context=context, out=out, keep_prompts=case.keep_prompts)


def carry_until_killed(case: Case, server: MisbehavingEndpoint, out: Path, requests: int) -> bool:
    """Carry a run in a child that is killed when the endpoint has that many requests; whether it was in time."""
    child: Any = FORK.Process(target=carry, args=(case, server.url, out), daemon=True)
    child.start()
    while child.is_alive() and server.count < requests:
        time.sleep(0.002)
    in_time = child.is_alive()
    child.kill()
    child.join()
    return in_time


def run_folder(out: Path) -> Path | None:
    """The folder of the one run in `out` that has a header; None before that."""
    found = [path.parent for path in out.glob("*/trajectory.jsonl") if path.read_bytes().count(b"\n")]
    return found[0] if found else None


def recorded_calls(out: Path) -> int:
    """The calls on record for the one run in `out`."""
    folder = run_folder(out)
    return read_trajectory(folder).usage.calls if folder else 0
