"""A repository as passages to search: pieces of files of forty lines."""

from collections.abc import Iterator

from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.swe_qa.repository import Lines, Repository, passage_of
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.passages import Passage

CHUNK = 40
"""Lines of a passage: about 400 tokens of code."""

MOST_CHUNKS = 30_000
"""BM25 in memory takes 0.1 s a query over so many, and 300 MB."""


class RepositoryLibrary:
    """BM25 over the pieces of every file; a piece's title is its path and lines, which are searched too."""

    name = "bm25"

    def __init__(self, repository: Repository) -> None:
        """Read every file. Raises Fault where there is none, or more than 30,000 pieces."""
        passages = list(_pieces(repository))
        if len(passages) > MOST_CHUNKS:
            told = f"{repository.root} makes {len(passages):,} pieces of {CHUNK} lines, more than {MOST_CHUNKS:,}"
            raise Fault("data", f"{told}: give a part of it")
        self._repository = repository
        self._pool = Pool(passages, boost_titles=False)
        self.search = self._pool.search

    def passage(self, id: str) -> Passage:
        """The lines that an id names, `path:3-40`, a piece's or any other. Raises UnknownName where there are none."""
        path, _, span = id.rpartition(":")
        first, _, last = span.partition("-")
        last = last or first
        if self._repository.path_of(path) != path or not (_is_line(first) and _is_line(last)):
            raise UnknownName(f"no passage {id!r} in {self._repository.root}; ids are PATH:FIRST-LAST or PATH:LINE")
        return self._repository.passage(Lines(path, int(first), int(last)))


def _is_line(text: str) -> bool:
    return text.isdecimal() and len(text) < 10  # Python refuses to read numbers of thousands of digits


def _pieces(repository: Repository) -> Iterator[Passage]:
    for path in repository.paths:
        lines = repository.lines(path)
        for start in range(0, len(lines), CHUNK):
            piece = lines[start : start + CHUNK]
            if any(map(str.strip, piece)):
                yield passage_of(Lines(path, start + 1, start + len(piece)), piece)
