"""The engines that are measured beside each other: how each builds, opens and answers."""

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.corpus import open_corpus
from certigraph.adapters.retrieval.index import build_index
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.state.passages import Passage

Search = Callable[[str, int], list[str]]
"""A query and k to ids, the best first."""


class Engine(NamedTuple):
    """`build` writes a folder that `open` reads; without one the engine is built from the passages as it opens."""

    package: str
    open: Callable[[Path, Iterable[Passage]], Search]
    build: Callable[[Iterable[Passage], Path], object] | None = None
    shares: str = ""
    """The engine whose folder this one reads."""
    queries: int = 200
    """At most: rank-bm25 takes half a second for one."""
    peer: bool = False
    """Measured to compare with, where it is installed and the corpus is not too large for it."""


def _plain(folder: Path, passages: Iterable[Passage]) -> Search:
    return _ids(open_corpus(folder, boost_titles=False))


def _two_stage(folder: Path, passages: Iterable[Passage]) -> Search:
    return _ids(open_corpus(folder))


def _pool(folder: Path, passages: Iterable[Passage]) -> Search:
    return _ids(Pool(list(passages), boost_titles=False))


def _ids(retriever: Retriever) -> Search:
    return lambda query, k: [hit.passage.id for hit in retriever.search(query, k)]


def _build_bm25s(passages: Iterable[Passage], folder: Path) -> None:
    engine = importlib.import_module("bm25s").BM25(method="lucene", backend="numpy")
    engine.index([terms(f"{passage.title} {passage.text}") for passage in passages], show_progress=False)
    engine.save(str(folder))


def _open_bm25s(folder: Path, passages: Iterable[Passage]) -> Search:
    engine: Any = importlib.import_module("bm25s").BM25.load(str(folder), mmap=True)

    def search(query: str, k: int) -> list[str]:
        found, _ = engine.retrieve([terms(query)], k=k, show_progress=False)
        return list(map(str, found[0].tolist()))

    return search


ENGINES = {
    "tantivy": Engine("tantivy", _plain, build_index),
    "tantivy, two-stage": Engine("tantivy", _two_stage, shares="tantivy"),
    "bm25s": Engine("bm25s", _open_bm25s, _build_bm25s, peer=True),
    "rank-bm25": Engine("rank_bm25", _pool, queries=5, peer=True),
}
"""Ours are certigraph's corpus and, over rank-bm25, its pool; all by the same analysis of the same passages."""
