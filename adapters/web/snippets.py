"""The sentences of a text that fit a query best."""

import re

from certigraph.adapters.retrieval.analyzer import terms

SENTENCES = 2

_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")


def snippet(text: str, query: str) -> str:
    """The two sentences with most words of the query, in the text's order; the text's first ones where none has any."""
    asked = set(terms(query))
    sentences = [part for part in _BREAK.split(text) if part.strip()]
    shared = [len(asked.intersection(terms(part))) for part in sentences]
    best = sorted(range(len(sentences)), key=lambda place: -shared[place])[:SENTENCES]
    fitting = [place for place in best if shared[place]] or best
    return " ".join(sentences[place] for place in sorted(fitting))
