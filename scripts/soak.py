"""Soak test: many episodes of nine graphs in one process, with a slow model endpoint in another.

    python scripts/soak.py --episodes 10000 --out soak    # results/scale/soak.json; 20 minutes

It shows whether runs are lost, memory grows or episodes become slower. The folder gets `runs.jsonl`, with a line for
each episode that ended, and `soak.json` with the results. Ctrl-C ends the test early, with the results so far.
"""

import argparse
import asyncio
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import IO, Any, NamedTuple

import pandas as pd
from slow_endpoint import slow_endpoint, use_endpoint

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.protocols import Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.runtime.registry import build_graph
from certigraph.runtime.run import arun
from certigraph.runtime.storage import drop_checkpoints

GRAPHS = ("sdp", "react", "tdp", "step", "plan_and_act", "plan_and_solve", "cot", "reflexion", "clin")
"""Graphs that the episodes use. None of them needs a text encoder, whose weights would hide a memory leak."""

MODEL, BLOCKS = "openai:expert", 3

MEGABYTE = 1e6

PROGRESS_LINES = 20
"""Number of progress messages."""

WINDOWS = 10
"""Number of windows into which the episodes are divided; memory should not grow after the first window."""


class SoakPlan(NamedTuple):
    """Number of episodes, number of concurrent episodes, and delay of the endpoint in seconds."""

    episodes: int
    at_once: int
    delay: float


SoakRun = dict[str, Any]
"""One episode that ended.

`number`, `graph`, `run` (name of its folder; empty if it raised an exception), `ending`, `seconds`, `calls` (the
seconds of each model call, measured by the client), and `cpu` and `memory`: the processor seconds and the resident MB
of the process by then.
"""

# Resources of this process.


def read_process() -> dict[str, float]:
    """Read processor seconds, resident memory in MB (current and peak), open files, threads and open worlds."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    files = len(list(Path("/proc/self/fd").iterdir())) - 1  # without the file descriptor of the listing
    counts = {"files": files, "threads": threading.active_count(), "worlds": len(EPISODES)}
    return {"cpu": process_time(), "memory": read_memory(), "peak": peak * 1_024 / MEGABYTE, **counts}


def read_memory() -> float:
    """Read the resident memory in MB, which takes about ten microseconds."""
    resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


# The episodes: many at once on one event loop; each writes a line to a file when it ends.


class SoakRunner:
    """Runs the episodes and writes a line to `rows` for each that ends; `started` and `ended` count them."""

    def __init__(self, plan: SoakPlan, folder: Path, rows: IO[str]) -> None:
        self.plan, self.started, self.ended = plan, 0, 0
        self._folder, self._rows = folder, rows
        self._graphs = {name: build_graph(name) for name in GRAPHS}
        self._benchmark = load_benchmark("blocksworld")

    async def run_all(self) -> None:
        """Run all episodes, at most `plan.at_once` of them at the same time."""
        numbers = iter(range(self.plan.episodes))
        async with asyncio.TaskGroup() as group:
            for index in range(self.plan.at_once):
                group.create_task(self._run_some(index, numbers))

    async def _run_some(self, index: int, numbers: Iterator[int]) -> None:
        # staggered starts: a simultaneous start is unrealistic, and would cause the slowest calls of the test
        await asyncio.sleep(index * self.plan.delay / self.plan.at_once)
        for number in numbers:
            self.started += 1
            row = await self._run_one(number)
            self._rows.write(json.dumps(row) + "\n")
            self._rows.flush()
            self.ended += 1
            if self.ended % max(self.plan.episodes // PROGRESS_LINES, 1) == 0:
                counts = f"{self.ended:,} of {self.plan.episodes:,} episodes"
                print(f"{counts}, {row['memory']:.0f} MB, {row['cpu']:.0f} s of CPU", file=sys.stderr)

    async def _run_one(self, number: int) -> SoakRun:
        name, start = GRAPHS[number % len(GRAPHS)], perf_counter()
        context, task = Context(model=MODEL), self._benchmark.task(f"{BLOCKS}-{number}")
        outcome: dict[str, Any]
        try:
            done = await arun(
                self._graphs[name], self._benchmark, task, context=context, out=self._folder, on_error="ignore"
            )
            await drop_checkpoints(done.folder, done.ending, context)
            calls = [call["seconds"] for event in done.trajectory.events for call in event.calls]
            outcome = {"run": done.folder.name, "ending": done.ending, "calls": calls}
        except Exception as error:  # noqa: BLE001 - counted as lost; the other episodes continue
            outcome = {"run": "", "ending": f"raised {type(error).__name__}: {error}", "calls": []}
        used = {"seconds": perf_counter() - start, "cpu": process_time(), "memory": read_memory()}
        return {"number": number, "graph": name, **outcome, **used}


def read_rows(file: Path) -> list[SoakRun]:
    """Read the episodes that ended, in the order in which they ended."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


# The results, from the lines of the episodes and their folders.


def measure_disk(runs: Path) -> tuple[set[str], dict[str, float]]:
    """Return the names of the runs whose trajectory has a footer, and the megabytes of trajectories and of the rest."""
    sizes = {file: file.stat().st_size / MEGABYTE for file in runs.rglob("*") if file.is_file()}
    logs = {file: size for file, size in sizes.items() if file.name == "trajectory.jsonl"}
    finished = {file.parent.name for file in logs if read_trajectory(file).footer}
    trajectories = sum(logs.values())
    return finished, {"trajectories": trajectories, "rest": sum(sizes.values()) - trajectories}


def soak_figures(
    plan: SoakPlan, rows: Sequence[SoakRun], finished: set[str], start: dict[str, float], end: dict[str, float]
) -> dict[str, Any]:
    """Compute the results of a soak test.

    `lost` counts runs without a footer on disk. `flat` is the processor time per episode of the last window with full
    concurrency divided by that of the second. `grown` and `most_grown` are the relative growth of memory after the
    first tenth, to the end and to its maximum. `run` and `call` are milliseconds of a run and of a model call in
    addition to the endpoint's delay: they are spent in certigraph and its HTTP client, and waiting for both.

    Args:
        plan: the plan.
        rows: the episodes that ended, at least one.
        finished: names of the runs with a footer.
        start: resources of the process before the first episode.
        end: the same after the last.
    """
    windows = list(_split_windows(_window_ends(plan, len(rows)), start["cpu"], rows))
    warm = min(plan.episodes // WINDOWS, len(rows) - 1)
    base = rows[warm - 1]["memory"]
    endings: dict[str, dict[str, int]] = {}
    for row in sorted(rows, key=lambda row: row["number"]):
        endings.setdefault(row["graph"], Counter())[row["ending"]] += 1
    return {
        **plan._asdict(),
        "ended": len(rows),
        "lost": sum(row["run"] not in finished for row in rows),
        "endings": endings,
        "windows": windows,
        "flat": windows[-2]["cpu_each"] / windows[1]["cpu_each"] if len(windows) > 3 else 1.0,
        "grown": end["memory"] / base - 1,
        "most_grown": max(row["memory"] for row in rows[warm:]) / base - 1,
        "run": _overhead([row["seconds"] - plan.delay * len(row["calls"]) for row in rows]),
        "call": _overhead([seconds - plan.delay for row in rows for seconds in row["calls"]]),
        "start": start,
        "end": end,
    }


def _window_ends(plan: SoakPlan, ended: int) -> list[int]:
    """Return the numbers of episodes at which windows end.

    They are a hundredth of the episodes, every tenth, and where the number of concurrent episodes starts to fall.
    """
    size = max(plan.episodes // WINDOWS, 1)
    full = max(ended - plan.at_once, 0)
    tenths = [end for end in range(size, full, size) if end <= full - size // 2]
    return sorted(end for end in {max(size // WINDOWS, 1), *tenths, full, ended} if 0 < end <= ended)


def _split_windows(ends: Sequence[int], cpu: float, rows: Sequence[SoakRun]) -> Iterator[dict[str, float]]:
    used = [cpu, *(row["cpu"] for row in rows)]
    for first, end in pairwise([0, *ends]):
        each = 1_000 * (used[end] - used[first]) / (end - first)
        yield {"first": first, "end": end, "cpu_each": each, "memory": rows[end - 1]["memory"]}


def _overhead(seconds: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    return {"p50": 1_000 * cuts[49], "p99": 1_000 * cuts[98], "most": 1_000 * max(seconds)}


# The test.


def run_soak(plan: SoakPlan, out: Path) -> dict[str, Any]:
    """Run a soak test in a new folder, and return its results. The folders of the runs are deleted at the end.

    Raises:
        SystemExit: no episode had ended before Ctrl-C.
    """
    out.mkdir(parents=True)
    with TemporaryDirectory(dir=out) as runs, (out / "runs.jsonl").open("w", encoding="utf-8") as lines:
        with slow_endpoint(plan.delay) as url, use_endpoint(url):
            runner = SoakRunner(plan, Path(runs), lines)
            start, began = read_process(), perf_counter()
            try:
                asyncio.run(runner.run_all())
            except KeyboardInterrupt:
                print("interrupted: what was measured so far", file=sys.stderr)
            end, seconds = read_process(), perf_counter() - began
        rows = read_rows(out / "runs.jsonl")
        if not rows:
            sys.exit("no episode had ended")
        finished, sizes = measure_disk(Path(runs))
    machine = {"busy": (end["cpu"] - start["cpu"]) / seconds, "load": os.getloadavg()}
    measured = {"begun": runner.started, "seconds": seconds, **machine, **sizes}
    figures = soak_figures(plan, rows, finished, start, end) | measured
    (out / "soak.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return figures


def print_figures(figures: dict[str, Any]) -> None:
    """Print the results as tables."""
    counts = f"{figures['ended']:,} of {figures['episodes']:,} episodes ended, {figures['lost']} lost"
    print(f"{counts}, {figures['seconds']:,.0f} s, {figures['busy']:.0%} of a processor, load {figures['load'][0]:.1f}")
    tables = {
        "endings": pd.DataFrame(figures["endings"]).T.fillna(0).astype(int),
        "windows": pd.DataFrame(figures["windows"]).round(1),
        "overhead, ms": pd.DataFrame({"of a model call": figures["call"], "of a run": figures["run"]}).T.round(),
        "process": pd.DataFrame({"start": figures["start"], "end": figures["end"]}).T.round(1),
    }
    for title, table in tables.items():
        print(f"\n{title}\n{table.to_string()}")
    growth = f"memory grew by {figures['grown']:+.1%} (at most {figures['most_grown']:+.1%})"
    print(f"\nAfter the first tenth {growth}; the last episodes cost {figures['flat']:.2f} of the first.")
    print(f"Trajectories take {figures['trajectories']:,.1f} MB, all else {figures['rest']:,.1f} MB.")


def main() -> None:
    """Run the test, and print its results as tables or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000, help="number of episodes")
    parser.add_argument("--at-once", type=int, default=200, help="number of concurrent episodes")
    # typical of a short reply by a large model; with 200 at once, one processor is then not saturated
    parser.add_argument("--delay", type=float, default=3.0, help="seconds that the endpoint takes for a reply")
    parser.add_argument("--out", type=Path, default=Path("soak"), help="new folder for the results")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    figures = run_soak(SoakPlan(options.episodes, options.at_once, options.delay), options.out)
    if options.json:
        print(json.dumps(figures))
    else:
        print_figures(figures)


if __name__ == "__main__":
    main()
