"""Protocols of search providers and page sources, and their results."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from certigraph.adapters.http import OutOfBounds
from certigraph.adapters.redaction import redact
from certigraph.adapters.retrieval.bm25 import Pool, terms
from certigraph.adapters.web.addresses import parsed
from certigraph.state.records import Record
from certigraph.state.search import line

# What a search provider and a source of pages offer. Anything with these methods will do.


class Hit(Record):
    """One result of a search."""

    title: str
    url: str
    snippet: str = ""


class Page(Record):
    """A page that was read: its text as Markdown, without navigation and other furniture."""

    url: str
    """As it was asked for."""
    title: str
    text: str
    moved: str = ""
    """Where redirects led; empty where there was none."""


class Unreadable(Record):
    """A page that could not be read, and why, in a few words: `timed out after 10 s`, `refused (403)`."""

    url: str
    reason: str
    lasting: bool = False
    """Whether other pages of its domain will fare no better: a time-out, a denial, a page without text."""


class SearchProvider(Protocol):
    """A search engine. Methods block."""

    name: str
    """Tells its answers from those of others, which are kept apart."""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results, best first.

        Raises:
            Fault: ("environment") no answer, no key, a spent quota, or an answer of another form; says what to do.
        """
        ...


class PageSource(Protocol):
    """Where pages are read. Methods block for a bounded time and never raise for what a page or server does."""

    name: str
    """Tells its pages from those that others read, or read by other rules, which are kept apart."""

    def page(self, url: str) -> Page | Unreadable:
        """The page of an http or https URL, or why there is none."""
        ...


# What services answer, made results: bounded, on one line each, every address once, and no key among them.

LONGEST_TITLE = 300
LONGEST_SNIPPET = 1_000
LONGEST_URL = 2_000
"""Characters; a longer address is dropped, for a part of one leads elsewhere."""

_UNFIT = re.compile(r"[\s\x00-\x1f\x7f]")


class Found(NamedTuple):
    """One result as a service tells it: anything may be missing, or of any length."""

    title: str | None
    url: str | None
    snippet: str | None


def hits(results: Iterable[Found], k: int) -> list[Hit]:
    """At most `k` of the results that have an http or https address, in their order; the first of each address."""
    by_url: dict[str, Hit] = {}
    for title, url, snippet in results:
        if len(by_url) >= k:
            break
        if url and url not in by_url and _on_the_web(url):
            shown = one_line(redact(title or ""), LONGEST_TITLE) or url[:LONGEST_TITLE]
            by_url[url] = Hit(title=shown, url=url, snippet=one_line(redact(snippet or ""), LONGEST_SNIPPET))
    return list(by_url.values())


def one_line(text: str, most: int) -> str:
    """The text on one line, its first `most` characters."""
    return line(text)[:most].rstrip()


def _on_the_web(url: str) -> bool:
    # a key in an address would be sent to whoever is there
    if len(url) > LONGEST_URL or _UNFIT.search(url) or redact(url) != url:
        return False
    try:
        parsed(url)
        # who asks for its domain later reads it by this, which refuses other addresses
        urlsplit(url)
    except (OutOfBounds, ValueError):
        return False
    return True


# Results out of pages at hand, each with the sentences that fit the query best.

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
