"""What one process does when an engine is measured: build an index, or open one and answer queries."""

import resource
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from certigraph.evaluation.bench.retrieval_corpus import Abstracts, Query
from certigraph.evaluation.bench.retrieval_engines import ENGINES, Search
from certigraph.state.passages import Passage
from certigraph.state.records import Record

K = 10


class Built(Record):
    """Seconds in all, those of them that generating took, and megabytes: at most in memory, and on disk."""

    seconds: float
    generating: float
    peak: float
    disk: float


class Searched(Record):
    """Milliseconds to open and to answer (median, 95th percentile); the part of queries whose passage was in ten."""

    opening: float
    bare: tuple[float, float]
    laden: tuple[float, float]
    found: float


class Memory(Record):
    """Megabytes of a process that no other shares, and the same with its part of what is shared (the kernel's PSS)."""

    private: float
    proportional: float


def build(name: str, size: int, folder: Path) -> tuple[Built, None]:
    """Build an engine's index of so many generated passages; nothing of it stays in memory."""
    passages, began = _Timed(Abstracts(size)), perf_counter()
    write = ENGINES[name].build
    if write:
        write(passages, folder)
    seconds = perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    disk = sum(file.stat().st_size for file in folder.rglob("*")) / 1e6
    return Built(seconds=seconds, generating=passages.seconds, peak=peak, disk=disk), None


def search(name: str, size: int, folder: Path, queries: Sequence[Query]) -> tuple[Searched, Search]:
    """Open an index and answer queries; what was opened comes back too, so that it stays in memory."""
    engine = ENGINES[name]
    passages = () if engine.build or engine.shares else list(Abstracts(size))
    began = perf_counter()
    answer = engine.open(folder, passages)
    opening = 1_000 * (perf_counter() - began)
    found = sum(query.id in answer(query.bare, K) for query in queries) / len(queries)
    bare, laden = (_latencies(answer, [query[column] for query in queries]) for column in (0, 1))
    return Searched(opening=opening, bare=bare, laden=laden, found=found), answer


def memory() -> Memory:
    """What this process holds now."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    megabytes = {line.split(":")[0]: int(line.split()[1]) / 1_024 for line in lines}
    private = megabytes["Private_Clean"] + megabytes["Private_Dirty"]
    return Memory(private=private, proportional=megabytes["Pss"])


def _latencies(answer: Search, queries: Sequence[str]) -> tuple[float, float]:
    taken = []
    for query in queries:
        began = perf_counter()
        answer(query, K)
        taken.append(1_000 * (perf_counter() - began))
    cuts = quantiles(taken, n=100, method="inclusive")
    return cuts[49], cuts[94]


class _Timed:
    """Passages, and the seconds that making them took."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages, self.seconds = passages, 0.0

    def __iter__(self) -> Iterator[Passage]:
        source = iter(self._passages)
        while True:
            began = perf_counter()
            passage = next(source, None)
            self.seconds += perf_counter() - began
            if passage is None:
                return
            yield passage
