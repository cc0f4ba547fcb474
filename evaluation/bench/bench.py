"""`certigraph bench`: what certigraph's own machinery costs, beside a bare LangGraph loop and a plain Python loop.

All loops climb the same ladder, without a model. Their laps take turns, so that a slower machine slows all alike.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

import typer
from rich.console import Console, Group
from rich.table import Table

from certigraph.evaluation.bench.laps import PER_RUNG, Lap, Loop, Setting, lap, saved_lap
from certigraph.evaluation.bench.store import BIG, USUAL, Latency, store_latencies
from certigraph.state.records import Record

SETTINGS = (
    Setting("sdp", "ainvoke"),
    Setting("bare", "ainvoke"),
    Setting("sdp", "invoke"),
    Setting("bare", "invoke"),
    Setting("sdp", "ainvoke", saver=True),
    Setting("bare", "ainvoke", saver=True),
    Setting("python", "for"),
)


class Speed(Record):
    """Wall-clock milliseconds per superstep of one loop, called in one way."""

    loop: Loop
    call: Literal["ainvoke", "invoke", "for"]
    saver: bool
    """Whether AsyncSqliteSaver kept checkpoints in a file, durability "async"."""
    supersteps: int
    best: float
    median: float
    own: float
    """The median without what the world took; there are no model calls."""
    ratio: float | None = None
    """SDP to the bare loop called alike: the median over the laps."""


class Payload(Record):
    """What one run of SDP leaves in its checkpoint file, in bytes: checkpoints, metadata and writes; the file."""

    supersteps: int
    payload: int
    file: int

    @property
    def per_superstep(self) -> float:
        """Bytes of payload per superstep: equal at all lengths when growth is linear."""
        return self.payload / self.supersteps


class Bench(Record):
    """Everything that one run of the benchmark measured."""

    speeds: tuple[Speed, ...]
    payloads: tuple[Payload, ...]
    latencies: tuple[Latency, ...]


def bench(supersteps: int = 1_000, *, repetitions: int = 5, big: bool = False) -> Bench:
    """Measure speed, checkpoint size and the TravelPlanner store.

    Args:
        supersteps: of each loop, rounded down to whole rungs of four.
        repetitions: laps of each loop.
        big: also a store of 300 cities and 3.8 million flights, which takes a while to build.

    Raises:
        Fault: a loop did not reach the top of the ladder.
    """
    rungs = max(supersteps // PER_RUNG, 1)
    return Bench(
        speeds=tuple(_speeds(rungs, repetitions)),
        payloads=tuple(payload(max(rungs // part, 1)) for part in (4, 2, 1)),
        latencies=tuple(found for size in ([USUAL, BIG] if big else [USUAL]) for found in store_latencies(size)),
    )


def payload(rungs: int) -> Payload:
    """Run SDP once with checkpoints and weigh them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoints.sqlite"
        supersteps = saved_lap("sdp", rungs, path).supersteps
        with closing(sqlite3.connect(path)) as connection:
            stored = sum(connection.execute(query).fetchone()[0] for query in _STORED)
        return Payload(supersteps=supersteps, payload=stored, file=path.stat().st_size)


def print_bench(done: Bench, *, as_json: bool) -> None:
    """One JSON object, or tables."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        Console().print(table(done))


def table(done: Bench) -> Group:
    """What was measured, for people."""
    speeds = Table("loop", "call", "checkpoints", "supersteps", "best ms", "median ms", "own ms", "x bare", box=None)
    for s in done.speeds:
        times = [f"{ms:.2g}" if s.loop == "python" else f"{ms:.2f}" for ms in (s.best, s.median, s.own)]
        ratio = f"{s.ratio:.2f}" if s.ratio else ""
        speeds.add_row(s.loop, s.call, "sqlite" if s.saver else "none", f"{s.supersteps:,}", *times, ratio)
    payloads = Table("checkpoints of", "kB", "bytes each", "file kB", box=None)
    for p in done.payloads:
        kilobytes = (p.payload / 1_000, p.file / 1_000)
        payloads.add_row(f"{p.supersteps:,}", f"{kilobytes[0]:,.0f}", f"{p.per_superstep:,.0f}", f"{kilobytes[1]:,.0f}")
    stores = Table("TravelPlanner store", "flights", "p50 ms", "p95 ms", box=None)
    for x in done.latencies:
        stores.add_row(x.operation, f"{x.flights:,}", f"{x.p50:.3f}", f"{x.p95:.3f}")
    return Group("Milliseconds per superstep", speeds, "", payloads, "", stores)


def _speeds(rungs: int, repetitions: int) -> list[Speed]:
    for setting in SETTINGS:
        lap(setting, 1)  # the first call of anything pays for imports and caches
    rounds = [{setting: lap(setting, rungs) for setting in SETTINGS} for _ in range(repetitions)]
    return [_speed(setting, rounds) for setting in SETTINGS]


def _speed(setting: Setting, rounds: Sequence[Mapping[Setting, Lap]]) -> Speed:
    laps = [laps[setting] for laps in rounds]
    return Speed(
        **setting._asdict(),
        supersteps=laps[0].supersteps,
        best=min(lap.each for lap in laps),
        median=median(lap.each for lap in laps),
        own=median(lap.own for lap in laps),
        ratio=_to_bare(setting, rounds) if setting.loop == "sdp" else None,
    )


def _to_bare(setting: Setting, rounds: Sequence[Mapping[Setting, Lap]]) -> float:
    bare = setting._replace(loop="bare")
    return median(laps[setting].each / laps[bare].each for laps in rounds)


_STORED = (
    "SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints",
    "SELECT sum(length(value)) FROM writes",
)
