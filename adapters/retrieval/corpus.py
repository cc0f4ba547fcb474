"""BM25 over a corpus on disk. The files are memory-mapped: opening reads little, and processes share the pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.engine import BODY, ID, PLACE, TITLE_KEY, any_of, passage_of, tantivy
from certigraph.adapters.retrieval.manifest import Manifest, index_command, read_manifest
from certigraph.adapters.retrieval.protocol import Hit
from certigraph.adapters.retrieval.titles import MOST_TITLE_HITS, named_keys, titles_first
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.passages import Passage

MOST_TIES = 1_000
"""Passages of one score that are put in the corpus's order; of more than these, the index's order decides."""


def open_corpus(folder: str | Path, *, boost_titles: bool = True) -> "Corpus":
    """The corpus that `certigraph index` wrote to a folder; passages whose title a query names come first.

    Raises:
        Fault: the folder has no whole index of this version, or tantivy is missing; the message has the command.
    """
    folder = Path(folder)
    manifest, library = read_manifest(folder), tantivy()
    again = index_command(manifest.source, folder)
    try:
        if not library.Index.is_compatible(str(folder)):
            raise Fault("data", f"{folder} was written by {manifest.engine}, here is {library.__version__}: {again}")
        index = library.Index.open(str(folder))
    except (OSError, ValueError) as error:
        raise Fault("data", f"the index {folder} is damaged ({error}): {again}") from error
    index.config_reader("manual")  # the default starts a thread that watches for commits
    return Corpus(index, manifest, boost_titles=boost_titles)


class Corpus:
    """BM25 over title and text by tantivy (Lucene's idf, k1 1.2, b 0.75). Any number of threads may search it."""

    def __init__(self, index: Any, manifest: Manifest, *, boost_titles: bool) -> None:
        self.name = "bm25+titles" if boost_titles else "bm25"
        self.manifest = manifest
        self._boost = boost_titles
        self._schema, self._searcher = index.schema, index.searcher()
        self._library = tantivy()

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages that share a term with the query or are named by it, the best first."""
        asked = terms(query)
        if not asked or k < 1:
            return []
        clauses = any_of(self._schema, BODY, asked)
        ranked = self._best(clauses, k)
        return titles_first(self._named(query, clauses), ranked, k) if self._boost else ranked

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the corpus has none."""
        for _, address in self._searcher.search(self._boolean(any_of(self._schema, ID, [id])), 1, count=False).hits:
            return passage_of(self._searcher.doc(address))
        raise UnknownName(f"no passage {id!r} in the corpus {self.manifest.source}; search(query, k) finds ids")

    def _named(self, query: str, clauses: Sequence[Any]) -> list[Hit]:
        keys = named_keys(query, lambda key: self._searcher.doc_freq(TITLE_KEY, key) > 0)
        if not keys:
            return []
        titled = self._library.Query.const_score_query(self._boolean(any_of(self._schema, TITLE_KEY, keys)), 0.0)
        return self._best([(self._library.Occur.Must, titled), *clauses], MOST_TITLE_HITS)

    def _best(self, clauses: Sequence[Any], k: int) -> list[Hit]:
        best = self._in_order(self._boolean(clauses), k)
        return [Hit(passage_of(self._searcher.doc(address)), score) for score, address in best]

    def _in_order(self, query: Any, k: int) -> list[tuple[float, Any]]:
        """Scores and addresses, equal scores by place; the ones that tie with the last are fetched to choose from."""
        found = self._searcher.search(query, k + 1, count=False).hits
        if len(found) > k and found[k][0] == found[k - 1][0]:
            found = self._searcher.search(query, k + MOST_TIES, count=False).hits
        places = self._searcher.fast_field_values(PLACE, [address for _, address in found])
        ordered = sorted(zip(found, places, strict=True), key=lambda hit: (-hit[0][0], hit[1]))
        return [hit for hit, _ in ordered[:k]]

    def _boolean(self, clauses: Sequence[Any]) -> Any:
        return self._library.Query.boolean_query(list(clauses))
