"""Where the passages of a question are looked for: among its own paragraphs, or in a corpus on disk."""

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from certigraph.adapters.caching import cache_folder, expanded
from certigraph.adapters.retrieval.corpus import open_corpus
from certigraph.adapters.retrieval.hybrid import mixed
from certigraph.adapters.retrieval.index import build_index
from certigraph.adapters.retrieval.manifest import MANIFEST
from certigraph.adapters.retrieval.opensearch import at_address
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.adapters.searching.banks import QuestionBank
from certigraph.state.passages import Passage

INDEX = "CERTIGRAPH_INDEX"
"""Environment variable: the index of a corpus of one's own, made by `certigraph index`: a folder, or an index of an
OpenSearch server as `https://HOST:9200/NAME`."""

MOST_RETRIEVERS = 256
"""Pools kept at once; one takes a millisecond to make, its vectors a second."""


class Library(NamedTuple):
    """A corpus, and its passages where they can be listed, which vectors need."""

    corpus: Retriever
    passages: Mapping[str, Passage] | None


class Retrievers:
    """The retrievers of a benchmark's questions, for a weight of BM25 against vectors; None: BM25 alone.

    Passages whose title the query names come first, also in a question's own pool: there it puts 5 to 11 points more
    of the evidence into the first two passages (0.72 for 0.63 on HotpotQA dev, 0.48 for 0.42 on MuSiQue dev).
    """

    def __init__(self, bank: QuestionBank[Any], source: str) -> None:
        """Of a bank of questions; `source` is where it is from, as `certigraph index` takes it."""
        self._bank, self._source = bank, source
        self.pool = lru_cache(maxsize=MOST_RETRIEVERS)(self._pool)
        self._mixed = lru_cache(maxsize=MOST_RETRIEVERS)(self._mixture)
        self._library: Library | None = None
        self._lock = Lock()

    def corpus(self, alpha: float | None) -> Retriever:
        """The corpus that CERTIGRAPH_INDEX names, else the benchmark's own paragraphs, indexed on first use.

        Vectors are made on first use too, about 15 a second and core, and kept. A corpus of one's own is searched by
        BM25 alone. The retriever's `name` tells.

        Raises:
            Fault: no whole index is at CERTIGRAPH_INDEX, or tantivy is missing; with the command that helps.
        """
        with self._lock:
            self._library = self._library or self._opened()
            return self._mixed(alpha)

    def _pool(self, question: str, alpha: float | None) -> Retriever:
        passages = self._bank.question(question).passages
        lexical = Pool(passages)
        return lexical if alpha is None else mixed(lexical, passages, alpha)

    def _mixture(self, alpha: float | None) -> Retriever:
        assert self._library is not None, "opened by corpus()"
        corpus, passages = self._library
        if alpha is None or passages is None:
            return corpus
        return mixed(corpus, tuple(passages.values()), alpha, folder=cache_folder() / "vectors")

    def _opened(self) -> Library:
        if given := os.environ.get(INDEX):
            return Library(_named(given), None)
        passages = self._bank.passages()
        # Named after what is in it, for an id is a digest of what a paragraph says: other questions, another index.
        digest = hashlib.sha256("\n".join(passages).encode()).hexdigest()
        folder = cache_folder() / "indexes" / f"{self._bank.name}-{digest[:12]}"
        if not (folder / MANIFEST).is_file():
            folder.parent.mkdir(parents=True, exist_ok=True)
            build_index(passages.values(), folder, source=self._source)
        return Library(open_corpus(folder), passages)


def _named(index: str) -> Retriever:
    return at_address(index) if "://" in index else open_corpus(expanded(index))
