"""An evaluation whose workers can be killed: what it asks for, what it comes to, and what none of it may cost."""

import signal
import sys
import time
from pathlib import Path
from subprocess import Popen
from typing import Any

from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.evaluation_results import Evaluation
from certigraph.evaluation.workers import WorkerOptions
from certigraph.state.endings import Interrupted
from helpers.processes.children import child_environment

TESTS = Path(__file__).parents[2]
TASKS = [f"{blocks}-{seed}" for blocks in (3, 4, 5) for seed in range(3)]
OURS = ("CERTIGRAPH_DATA", "CERTIGRAPH_POSTGRES", "OPENAI_API_KEY", "INSPECT_EVAL_MODEL")
"""Variables that would change what an evaluation does."""

OPERATORS = """
import asyncio, os, pathlib, signal, sys
from certigraph.nodes.sdp import validate

HERE = pathlib.Path(__file__).parent

async def slow(state, runtime):
    where = sys.modules["ray"].util.get_node_ip_address() if "ray" in sys.modules else ""
    (HERE / "pids" / str(os.getpid())).write_text(state["task"].id + " " + where)
    await asyncio.sleep(0.1)
    return await validate(state, runtime)

async def deadly(state, runtime):
    if state["task"].id == "3-1" and not (HERE / "harmless").exists():
        (HERE / "pids" / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return await validate(state, runtime)
"""
"""Each leaves the number of its process in a folder `pids`; `deadly` kills it until a file `harmless` is there.

`slow` leaves the task that it is at, too, and the address of the cluster's node.
"""


def evaluate_with_workers(out: Path, **given: Any) -> Evaluation:
    return evaluate(
        "sdp",
        "blocksworld",
        model="simulated:act=0.1,accept=0,reject=0,seed=2",
        ids=TASKS,
        swaps=["validate=scaling_operators:slow"],
        out=out,
        max_samples=4,
        quiet=True,
        **given,
    )


def start_driver(out: Path, site: Path, workers: WorkerOptions, **more: Any) -> "Popen[str]":
    """The evaluation in a process of its own, by workers of its own."""
    command = [sys.executable, str(Path(__file__)), str(out), str(workers.processes), workers.ray or ""]
    return Popen(command, env=child_environment(site) | more.pop("env", {}), text=True, **more)


def await_ended(out: Path, count: int, process: "Popen[str] | None" = None) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        texts = [path.read_bytes() for path in out.glob("*/trajectory.jsonl")]
        if sum(b'"type":"footer"' in text for text in texts) >= count:
            return
        time.sleep(0.02)


def worker_pids(site: Path) -> list[int]:
    return [int(path.name) for path in (site / "pids").iterdir()]


def busy_worker(site: Path, out: Path) -> int:
    """The number of a worker that is at a run, as soon as there is one."""
    for _ in range(1_000):
        for pid in worker_pids(site):
            task = (site / "pids" / str(pid)).read_text().partition(" ")[0]
            texts = [path.read_bytes() for path in out.glob(f"*-{task}-*/trajectory.jsonl")]
            if texts and not any(b'"type":"footer"' in text for text in texts):
                return pid
        time.sleep(0.01)
    raise AssertionError(f"no worker is at a run in {out}")


def evaluation_table(evaluation: Evaluation, but: set[str] = frozenset()) -> dict[tuple[str, int], Any]:  # type: ignore[assignment]
    """All rows without what differs from run to run, and without some runs."""
    return {
        (row.id, row.trial): {**row.as_json(), "run": "", "footer": {**row.footer.as_json(), "usage": _counted(row)}}
        for row in evaluation.rows
        if row.run not in but
    }


def figures(evaluation: Evaluation) -> Any:
    return evaluation.figures, evaluation.intervals, evaluation.endings


def resumed_runs(out: Path) -> set[str]:
    """The runs that were gone on with."""
    return {path.parent.name for path in out.glob("*/*.jsonl") if '"type":"resumed"' in path.read_text()}


def assert_all_there(done: Evaluation, whole: Evaluation, out: Path) -> None:
    """The table of an undisturbed evaluation; nothing certified is lost, and nothing beyond one step is paid twice."""
    assert figures(done) == figures(whole)
    assert len(list(out.glob("*/trajectory.jsonl"))) == len(TASKS)
    cut_off = {row.run for row in done.rows if read_trajectory(out / row.run).superseded}
    assert cut_off <= resumed_runs(out)
    assert evaluation_table(done, cut_off).items() <= evaluation_table(whole).items()
    usual = {(row.id, row.trial): row.footer.usage.calls for row in whole.rows}
    for row in done.rows:
        trajectory = read_trajectory(out / row.run)
        redone = [event.usage.calls for event in trajectory.superseded]
        assert not any(event.update and event.update.get("certificates") for event in trajectory.superseded[:-1])
        assert len(redone) <= 2 * len([line for line in trajectory.events if line.node == "act"])
        assert row.footer.usage.calls == usual[row.id, row.trial] + sum(redone)


def _counted(row: Any) -> dict[str, Any]:
    return {**row.footer.usage.as_json(), "seconds": 0, "model": ""}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell puts into the background is deaf to it
    try:
        evaluate_with_workers(Path(sys.argv[1]), workers=int(sys.argv[2]), ray=sys.argv[3] or None)
    except Interrupted as stopped:
        print(stopped)
