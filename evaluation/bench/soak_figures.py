"""The figures of a soak, from the lines of its runs and what they left on disk."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import quantiles

from certigraph.evaluation.bench.soak_held import Held
from certigraph.evaluation.bench.soak_records import Disk, Overhead, Plan, Row, Soak, Window

PARTS = 10
"""Windows of a soak; memory is to stay as it is after the first."""


def figures(plan: Plan, begun: int, rows: Sequence[Row], disk: Disk, held: tuple[Held, Held], seconds: float) -> Soak:
    """The figures; `held` are the readings before the first run and after the last. At least one run has ended."""
    start, end = held
    windows = tuple(_windows(_ends(plan, len(rows)), start.cpu, rows))
    warm = min(plan.episodes // PARTS, len(rows) - 1)
    base = rows[warm - 1].memory
    return Soak(
        **plan._asdict(),
        begun=begun,
        ended=len(rows),
        lost=sum(row.run not in disk.finished for row in rows),
        endings=_endings(rows),
        seconds=seconds,
        busy=(end.cpu - start.cpu) / seconds,
        load=os.getloadavg(),
        windows=windows,
        flat=windows[-2].cpu_each / windows[1].cpu_each if len(windows) > 3 else 1.0,
        grown=end.memory / base - 1,
        most_grown=max(row.memory for row in rows[warm:]) / base - 1,
        run=_overhead([row.seconds - plan.delay * len(row.calls) for row in rows]),
        call=_overhead([seconds - plan.delay for row in rows for seconds in row.calls]),
        trajectories=disk.trajectories,
        rest=disk.rest,
        start=start,
        end=end,
    )


def _ends(plan: Plan, ended: int) -> list[int]:
    """Where windows end: after the first hundredth, every tenth, and where no new run takes a place that falls free."""
    size = max(plan.episodes // PARTS, 1)
    full = max(ended - plan.at_once, 0)
    tenths = [end for end in range(size, full, size) if end <= full - size // 2]
    return sorted(end for end in {max(size // PARTS, 1), *tenths, full, ended} if 0 < end <= ended)


def _windows(ends: Sequence[int], cpu: float, rows: Sequence[Row]) -> Iterator[Window]:
    used = [cpu, *(row.cpu for row in rows)]
    for first, end in pairwise([0, *ends]):
        each = 1_000 * (used[end] - used[first]) / (end - first)
        yield Window(first=first, end=end, cpu_each=each, memory=rows[end - 1].memory)


def _endings(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    counts = Counter((row.graph, row.ending) for row in rows)
    graphs = dict.fromkeys(row.graph for row in sorted(rows, key=lambda row: row.number))
    return {graph: {ending: n for (of, ending), n in counts.most_common() if of == graph} for graph in graphs}


def _overhead(seconds: Sequence[float]) -> Overhead:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    return Overhead(p50=1_000 * cuts[49], p99=1_000 * cuts[98], most=1_000 * max(seconds))
