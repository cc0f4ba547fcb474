"""Protocols of search providers and page sources, and their results."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from certigraph.adapters.http import AddressRefused, PageRefused
from certigraph.adapters.redaction import redact
from certigraph.adapters.retrieval.bm25 import PassagePool, terms
from certigraph.adapters.web.addresses import parse_url
from certigraph.state.records import Record
from certigraph.state.search import clip_words, to_line

# Protocols and results. Any class with these methods will do.


class SearchHit(Record):
    """One result of a search."""

    title: str
    url: str
    snippet: str = ""


class WebPage(Record):
    """A page that was read; `text` is Markdown without navigation and other boilerplate."""

    url: str
    """URL of the request."""
    title: str
    text: str
    moved: str = ""
    """Final URL after redirects; empty if there were none."""


class Unreadable(Record):
    """A page that could not be read, with a short reason such as `timed out after 10 s` or `refused (403)`."""

    url: str
    reason: str
    lasting: bool = False
    """Whether other pages of the domain will probably fail as well, as after a timeout or a denial."""
    forbidden: bool = False
    """Whether no other page source may read it either: robots.txt forbids it, or its address is private."""

    @classmethod
    def of(cls, url: str, refused: PageRefused) -> "Unreadable":
        """Create it from the error with which a page was refused."""
        return cls(url=url, reason=refused.reason, lasting=refused.lasting, forbidden=refused.forbidden)


class SearchProvider(Protocol):
    """A search engine. Methods block."""

    name: str
    """Name of the provider, under which its results are cached."""

    def search(self, query: str, k: int) -> Sequence[SearchHit]:
        """Return at most `k` results, best first.

        Raises:
            Fault: ("environment") the service does not answer, the key is missing, the quota is used up, or the answer
                cannot be parsed. The message says what to do.
        """
        ...


class PageSource(Protocol):
    """A reader of pages. Methods block for a bounded time and never raise for what a page or server does."""

    name: str
    """Name of the source and its settings, under which its pages are cached."""

    def page(self, url: str) -> WebPage | Unreadable:
        """Return the page of an http or https URL, or the reason why there is none."""
        ...


# Conversion of a search service's answer to results: bounded texts of one line, unique URLs, no API keys.

MAX_TITLE_CHARACTERS = 300
MAX_SNIPPET_CHARACTERS = 1_000
MAX_URL_CHARACTERS = 2_000
"""Maximum characters of a URL. A result with a longer one is dropped, because a truncated URL leads elsewhere."""

_FORBIDDEN_CHARACTERS = re.compile(r"[\s\x00-\x1f\x7f]")


class ServiceResult(NamedTuple):
    """One result as a search service returns it: every part may be missing or have any length."""

    title: str | None
    url: str | None
    snippet: str | None


def to_hits(results: Iterable[ServiceResult], k: int) -> list[SearchHit]:
    """Convert results of a service to at most `k` search hits, in order.

    Results without an http or https URL are dropped; of several with the same URL, the first is used.
    """
    by_url: dict[str, SearchHit] = {}
    for title, url, snippet in results:
        if len(by_url) >= k:
            break
        if url and url not in by_url and _is_web_url(url):
            label = clip_line(redact(title or ""), MAX_TITLE_CHARACTERS) or url[:MAX_TITLE_CHARACTERS]
            by_url[url] = SearchHit(
                title=label, url=url, snippet=clip_line(redact(snippet or ""), MAX_SNIPPET_CHARACTERS)
            )
    return list(by_url.values())


def clip_line(text: str, most: int) -> str:
    """Return a text as one line of at most `most` characters, cut between words."""
    return clip_words(to_line(text), most)


def _is_web_url(url: str) -> bool:
    # a key in a URL would be sent to its server
    if len(url) > MAX_URL_CHARACTERS or _FORBIDDEN_CHARACTERS.search(url) or redact(url) != url:
        return False
    try:
        parse_url(url)
        # callers parse its domain with urlsplit, which refuses other URLs
        urlsplit(url)
    except (AddressRefused, ValueError):
        return False
    return True


# Results from local pages, each with the sentences that fit the query best.

SNIPPET_SENTENCES = 2

_SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")


def search_pages(pages: PassagePool, query: str, k: int) -> list[SearchHit]:
    """Search local pages, and return at most `k` hits that share a word with the query, best first.

    Args:
        pages: the pages, each as a passage whose id is its URL.
        query: the words to search for.
        k: maximum number of hits.
    """
    passages = [hit.passage for hit in pages.search(query, k)]
    return [
        SearchHit(title=p.title, url=p.id, snippet=clip_line(build_snippet(p.text, query), MAX_SNIPPET_CHARACTERS))
        for p in passages
    ]


def build_snippet(text: str, query: str) -> str:
    """Return the two sentences of a text that share most words with the query, in text order.

    If no sentence shares a word, the result is the first two.
    """
    query_terms = set(terms(query))
    sentences = [part for part in _SENTENCE_BREAK.split(text) if part.strip()]
    shared = [len(query_terms.intersection(terms(part))) for part in sentences]
    best = sorted(range(len(sentences)), key=lambda index: -shared[index])[:SNIPPET_SENTENCES]
    matching = [index for index in best if shared[index]] or best
    return " ".join(sentences[index] for index in sorted(matching))
