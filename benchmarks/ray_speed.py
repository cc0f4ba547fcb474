"""Episodes per minute of an evaluation without Ray, and with one and two Ray workers on this machine.

    python benchmarks/ray_speed.py --episodes 32 --json    # results/scale/ray.json

The settings alternate over the laps, so that a change of the machine's speed affects all of them.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd
from slow_endpoint import slow_endpoint, use_endpoint

from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.workers import LOCAL_CLUSTER
from certigraph.state.endings import GOAL, Fault

REPLY_DELAY = 0.2
"""Seconds that the endpoint takes for a reply."""

WORKER_COUNTS = (0, 1, 2)
"""Numbers of worker processes that are compared; 0: runs are executed in the process of the evaluation, without Ray."""

WARM_UP_RUNS, BLOCKS = 16, 4
"""Number of runs at the beginning that are not timed, while workers start and caches fill; and blocks of the tasks."""


class Workload(NamedTuple):
    """A model, and the number of concurrent runs on a worker (or in the process of the evaluation)."""

    model: str
    at_once: int


WORKLOADS = {"waiting": Workload("openai:loopback", 4), "scripted": Workload("scripted:expert", 2)}
"""Kinds of episodes: `waiting` for a model's replies most of the time, or `scripted`, which only use the processor."""

Lap = dict[str, Any]
"""Workload, workers, episodes after the warm-up, and wall-clock seconds of one evaluation."""


def measure_lap(work: str, workers: int, episodes: int) -> Lap:
    """Evaluate SDP on generated BlocksWorld tasks, and measure the seconds after the warm-up runs.

    Raises:
        Fault: Ray is missing, or a run did not reach its goal.
    """
    ids = [f"{BLOCKS}-{number}" for number in range(WARM_UP_RUNS + episodes)]
    model, at_once = WORKLOADS[work]
    spread: Any = {"ray": LOCAL_CLUSTER, "workers": workers} if workers else {}
    with TemporaryDirectory() as out:
        settings: Any = {"max_samples": at_once * max(workers, 1), "quiet": True, "out": out, **spread}
        done = evaluate("sdp", "blocksworld", model=model, ids=ids, **settings)
        ended = sorted(file.stat().st_mtime for file in Path(out).glob("*/trajectory.jsonl"))
    if done.endings != {GOAL: len(ids)}:
        raise Fault("operator", f"not all of {len(ids)} runs reached the goal: {done.endings}; see `certigraph run`")
    return {"work": work, "workers": workers, "episodes": episodes, "seconds": ended[-1] - ended[WARM_UP_RUNS - 1]}


def rates_of(laps: list[Lap], work: str, workers: int) -> list[float]:
    """Return the episodes per minute of each lap of one setting."""
    return [60 * lap["episodes"] / lap["seconds"] for lap in laps if (lap["work"], lap["workers"]) == (work, workers)]


def worker_ratios(laps: list[Lap], work: str) -> list[float]:
    """Return the rate of two workers relative to that of one worker, for each lap."""
    return [two / one for one, two in zip(rates_of(laps, work, 1), rates_of(laps, work, 2), strict=True)]


def main() -> None:
    """Measure, and print a table of medians and ratios, or one JSON object with all laps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64, help="episodes of each evaluation after the warm-up")
    parser.add_argument("--laps", type=int, default=3, help="how often each setting is measured")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with slow_endpoint(REPLY_DELAY) as url, use_endpoint(url):
        settings = [(work, workers) for _ in range(options.laps) for work in WORKLOADS for workers in WORKER_COUNTS]
        laps = [measure_lap(work, workers, options.episodes) for work, workers in settings]
    ratios = {work: worker_ratios(laps, work) for work in WORKLOADS}
    if options.json:
        print(json.dumps({"laps": laps, "ratios": ratios}))
        return
    rows = {work: [f"{median(rates_of(laps, work, count)):,.0f}" for count in WORKER_COUNTS] for work in WORKLOADS}
    table = pd.DataFrame(rows, index=["without Ray", "1 worker", "2 workers"]).T
    table["2 over 1, lap by lap"] = [", ".join(f"{ratio:.2f}" for ratio in ratios[work]) for work in WORKLOADS]
    print(f"Episodes a minute, median of the laps\n{table.to_string()}")


if __name__ == "__main__":
    main()
