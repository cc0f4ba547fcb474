"""`certigraph bench --retrieval N`: what searching N generated abstracts takes, beside rank-bm25 and bm25s."""

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import typer
from rich.console import Console, Group
from rich.table import Table

from certigraph.evaluation.bench.retrieval_corpus import Abstracts, Query
from certigraph.evaluation.bench.retrieval_engines import ENGINES
from certigraph.evaluation.bench.retrieval_processes import in_processes
from certigraph.evaluation.bench.retrieval_workers import Built, Memory, Searched, build, search
from certigraph.state.records import Record

WORKERS = 2
"""Processes that search the same files at once, so that the pages they share do not count as their own."""


class Measured(Record):
    """One engine. Of its two workers the slower and the larger count."""

    engine: str
    built: Built | None
    searched: Searched
    memory: Memory


class RetrievalBench(Record):
    """All engines on the same passages and queries, and why some were left out."""

    passages: int
    queries: int
    rows: tuple[Measured, ...]
    left_out: tuple[str, ...] = ()


def bench_retrieval(
    passages: int = 84_000,
    *,
    queries: int = 200,
    big: bool = False,
    said: Callable[[str], None] = lambda line: None,
) -> RetrievalBench:
    """Measure every engine on generated abstracts of about 100 words, each in processes of its own.

    Args:
        passages: how many.
        queries: of ten words from one abstract, and the same among eight stopwords. rank-bm25 gets five.
        big: only the engine on disk: rank-bm25 and bm25s take tens of gigabytes at five million.
        said: called with a line before each engine.

    Raises:
        Fault: tantivy is missing, or a process died.
    """
    asked = Abstracts(passages).queries(queries)
    chosen, left_out = _chosen(big=big)
    with TemporaryDirectory() as folder:
        rows = tuple(_measured(name, passages, asked, Path(folder), said) for name in chosen)
    return RetrievalBench(passages=passages, queries=len(asked), rows=rows, left_out=tuple(left_out))


def _chosen(*, big: bool) -> tuple[list[str], list[str]]:
    missing = {name for name, engine in ENGINES.items() if engine.peer and find_spec(engine.package) is None}
    left_out = [f"{name} is not installed: pip install {ENGINES[name].package}" for name in sorted(missing)]
    large = {name for name, engine in ENGINES.items() if engine.peer and big} - missing
    left_out += [f"{name} was not measured: it is not for corpora this large" for name in sorted(large)]
    return [name for name in ENGINES if name not in missing | large], left_out


def _measured(name: str, size: int, asked: list[Query], folder: Path, said: Callable[[str], None]) -> Measured:
    engine = ENGINES[name]
    at = folder / (engine.shares or name)
    said(f"{name}: {size:,} passages")
    built: Built | None = in_processes(1, build, name, size, at)[0][0] if engine.build else None
    workers = WORKERS if built or engine.shares else 1
    found = in_processes(workers, search, name, size, at, asked[: engine.queries])
    searched = max((figures for figures, _ in found), key=lambda figures: figures.bare)
    held = max((memory for _, memory in found), key=lambda memory: memory.private)
    return Measured(engine=name, built=built, searched=searched, memory=held)


def print_retrieval(done: RetrievalBench, *, as_json: bool) -> None:
    """One JSON object, or tables."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        Console(width=150).print(table(done))


def table(done: RetrievalBench) -> Group:
    """What was measured, for people. rank-bm25 has no form on disk: it is built each time that it is opened."""
    heads = ("engine", "build s", "generating", "peak MB", "disk MB", "open ms", "p50 ms", "p95 ms")
    shown = Table(*heads, "p50 laden", "p95 laden", "found", "private MB", "PSS MB", box=None)
    for row in done.rows:
        shown.add_row(row.engine, *_cells(row))
    told = f"{done.passages:,} abstracts, {done.queries} queries of ten words, bare and laden with eight stopwords"
    return Group(told, shown, *done.left_out)


def _cells(row: Measured) -> Iterator[str]:
    built, searched = row.built, row.searched
    sizes = (built.seconds, built.generating, built.peak, built.disk) if built else ()
    yield from [f"{value:,.1f}" for value in sizes] or [""] * 4
    yield f"{searched.opening:,.1f}"
    yield from (f"{value:,.2f}" for value in (*searched.bare, *searched.laden))
    yield f"{searched.found:.2f}"
    yield from (f"{value:,.0f}" for value in (row.memory.private, row.memory.proportional))
