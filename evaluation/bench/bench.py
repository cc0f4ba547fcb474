"""`certigraph bench`: what certigraph's own machinery costs, beside a bare LangGraph loop and a plain Python loop.

All loops climb the same ladder, without a model. Their laps take turns, so that a slower machine slows all alike.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import typer
from rich.console import Console, Group
from rich.table import Table

from certigraph.evaluation.bench.episodes import Throughput, throughputs
from certigraph.evaluation.bench.laps import PER_RUNG, saved_lap
from certigraph.evaluation.bench.speeds import Speed, measured
from certigraph.evaluation.bench.store import BIG, USUAL, Latency, store_latencies
from certigraph.state.records import Record


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
    throughputs: tuple[Throughput, ...] = ()


def bench(supersteps: int = 1_000, *, repetitions: int = 5, big: bool = False, episodes: int = 0) -> Bench:
    """Measure speed, checkpoint size, the TravelPlanner store and whole evaluations.

    Args:
        supersteps: of each loop, rounded down to whole rungs of four.
        repetitions: laps of each loop.
        big: also a store of 300 cities and 3.8 million flights, which takes a while to build.
        episodes: of an evaluation under inspect_ai, once one at a time and once sixteen at once; 0: none.

    Raises:
        Fault: a loop did not reach the top of the ladder.
    """
    rungs = max(supersteps // PER_RUNG, 1)
    return Bench(
        speeds=tuple(measured(rungs, repetitions)),
        payloads=tuple(payload(max(rungs // part, 1)) for part in (4, 2, 1)),
        latencies=tuple(found for size in ([USUAL, BIG] if big else [USUAL]) for found in store_latencies(size)),
        throughputs=tuple(throughputs(episodes)) if episodes else (),
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
    return Group("Milliseconds per superstep", speeds, "", payloads, "", stores, *_episodes(done))


def _episodes(done: Bench) -> Iterator[Table | str]:
    if not done.throughputs:
        return
    table = Table("episodes", "at once", "seconds", "ms each", "CPU ms each", box=None)
    for x in done.throughputs:
        table.add_row(f"{x.episodes:,}", str(x.at_once), f"{x.seconds:.1f}", f"{x.each:.1f}", f"{x.cpu_each:.1f}")
    yield from ("", table)


_STORED = (
    "SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints",
    "SELECT sum(length(value)) FROM writes",
)
