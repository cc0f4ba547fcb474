"""`certigraph bench --soak N`: N episodes of mixed graphs in one process, hundreds at once, against a slow endpoint.

Every figure is read off the lines that the runs leave in a file, and off the runs' own folders.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import typer
from rich.console import Console

from certigraph.evaluation.bench.soak_endpoint import slow_endpoint
from certigraph.evaluation.bench.soak_figures import figures
from certigraph.evaluation.bench.soak_held import MEGABYTE, held
from certigraph.evaluation.bench.soak_records import Disk, Plan, Row, Soak
from certigraph.evaluation.bench.soak_runs import Soaking, endpoint
from certigraph.evaluation.bench.soak_table import table
from certigraph.state.endings import Interrupted
from certigraph.state.reading import read_trajectory

AT_ONCE, DELAY = 200, 3.0
"""Runs at once, and seconds that the endpoint takes for a reply: what a large model takes for a short one. With these
one processor is not asked for more than it has, and a call's overhead is no queue for it."""


def soak(plan: Plan, out: Path, *, said: Callable[[str], None]) -> Soak:
    """Run a soak; Ctrl-C ends it early, and what was measured by then counts.

    Args:
        plan: how many episodes, how many at once, and how late the endpoint replies.
        out: a folder for `runs.jsonl`, a line a run, and `soak.json`; the runs' own folders are deleted at the end.
        said: takes progress, a line at a time.

    Raises:
        Interrupted: before any run had ended.
    """
    out.mkdir(parents=True)
    with TemporaryDirectory(dir=out) as runs, (out / "runs.jsonl").open("w", encoding="utf-8") as lines:
        with slow_endpoint(plan.delay) as url, endpoint(url):
            soaking = Soaking(plan, Path(runs), lines, said)
            before, began = held(), perf_counter()
            try:
                asyncio.run(soaking.all())
            except KeyboardInterrupt:
                said("interrupted: what was measured so far")
            after, seconds = held(), perf_counter() - began
        rows = read_rows(out / "runs.jsonl")
        if not rows:
            raise Interrupted(f"no run had ended; begin again with: certigraph bench --soak {plan.episodes}")
        done = figures(plan, soaking.begun, rows, on_disk(Path(runs)), (before, after), seconds)
    (out / "soak.json").write_text(json.dumps(done.as_json(), indent=1), encoding="utf-8")
    return done


def read_rows(file: Path) -> list[Row]:
    """The lines of the runs that ended, in that order."""
    return [Row.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]


def on_disk(runs: Path) -> Disk:
    """What the runs left; a run is finished when its trajectory can be read and has a footer."""
    sizes = {file: file.stat().st_size for file in runs.rglob("*") if file.is_file()}
    told = [file for file in sizes if file.name == "trajectory.jsonl"]
    trajectories = sum(sizes[file] for file in told) / MEGABYTE
    return Disk(
        finished=frozenset(file.parent.name for file in told if read_trajectory(file).footer),
        trajectories=trajectories,
        rest=sum(sizes.values()) / MEGABYTE - trajectories,
    )


def print_soak(done: Soak, *, as_json: bool) -> None:
    """One JSON object, or tables."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        Console().print(table(done))
