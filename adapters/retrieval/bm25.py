"""BM25 over passages in memory, text analysis, matching of titles, and the protocol of retrievers."""

import importlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import Passage

# Protocol of retrievers.


class PassageHit(NamedTuple):
    """A passage that matches a query, and its score in the retriever's own units: higher is better."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """Searches a corpus of passages by a query. Its methods block and may be called from any thread."""

    name: str

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return at most `k` passages, best first, equal scores in corpus order; none for a query of stopwords."""
        ...

    def passage(self, id: str) -> Passage:
        """Return the passage with an id. Raises UnknownName if the corpus has none."""
        ...


def positions_of(passages: Sequence[Passage]) -> dict[str, int]:
    """Return the position of each passage by its id. Raises Fault if there are no passages, or two have the same id."""
    if not passages:
        raise Fault("data", "no passages to search: give a corpus of at least one")
    positions: dict[str, int] = {}
    for position, passage in enumerate(passages):
        if positions.setdefault(passage.id, position) != position:
            raise Fault("data", f"two passages have the id {passage.id!r}: give each a unique id")
    return positions


# Text analysis, equal for every engine, so that they rank the same words.
#
# Lower-cased, accent-folded runs of letters and digits; English stopwords removed; no stemming (facts: stemming helps
# HotpotQA and hurts MuSiQue, neither significantly). rank-bm25 weights a stopword like a word of one document in seven,
# other engines almost zero: with stopwords removed their first ten passages agree.

ANALYZER = "english-1"
"""Name of this text analysis in the manifest of an index. A change of the analysis needs a new name."""

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
"""Words that are not searched for: function words, question words, auxiliaries, and parts of contractions such as "ll".
"""

_WORD = re.compile(r"[^\W_]+")
_ASCII_WORDS = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
"""Maps letters and digits to lower case and the rest of ASCII to spaces: `translate` is faster than a pattern."""

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
"""Letters that Unicode does not decompose, and their plain spellings."""


def terms(text: str) -> list[str]:
    """Return the words of a text (see `words`) without stopwords, in order and with repetitions."""
    return [word for word in words(text) if word not in STOPWORDS]


def words(text: str) -> list[str]:
    """Return the lower-cased, accent-folded runs of letters and digits, stopwords included."""
    return text.translate(_ASCII_WORDS).split() if text.isascii() else _WORD.findall(fold_text(text))


def fold_text(text: str) -> str:
    """Convert to lower case without accents: "Škoda" and "SKODA" become "skoda"."""
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text).lower()).translate(_LETTERS)


# Titles that a question names come first: two-stage retrieval over any BM25.
#
# Stage one finds titles in the question's word sequences, longest first and without overlap; a title matches completely
# or without its disambiguating suffix, "Alien (film)" by "alien film" and by "alien". Stage two is BM25 over title and
# text. On HotpotQA the first two passages then contain 7 to 10 points more of the evidence.

MAX_TITLE_HITS = 3
"""Maximum number of passages that are ranked first because of their title."""
MAX_TITLE_WORDS = 10
"""Maximum number of words of a question that are compared with titles."""

_SUFFIX = re.compile(r"\s+\([^()]*\)\s*$")
_RUN = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]+)*")
_SENTENCE_END = re.compile(r"[.?!]")


def title_keys(title: str) -> tuple[str, ...]:
    """Return the keys by which a title is found: its words, and its words without a suffix in brackets.

    A key is one string of words separated by spaces. The result is empty if the title has no word.
    """
    spellings = dict.fromkeys((title, _SUFFIX.sub("", title)))
    return tuple(dict.fromkeys(key for key in (" ".join(words(spelling)) for spelling in spellings) if key))


def find_title_keys(question: str, known: Callable[[str], bool]) -> list[str]:
    """Return the keys (`title_keys`) of titles that a question names, longer ones first and without overlap.

    Args:
        question: the question.
        known: returns whether any title of the corpus has a key; called for sequences of up to ten words.
    """
    tokens = list(_query_words(question))
    spellings = [token.word for token in tokens]
    used_positions: set[int] = set()
    keys = []
    for length in range(min(MAX_TITLE_WORDS, len(tokens)), 0, -1):
        for start in range(len(tokens) - length + 1):
            span = range(start, start + length)
            if used_positions.isdisjoint(span) and (length > 1 or tokens[start].name):
                key = " ".join(spellings[start : start + length])
                if known(key):
                    used_positions.update(span)
                    keys.append(key)
    return keys


def rank_titles_first(named: Sequence[PassageHit], ranked: Sequence[PassageHit], k: int) -> list[PassageHit]:
    """Return the first three passages of `named`, then those of `ranked` that are not among them, `k` in total.

    The same amount is added to the scores of the passages from `named`, so that none is below a score of the others.

    Args:
        named: passages whose title the query names, best first.
        ranked: passages that match the query, best first.
        k: maximum number of passages.
    """
    first = named[:MAX_TITLE_HITS]
    ids = {hit.passage.id for hit in first}
    rest = [hit for hit in ranked if hit.passage.id not in ids]
    lift = max(0.0, rest[0].score - first[-1].score) if first and rest else 0.0
    return [*(PassageHit(hit.passage, hit.score + lift) for hit in first), *rest][:k]


class _QueryWord(NamedTuple):
    word: str
    name: bool
    """Whether the word is capitalised inside a sentence. Only then can it match a title on its own."""


def _query_words(question: str) -> Iterator[_QueryWord]:
    end = 0
    for match in _RUN.finditer(question):
        starts_sentence = end == 0 or _SENTENCE_END.search(question, end, match.start()) is not None
        end = match.end()
        yield from (
            _QueryWord(word, match.group()[0].isupper() and not starts_sentence) for word in words(match.group())
        )


# BM25 in memory, over the few passages that come with a question.


class PassagePool:
    """Retriever by BM25 over title and text, in memory (rank-bm25: Okapi, k1 1.5, b 0.75); scores may be negative.

    A query takes 0.3 ms over 10 passages and 100 ms over 10,000: index a corpus that large (`certigraph index`).
    """

    def __init__(self, passages: Sequence[Passage], *, boost_titles: bool = True) -> None:
        """Create a retriever of these passages.

        Args:
            passages: the passages; their order breaks ties.
            boost_titles: whether passages whose title a query names come first.

        Raises:
            Fault: there are no passages, none has a term, or two have the same id.
        """
        self.name = "bm25+titles" if boost_titles else "bm25"
        self._boost = boost_titles
        self._passages = tuple(passages)
        self._positions = positions_of(self._passages)
        self._by_title = _positions_by_title(self._passages) if boost_titles else {}
        documents = [terms(f"{passage.title} {passage.text}") for passage in self._passages]
        if not any(documents):
            raise Fault("data", f"{len(documents)} passages without a searchable term: pass passages with a text")
        self._bm25: Any = importlib.import_module("rank_bm25").BM25Okapi(documents)

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return at most `k` passages that share a term with the query or whose title it names, best first."""
        query_terms = terms(query)
        if not query_terms or k < 1:
            return []
        scores = self._bm25.get_scores(query_terms)
        # Selected by shared terms, not by score: with a single passage BM25Okapi scores every match below zero.
        matching = (n for n, counts in enumerate(self._bm25.doc_freqs) if not counts.keys().isdisjoint(query_terms))
        ranked = self._hits(matching, scores, k)
        return (
            rank_titles_first(self._hits(self._positions_named(query), scores, k), ranked, k) if self._boost else ranked
        )

    def passage(self, id: str) -> Passage:
        """Return the passage with an id. Raises UnknownName if the pool has none."""
        if id not in self._positions:
            raise UnknownName(f"no passage {id!r} among these {len(self._passages)}: {', '.join(self._positions)}")
        return self._passages[self._positions[id]]

    def _hits(self, positions: Iterable[int], scores: Any, most: int) -> list[PassageHit]:
        best = sorted(positions, key=lambda position: (-scores[position], position))[:most]
        return [PassageHit(self._passages[position], float(scores[position])) for position in best]

    def _positions_named(self, query: str) -> set[int]:
        return {
            position for key in find_title_keys(query, self._by_title.__contains__) for position in self._by_title[key]
        }


def _positions_by_title(passages: Sequence[Passage]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, passage in enumerate(passages):
        for key in title_keys(passage.title):
            positions.setdefault(key, []).append(position)
    return positions
