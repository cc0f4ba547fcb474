"""Multi-hop questions: their records, question files, and corpora."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from certigraph.adapters.files import (
    JsonRow,
    cache_folder,
    expand_path,
    missing_data_fault,
    unknown_task_error,
    validate_row,
)
from certigraph.adapters.retrieval.bm25 import PassagePool, Retriever
from certigraph.adapters.retrieval.dense import combine_retrievers
from certigraph.adapters.retrieval.index import MANIFEST, build_index, open_corpus
from certigraph.adapters.retrieval.opensearch import open_address
from certigraph.adapters.retrieval.sources import passage_of_text
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record
from certigraph.state.search import Passage

# A multi-hop question with its paragraphs and its gold hops, in the same form for all benchmarks.


class GoldHop(Record):
    """One hop of the gold solution: a sub-question, its answer, and the paragraph that contains the answer.

    In the sub-question, `#1` stands for the answer of the first hop, and so on.
    """

    question: str
    answer: str
    passage: Passage
    """The paragraph. Its text is empty if the question file names a paragraph that it does not contain."""
    finding: str
    """What the paragraph says that answers the sub-question."""


class MultiHopQuestion(Record):
    """A multi-hop question with its gold solution; `answers` has the gold answer first, then its aliases."""

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str
    """Group for which metrics are reported separately: HotpotQA's type, or MuSiQue's number of hops."""
    passages: tuple[Passage, ...]
    """The distinct paragraphs that come with the question; empty if they have to be retrieved from a corpus."""
    hops: tuple[GoldHop, ...]
    """The hops of the gold solution, in an order in which they can be answered; empty if the file has none."""


def distinct_passages(paragraphs: Iterable[tuple[str, str]]) -> dict[str, Passage]:
    """Convert paragraphs (title, text) to distinct passages by id.

    A paragraph with neither title nor text is dropped; one of both is enough to find it.
    """
    passages = (passage_of_text(title, text) for title, text in paragraphs if title.strip() or text.strip())
    return {passage.id: passage for passage in passages}


def substitute_answers(question: str, answers: Sequence[str]) -> str:
    """Replace `#1`, `#2`, ... in a hop's question with the answers of the first hop, the second hop, ..."""
    for number, answer in reversed(list(enumerate(answers, 1))):
        question = question.replace(f"#{number}", answer)
    return question


# Finding question files, and validating their rows.


class IdentifiedRow(BaseModel):
    """A row of a file with an id; base of the rows of question files, submissions and predictions."""

    id: str


R = TypeVar("R", bound=IdentifiedRow)

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".json.gz")
"""Accepted suffixes of question files, the preferred one first."""


def find_question_file(benchmark: str, folder: Path, stems: Sequence[str]) -> Path:
    """Return the first existing question file in a folder.

    Args:
        benchmark: name of the benchmark, for messages.
        folder: the folder.
        stems: file names without suffix, the preferred one first; each may have any of SUFFIXES.

    Raises:
        Fault: ("data") there is no such file.
    """
    for stem in stems:
        for suffix in SUFFIXES:
            if (path := folder / f"{stem}{suffix}").is_file():
                return path
    names = ", ".join(f"{stem}{SUFFIXES[0]}" for stem in stems)
    expected = f"one of {names} (also as {', '.join(SUFFIXES[1:])})"
    raise missing_data_fault(benchmark, folder, expected) from FileNotFoundError(names)


def validate_rows(model: type[R], rows: Iterable[JsonRow]) -> list[tuple[JsonRow, R]]:
    """Validate rows as a model with an `id`, and return each with its model.

    Raises:
        Fault: ("data") a row is malformed, or two rows have the same id; the message names their places.
    """
    places: dict[str, str] = {}
    validated = [(row, validate_row(model, row)) for row in rows]
    for row, one in validated:
        if one.id in places:
            raise Fault("data", f"{row.where}: the id {one.id!r} is taken by {places[one.id]}: give each its own")
        places[one.id] = row.where
    return validated


# The questions of a benchmark by split.

Q = TypeVar("Q", bound=MultiHopQuestion)

SPLITS = ("dev", "train")
"""Names of the splits, the default first. No two questions of both splits together have the same id."""


class QuestionBank(Generic[Q]):
    """The questions of a benchmark by split and by id. A split is read when it is first needed.

    Args:
        name: name of the benchmark, for messages.
        read: function that returns the questions of a split by id. It raises Fault ("data") if the file is missing or
            malformed.
    """

    def __init__(self, name: str, read: Callable[[str], Mapping[str, Q]]) -> None:
        self.name = name
        self._read = cache(read)

    def split(self, name: str = "") -> Sequence[Q]:
        """Return the questions of a split, by default dev.

        Raises:
            UnknownName: there is no such split; the message lists the splits.
        """
        if name and name not in SPLITS:
            raise UnknownName(f"{self.name} has no split {name!r}; known: {', '.join(SPLITS)}")
        return tuple(self._read(name or SPLITS[0]).values())

    def question(self, id_: str) -> Q:
        """Return the question with an id, from any split that exists.

        Raises:
            UnknownName: there is no such question; the message lists some valid ids.
        """
        splits = self._readable()
        for questions in splits.values():
            if id_ in questions:
                return questions[id_]
        split, known = next(iter(splits.items()))
        raise unknown_task_error(self.name, id_, f"those of the question file, here {len(known)} in {split}", known)

    def all(self) -> Iterator[Q]:
        """Iterate over the questions of all splits that exist."""
        for questions in self._readable().values():
            yield from questions.values()

    def passages(self) -> dict[str, Passage]:
        """Return the distinct paragraphs of all splits that exist, by id."""
        return {passage.id: passage for question in self.all() for passage in question.passages}

    def _readable(self) -> Mapping[str, Mapping[str, Q]]:
        read, missing = {}, []
        for split in SPLITS:
            try:
                read[split] = self._read(split)
            except Fault as fault:
                if not isinstance(fault.__cause__, FileNotFoundError):  # a missing split is fine if another exists
                    raise
                missing.append(fault)
        if not read:
            raise missing[0]
        return read


# Retrievers for a question: over the paragraphs that come with it, or over a corpus on disk.

INDEX_VARIABLE = "CERTIGRAPH_INDEX"
"""Environment variable that names the index of the user's own corpus.

Its value is a folder that `certigraph index` wrote, or an index of an OpenSearch server, `https://HOST:9200/NAME`.
"""

MAX_RETRIEVERS = 256
"""Maximum number of cached retrievers. Building one takes a millisecond, computing its sentence vectors a second."""


class PassageCorpus(NamedTuple):
    """A corpus as a retriever, and its passages by id.

    `passages` is None if the corpus cannot list them; then it has no sentence vectors.
    """

    corpus: Retriever
    passages: Mapping[str, Passage] | None


class Retrievers:
    """The retrievers of a benchmark, for any weight `alpha` of BM25 against sentence vectors (None: BM25 alone).

    `pool` returns the retriever over the paragraphs of one question, `corpus` that over a corpus on disk. Passages
    whose title the query names come first. Among a question's own paragraphs, this raises the share of the gold
    paragraphs in the first two passages (0.72 instead of 0.63 on HotpotQA dev, 0.48 instead of 0.42 on MuSiQue dev).
    """

    def __init__(self, bank: QuestionBank[Any], source: str) -> None:
        """Create the retrievers for the questions of `bank`.

        Args:
            bank: the questions.
            source: where the questions come from, as given to `certigraph index`.
        """
        self._bank, self._source = bank, source
        self.pool = lru_cache(maxsize=MAX_RETRIEVERS)(self._pool)
        self._mixed = lru_cache(maxsize=MAX_RETRIEVERS)(self._mixture)
        self._library: PassageCorpus | None = None
        self._lock = Lock()

    def corpus(self, alpha: float | None) -> Retriever:
        """Return the retriever over the corpus named by CERTIGRAPH_INDEX, else over all paragraphs of the benchmark.

        The paragraphs are indexed on first use. Their sentence vectors are also computed on first use, about 15 per
        second and core, and saved. The user's own corpus is searched by BM25 alone. The attribute `name` of the
        retriever tells which method it uses.

        Args:
            alpha: weight of BM25 against sentence vectors, 0 to 1; None means BM25 alone.

        Raises:
            Fault: CERTIGRAPH_INDEX names no complete index, or tantivy is missing. The message has the command that
                helps.
        """
        with self._lock:
            self._library = self._library or self._opened()
            return self._mixed(alpha)

    def _pool(self, question: str, alpha: float | None) -> Retriever:
        passages = self._bank.question(question).passages
        lexical = PassagePool(passages)
        return lexical if alpha is None else combine_retrievers(lexical, passages, alpha)

    def _mixture(self, alpha: float | None) -> Retriever:
        assert self._library is not None, "opened by corpus()"
        corpus, passages = self._library
        if alpha is None or passages is None:
            return corpus
        return combine_retrievers(corpus, tuple(passages.values()), alpha, folder=cache_folder() / "vectors")

    def _opened(self) -> PassageCorpus:
        if given := os.environ.get(INDEX_VARIABLE):
            return PassageCorpus(_open_index(given), None)
        passages = self._bank.passages()
        # The folder is named after the paragraphs' ids, which are digests of their text, so that changed questions get
        # a new index.
        digest = hashlib.sha256("\n".join(passages).encode()).hexdigest()
        folder = cache_folder() / "indexes" / f"{self._bank.name}-{digest[:12]}"
        if not (folder / MANIFEST).is_file():
            folder.parent.mkdir(parents=True, exist_ok=True)
            build_index(passages.values(), folder, source=self._source)
        return PassageCorpus(open_corpus(folder), passages)


def _open_index(index: str) -> Retriever:
    return open_address(index) if "://" in index else open_corpus(expand_path(index))
