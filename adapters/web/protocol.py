"""What a search provider and a source of pages offer. Anything with these methods will do."""

from collections.abc import Sequence
from typing import Protocol

from certigraph.state.records import Record


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
