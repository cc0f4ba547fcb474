"""What an episode of research has met: results, pages, what could not be read, and domains that are left alone."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from certigraph.adapters.research.plans import UNREAD
from certigraph.adapters.searching.telling import line
from certigraph.adapters.web.protocol import Hit, Page, Unreadable

URL = re.compile(r"https?://[^\s<>\"')\]]+")

MOST_KNOWN = 40
"""Results that an agent is shown, the latest."""

MOST_TITLE, MOST_SNIPPET = 100, 200
"""Characters of a result's title and snippet in the list of results."""


class Memory:
    """One episode's. It starts with the pages that the question names: they may be read too."""

    def __init__(self, question: str) -> None:
        named = (url.rstrip(".,;:!?") for url in URL.findall(question))
        self.hits: dict[str, Hit] = {url: Hit(title="named in the question", url=url) for url in named}
        self.pages: dict[str, Page] = {}
        self.unreadable: dict[str, Unreadable] = {}
        self.blocked: set[str] = set()
        self.asked: set[tuple[str, str]] = set()
        """Provider and query of each search."""

    def met(self, hits: Iterable[Hit]) -> None:
        """Remember results; of one page the first."""
        for hit in hits:
            self.hits.setdefault(hit.url, hit)

    def keep(self, page: Page | Unreadable) -> None:
        """Remember a page, or that it cannot be read; a domain that will fare no better is left alone from now on."""
        if isinstance(page, Page):
            self.pages[page.url] = page
            return
        self.unreadable[page.url] = page
        if page.lasting:
            self.blocked.add(domain(page.url))

    def worth_reading(self, url: str) -> bool:
        """Whether a known page was not read yet and may still be."""
        unread = url in self.hits and url not in self.pages and url not in self.unreadable
        return unread and domain(url) not in self.blocked

    def reason(self, url: str) -> str:
        """Why a page cannot be read; empty where it was, or may be."""
        if url in self.pages:
            return ""
        if url in self.unreadable:
            return self.unreadable[url].reason
        return f"{domain(url)} did not let itself be read" if domain(url) in self.blocked else ""

    def listed(self) -> list[str]:
        """The known results as lines: whether each was read, its title, URL and snippet."""
        return [self._told(self.hits[url]) for url in self.known()]

    def known(self) -> Sequence[str]:
        """The URLs of the known results, in the order in which they were met."""
        return list(self.hits)[-MOST_KNOWN:]

    def _told(self, hit: Hit) -> str:
        state = "[read]" if hit.url in self.pages else "[blocked]" if self.reason(hit.url) else UNREAD
        return line(f"{state} {hit.title[:MOST_TITLE]} - {hit.url}: {hit.snippet[:MOST_SNIPPET]}")


def domain(url: str) -> str:
    """What pages that share their fate have in common: the host, and the port where one is named."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:  # what is no address shares its fate with none
        return url
