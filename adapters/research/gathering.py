"""One round of gathering: searches, pages worth reading, and a second source where the first brings nothing."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from certigraph.adapters.research.excerpts import excerpt
from certigraph.adapters.research.memory import Memory
from certigraph.adapters.searching.telling import line
from certigraph.adapters.web.protocol import SearchProvider
from certigraph.adapters.web.web import Web
from certigraph.state.records import Arguments

ROOM = 10_000
"""Characters of pages in one answer of the world."""

MOST_SNIPPETS = 8
"""Results shown that were not read."""

NUMBER = re.compile(r"^\s*\[(\d+)\]", re.MULTILINE)
"""How the sources are told apart: a page that writes so itself could pass for another one."""


class Gathered(NamedTuple):
    """What a round brought up, as an observation has it."""

    text: str
    sources: tuple[str, ...]
    data: Arguments


class Round:
    """A round at work: it counts what was new, and remembers in which order things were met."""

    def __init__(self, web: Web, memory: Memory, k: int) -> None:
        self.searches = self.fetched = 0
        self.met: dict[str, None] = {}
        self.read: dict[str, None] = {}
        self.failed: dict[str, None] = {}
        self.elsewhere = False
        self._web, self._memory, self._k = web, memory, k

    def search(self, provider: SearchProvider, queries: Iterable[str]) -> None:
        """Search, and read the first result of each query unless it was read or is left alone."""
        first = []
        for query in queries:
            hits = self._web.search(provider, query, self._k)
            self.searches += (provider.name, query) not in self._memory.asked
            self._memory.asked.add((provider.name, query))
            self._memory.met(hits)
            self.met |= dict.fromkeys(hit.url for hit in hits)
            first += [hit.url for hit in hits[:1]]
        self.open(first)

    def open(self, urls: Sequence[str]) -> None:
        """Read the pages that are known and not read yet; those that were are shown again."""
        wanted = [url for url in dict.fromkeys(urls) if self._memory.worth_reading(url)]
        for page in self._web.read(wanted):
            self._memory.keep(page)
        self.fetched += len(wanted)
        for url in dict.fromkeys(urls):
            if url in self._memory.hits:
                (self.read if url in self._memory.pages else self.failed)[url] = None

    @property
    def fresh(self) -> int:
        """What was asked or fetched for the first time in this episode."""
        return self.searches + self.fetched


def gather(
    web: Web,
    memory: Memory,
    queries: Sequence[str],
    urls: Sequence[str],
    goal: str,
    *,
    k: int,
    elsewhere: bool,
    lines: bool,
) -> Gathered:
    """Search and read for a goal (SDP paper, appendix A.4).

    The second provider is asked where it should be (`elsewhere`), and where everything asked for was known before.

    Args:
        web: search and pages.
        memory: of the episode; it is added to.
        queries: to search for.
        urls: to read; those that are not known are left out.
        goal: what the excerpts of long pages are chosen by, with the queries.
        k: results of a search.
        elsewhere: whether to ask the second provider in any case.
        lines: one line a source, as transcripts want it; else pages keep their lines.
    """
    work = Round(web, memory, k)
    work.search(web.provider, queries)
    work.open(urls)
    stale = bool(queries or urls) and not work.fresh
    if web.second and (elsewhere or stale):
        work.elsewhere = True
        work.search(web.second, queries or [goal])
    return _told(work, memory, [goal, *queries], lines)


def _told(work: Round, memory: Memory, wanted: Sequence[str], lines: bool) -> Gathered:
    snippets = [url for url in work.met if url not in work.read and not memory.reason(url)][:MOST_SNIPPETS]
    sources = (*work.read, *snippets)
    room = ROOM // max(len(work.read), 1)
    told = [_source(memory, url, wanted, room, lines) for url in sources]
    if not lines:
        told = [f"[{number}] {text}" for number, text in enumerate(told, 1)]
        told += [f"{url} could not be read: {memory.reason(url)}" for url in work.failed]
    data: Arguments = {
        "elsewhere": work.elsewhere,
        "fresh": work.fresh,
        "searches": work.searches,
        "fetched": work.fetched,
        "read": [*work.read],
        "unreadable": {url: memory.reason(url) for url in work.failed},
    }
    return Gathered("\n".join(told) or "Nothing was found.", sources, data)


def _source(memory: Memory, url: str, wanted: Sequence[str], room: int, lines: bool) -> str:
    hit, page = memory.hits[url], memory.pages.get(url)
    if page is None:
        return line(f"{url} - {hit.title} (not read): {hit.snippet}")
    moved = f" (moved to {page.moved})" if page.moved else ""
    opened, text = f"{url}{moved} - {page.title or hit.title}", excerpt(page.text, wanted, room)
    if lines:
        return line(f"{opened}: {text}")
    plain = "\n".join(text.splitlines())  # else a page might begin a line in a way that goes unnoticed
    return line(opened) + "\n" + NUMBER.sub(r"(\1)", plain) + "\n"
