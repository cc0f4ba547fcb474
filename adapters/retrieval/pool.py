"""BM25 in memory, over the few passages that come with a question."""

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.places import places_of
from certigraph.adapters.retrieval.protocol import Hit
from certigraph.adapters.retrieval.titles import named_keys, title_keys, titles_first
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.passages import Passage


class Pool:
    """BM25 over title and text by rank-bm25 (Okapi, k1 1.5, b 0.75); its scores need not be positive.

    A query takes 0.3 ms over 10 passages and 100 ms over 10,000: index a corpus that large (`certigraph index`).
    """

    def __init__(self, passages: Sequence[Passage], *, boost_titles: bool = True) -> None:
        """Take passages in the order that breaks ties; `boost_titles`: those whose title a query names come first.

        Raises:
            Fault: there are no passages, none has a term, or two have the same id.
        """
        self.name = "bm25+titles" if boost_titles else "bm25"
        self._boost = boost_titles
        self._passages = tuple(passages)
        self._places = places_of(self._passages)
        self._titled = _titled(self._passages) if boost_titles else {}
        documents = [terms(f"{passage.title} {passage.text}") for passage in self._passages]
        if not any(documents):
            raise Fault("data", f"{len(documents)} passages without a term to search: pass some that have a text")
        self._bm25: Any = importlib.import_module("rank_bm25").BM25Okapi(documents)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages that share a term with the query or are named by it, the best first."""
        asked = terms(query)
        if not asked or k < 1:
            return []
        scores = self._bm25.get_scores(asked)
        # By shared terms and not by score: in a pool of one passage BM25Okapi scores every match below zero.
        matching = (n for n, counts in enumerate(self._bm25.doc_freqs) if not counts.keys().isdisjoint(asked))
        ranked = self._hits(matching, scores, k)
        return titles_first(self._hits(self._named(query), scores, k), ranked, k) if self._boost else ranked

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the pool has none."""
        if id not in self._places:
            raise UnknownName(f"no passage {id!r} among these {len(self._passages)}: {', '.join(self._places)}")
        return self._passages[self._places[id]]

    def _hits(self, places: Iterable[int], scores: Any, most: int) -> list[Hit]:
        best = sorted(places, key=lambda place: (-scores[place], place))[:most]
        return [Hit(self._passages[place], float(scores[place])) for place in best]

    def _named(self, query: str) -> set[int]:
        return {place for key in named_keys(query, self._titled.__contains__) for place in self._titled[key]}


def _titled(passages: Sequence[Passage]) -> dict[str, list[int]]:
    titled: dict[str, list[int]] = {}
    for place, passage in enumerate(passages):
        for key in title_keys(passage.title):
            titled.setdefault(key, []).append(place)
    return titled
