"""Results out of pages at hand, each with the sentences that fit the query best."""

import re

from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.web.protocol import Hit
from certigraph.adapters.web.results import LONGEST_SNIPPET, one_line

SENTENCES = 2

_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")


def found_in(pages: Pool, query: str, k: int) -> list[Hit]:
    """At most `k` pages, known by their URLs, that share a word with the query, best first."""
    passages = [hit.passage for hit in pages.search(query, k)]
    return [Hit(title=p.title, url=p.id, snippet=one_line(snippet(p.text, query), LONGEST_SNIPPET)) for p in passages]


def snippet(text: str, query: str) -> str:
    """The two sentences with most words of the query, in the text's order; the text's first ones where none has any."""
    asked = set(terms(query))
    sentences = [part for part in _BREAK.split(text) if part.strip()]
    shared = [len(asked.intersection(terms(part))) for part in sentences]
    best = sorted(range(len(sentences)), key=lambda place: -shared[place])[:SENTENCES]
    fitting = [place for place in best if shared[place]] or best
    return " ".join(sentences[place] for place in sorted(fitting))
