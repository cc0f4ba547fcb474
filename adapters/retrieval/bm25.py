"""Passages by BM25 in memory: text analysis, titles and the protocol of retrievers."""

import importlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from certigraph.state.records import Fault, UnknownName
from certigraph.state.search import Passage

# What every retriever offers.


class Hit(NamedTuple):
    """A passage found, and how well it fits the query in the retriever's own units: higher is better."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """Finds passages by a query. Its methods block and may be called from any thread."""

    name: str

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages, the best first, equal scores in the corpus's order; none for a query of stopwords."""
        ...

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the corpus has none."""
        ...


# Where each passage stands in its corpus.


def places_of(passages: Sequence[Passage]) -> dict[str, int]:
    """The place of each passage by its id. Raises Fault where there are no passages, or two with one id."""
    if not passages:
        raise Fault("data", "no passages to search: give a corpus of at least one")
    places: dict[str, int] = {}
    for place, passage in enumerate(passages):
        if places.setdefault(passage.id, place) != place:
            raise Fault("data", f"two passages have the id {passage.id!r}: give each its own")
    return places


# How text becomes terms: one analysis for every engine, so that they rank the same words.
#
# Lower-cased, accent-folded runs of letters and digits; English stopwords removed; no stemming (facts: stemming helps
# HotpotQA and hurts MuSiQue, neither significantly). rank-bm25 weighs a stopword like a word of one document in
# seven, other engines next to nothing: with stopwords removed their first ten passages agree.

ANALYZER = "english-1"
"""Names this analysis in the manifest of an index. A change below needs a new name, and indexes are built again."""

_FUNCTION_WORDS = """
a an the this that these those
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves
who whom whose which what when where why how
am is are was were be been being do does did doing done have has had having
can could may might must shall should will would
and or but nor so if then than because while although though unless whether
of at by for with about against between into through during before after above below to from up down in out on off
over under upon within without toward towards among along across around near per via as until since
again further once here there both each few more most other another some any such no not only own same too very
just also all every either neither ever never however
s t d m ll re ve
"""

STOPWORDS = frozenset(_FUNCTION_WORDS.split())
"""Function words, question words, auxiliaries, and what is left of contractions when the apostrophe splits them."""

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ł": "l",
        "ħ": "h",
        "\u0131": "i",
        "ŋ": "n",
    }
)
"""Letters with a plain spelling that Unicode does not decompose."""


def terms(text: str) -> list[str]:
    """The words of a text without stopwords, in order, repeated as often as they occur."""
    return [word for word in words(text) if word not in STOPWORDS]


def words(text: str) -> list[str]:
    """Lower-cased, accent-folded runs of letters and digits, stopwords included."""
    return _WORD.findall(folded(text))


def folded(text: str) -> str:
    """Lower case without accents: "Škoda" and "SKODA" are "skoda"."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text).lower()).translate(_LETTERS)


# Passages whose title a question names come first: two-stage retrieval over any BM25.
#
# Stage one finds the titles among the question's word sequences, longest first and none overlapping; a title matches
# whole or without its disambiguating suffix, "Alien (film)" by "alien film" and by "alien". Stage two is BM25 over
# title and text. On HotpotQA the first two passages then hold 7 to 10 points more of the evidence.

MOST_TITLE_HITS = 3
LONGEST_TITLE = 10
"""Words of a question that are held against titles at once."""

_SUFFIX = re.compile(r"\s+\([^()]*\)\s*$")
_RUN = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]+)*")
_SENTENCE_END = re.compile(r"[.?!]")


def title_keys(title: str) -> tuple[str, ...]:
    """What a title is found by: its words, and its words without a suffix in brackets. None where it has no word."""
    spellings = (" ".join(words(spelling)) for spelling in (title, _SUFFIX.sub("", title)))
    return tuple(dict.fromkeys(key for key in spellings if key))


def named_keys(question: str, known: Callable[[str], bool]) -> list[str]:
    """The keys of titles that a question names.

    Args:
        question: in words.
        known: whether a title of the corpus has a key; asked for each sequence of up to ten words.
    """
    asked = list(_asked(question))
    taken: set[int] = set()
    found = []
    for length in range(min(LONGEST_TITLE, len(asked)), 0, -1):
        for start in range(len(asked) - length + 1):
            span = range(start, start + length)
            if taken.isdisjoint(span) and (length > 1 or asked[start].name):
                key = " ".join(asked[place].word for place in span)
                if known(key):
                    taken.update(span)
                    found.append(key)
    return found


def titles_first(named: Sequence[Hit], ranked: Sequence[Hit], k: int) -> list[Hit]:
    """At most three passages named by title, then the ranking without them, `k` in all.

    Named passages are raised together until none scores below the ranking, so that scores fall from first to last.
    """
    first = named[:MOST_TITLE_HITS]
    ids = {hit.passage.id for hit in first}
    rest = [hit for hit in ranked if hit.passage.id not in ids]
    lift = max(0.0, rest[0].score - first[-1].score) if first and rest else 0.0
    return [*(Hit(hit.passage, hit.score + lift) for hit in first), *rest][:k]


class _Asked(NamedTuple):
    word: str
    name: bool
    """Capitalised inside a sentence: alone, only such a word may be a title."""


def _asked(question: str) -> Iterator[_Asked]:
    end = 0
    for run in _RUN.finditer(question):
        opens = end == 0 or _SENTENCE_END.search(question, end, run.start()) is not None
        end = run.end()
        yield from (_Asked(word, run.group()[0].isupper() and not opens) for word in words(run.group()))


# BM25 in memory, over the few passages that come with a question.


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
