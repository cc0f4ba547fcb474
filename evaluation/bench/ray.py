"""How many episodes a minute one worker on a Ray cluster of this machine does, beside two, and beside no Ray at all."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

import typer
from rich.console import Console
from rich.table import Table

from certigraph.evaluation.bench.soak_endpoint import slow_endpoint
from certigraph.evaluation.bench.soak_runs import endpoint
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.scaling.cluster import LOCAL
from certigraph.state.endings import GOAL, Fault
from certigraph.state.records import Record

DELAY = 0.2
"""Seconds that the endpoint takes for a reply."""

WORKERS = (0, 1, 2)
"""Worker processes; 0: the evaluation's own process alone."""

WARMING = 16
"""Runs that end before the clock starts: workers come up, and caches fill."""

BLOCKS = 4

Work = Literal["waiting", "scripted"]
"""Episodes that wait for a model's replies, or that take a processor's time."""

MODELS: dict[Work, str] = {"waiting": "openai:loopback", "scripted": "scripted:expert"}

AT_ONCE: dict[Work, int] = {"waiting": 4, "scripted": 2}
"""Runs at once on a worker, and in the process without Ray."""


class Spread(Record):
    """One evaluation of SDP on generated BlocksWorld tasks, in seconds of wall-clock after the first runs."""

    work: Work
    workers: int
    episodes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Episodes a minute."""
        return 60 * self.episodes / self.seconds


def bench_ray(episodes: int, *, laps: int = 3) -> list[Spread]:
    """Evaluate that many tasks in every way, several times in turn, so that a change of the machine's speed meets all.

    Raises:
        Fault: Ray is missing, or a run did not reach its goal.
    """
    with slow_endpoint(DELAY) as url, endpoint(url):
        return [_evaluated(work, count, episodes) for _ in range(laps) for work in MODELS for count in WORKERS]


def print_ray(done: Sequence[Spread], *, as_json: bool) -> None:
    """One JSON object, or a table."""
    if as_json:
        typer.echo(
            json.dumps({"laps": [lap.as_json() for lap in done], "ratios": {w: ratios(done, w) for w in MODELS}})
        )
        return
    table = Table("episodes", "without Ray", "1 worker", "2 workers", "2 over 1, lap by lap", box=None)
    for work in MODELS:
        rates = (f"{median(_rates(done, work, count)):,.0f}" for count in WORKERS)
        table.add_row(work, *rates, ", ".join(f"{ratio:.2f}" for ratio in ratios(done, work)))
    Console().print("Episodes a minute, median of the laps", table)


def ratios(done: Sequence[Spread], work: Work) -> list[float]:
    """Two workers' rate over one worker's, lap by lap."""
    return [two / one for one, two in zip(_rates(done, work, 1), _rates(done, work, 2), strict=True)]


def _rates(done: Sequence[Spread], work: Work, workers: int) -> list[float]:
    return [lap.rate for lap in done if (lap.work, lap.workers) == (work, workers)]


def _evaluated(work: Work, workers: int, episodes: int) -> Spread:
    ids = [f"{BLOCKS}-{number}" for number in range(WARMING + episodes)]
    ray, at_once = LOCAL if workers else None, AT_ONCE[work] * max(workers, 1)
    with TemporaryDirectory() as out:
        done = evaluate(
            model=MODELS[work], ids=ids, out=out, ray=ray, workers=workers or None, max_samples=at_once, quiet=True
        )
        ended = sorted(path.stat().st_mtime for path in Path(out).glob("*/trajectory.jsonl"))
    if done.endings != {GOAL: len(ids)}:
        raise Fault("operator", f"of {len(ids)} runs not all reached the goal: {done.endings}; see `certigraph run`")
    return Spread(work=work, workers=workers, episodes=episodes, seconds=ended[-1] - ended[WARMING - 1])
