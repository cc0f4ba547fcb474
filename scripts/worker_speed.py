"""Episodes per minute of an evaluation in one process, in two worker processes, and with one and two Ray workers.

    python scripts/worker_speed.py --episodes 32 --json    # results/scale/workers.json
    python scripts/worker_speed.py --episodes 1000 --laps 1 --without ray --work scripted

The settings alternate over the laps, so that a change of the machine's speed affects all of them.
"""

import argparse
import json
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd
from slow_endpoint import slow_endpoint, use_endpoint

from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.ray_cluster import LOCAL_CLUSTER
from certigraph.evaluation.workers import HERE, WorkerOptions
from certigraph.state.endings import GOAL, Fault

REPLY_DELAY = 0.2
"""Seconds that the endpoint takes for a reply."""

WORKERS = {
    "one process": HERE,
    "two processes": WorkerOptions(2),
    "one Ray worker": WorkerOptions(1, LOCAL_CLUSTER),
    "two Ray workers": WorkerOptions(2, LOCAL_CLUSTER),
}
"""What executes the runs; the first is what the others are compared with."""

WARM_UP_RUNS, BLOCKS = 16, 4
"""Number of runs at the beginning that are not timed, while workers start and caches fill; and blocks of the tasks."""


class Workload(NamedTuple):
    """A model, and the number of concurrent runs on a worker (or in the process of the evaluation)."""

    model: str
    at_once: int


WORKLOADS = {"waiting": Workload("openai:loopback", 4), "scripted": Workload("scripted:expert", 2)}
"""Kinds of episodes: `waiting` for a model's replies most of the time, or `scripted`, which only use the processor."""

Lap = dict[str, Any]
"""Workload, workers, episodes after the warm-up, their wall-clock seconds, and CPU milliseconds of every episode."""


def measure_lap(work: str, workers: str, episodes: int) -> Lap:
    """Evaluate SDP on generated BlocksWorld tasks, and measure the seconds after the warm-up runs.

    Raises:
        Fault: Ray is missing, or a run did not reach its goal.
    """
    ids = [f"{BLOCKS}-{number}" for number in range(WARM_UP_RUNS + episodes)]
    model, at_once = WORKLOADS[work]
    options, before = WORKERS[workers], _cpu_seconds()
    with TemporaryDirectory() as out:
        settings: Any = {"max_samples": at_once * (options.processes or 1), "quiet": True, "out": out}
        done = evaluate(
            "sdp", "blocksworld", model=model, ids=ids, workers=options.processes, ray=options.ray, **settings
        )
        ended = sorted(file.stat().st_mtime for file in Path(out).glob("*/trajectory.jsonl"))
    if done.endings != {GOAL: len(ids)}:
        raise Fault("operator", f"not all of {len(ids)} runs reached the goal: {done.endings}; see `certigraph run`")
    cpu = None if options.ray else 1000 * (_cpu_seconds() - before) / len(ids)  # Ray's processes are not our children
    seconds = ended[-1] - ended[WARM_UP_RUNS - 1]
    return {"work": work, "workers": workers, "episodes": episodes, "seconds": seconds, "cpu_ms": cpu}


def _cpu_seconds() -> float:
    usages = (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def rates_of(laps: list[Lap], work: str, workers: str) -> list[float]:
    """Return the episodes per minute of each lap of one setting."""
    return [60 * lap["episodes"] / lap["seconds"] for lap in laps if (lap["work"], lap["workers"]) == (work, workers)]


def summary_row(laps: list[Lap], work: str, workers: str) -> dict[str, str]:
    """Summarise the laps of one setting: rate, its ratio to one process lap by lap, and CPU time of an episode."""
    rates, first = rates_of(laps, work, workers), rates_of(laps, work, next(iter(WORKERS)))
    cpu = [lap["cpu_ms"] for lap in laps if (lap["work"], lap["workers"]) == (work, workers)]
    return {
        "work": work,
        "workers": workers,
        "episodes a minute": f"{median(rates):,.0f}",
        "over one process": ", ".join(f"{rate / one:.2f}" for rate, one in zip(rates, first, strict=True)),
        "CPU ms an episode": "-" if None in cpu else f"{median(cpu):.1f}",
    }


def main() -> None:
    """Measure, and print a table of medians and ratios, or one JSON object with all laps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64, help="episodes of each evaluation after the warm-up")
    parser.add_argument("--laps", type=int, default=3, help="how often each setting is measured")
    parser.add_argument("--work", action="append", choices=WORKLOADS, help="kind of episodes; by default all")
    parser.add_argument("--without", choices=["ray"], help="leave the settings with Ray out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    works = options.work or list(WORKLOADS)
    names = [name for name, workers in WORKERS.items() if not (options.without and workers.ray)]
    with slow_endpoint(REPLY_DELAY) as url, use_endpoint(url):
        settings = [(work, name) for _ in range(options.laps) for work in works for name in names]
        laps = [measure_lap(work, name, options.episodes) for work, name in settings]
    rows = [summary_row(laps, work, name) for work in works for name in names]
    if options.json:
        print(json.dumps({"laps": laps, "rows": rows}))
        return
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
