"""The world of research: searches, pages and evidence."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from certigraph.adapters.models.calls import clipped, numbered
from certigraph.adapters.research.plans import UNREAD
from certigraph.adapters.retrieval.bm25 import Pool, terms
from certigraph.adapters.web.protocol import Hit, Page, SearchProvider, Unreadable
from certigraph.adapters.web.sources import Web
from certigraph.state.records import Action, Arguments, Observation, Scores
from certigraph.state.run import ANSWER, FINISH, SEARCH, parsed
from certigraph.state.search import OPEN, RESEARCH, Passage, findings_of, line, refused, texts

# What of a long page is shown: the paragraphs that fit what is looked for, in their own order.

GAP = "[...]"
"""Stands for paragraphs that are left out."""


def excerpt(text: str, queries: Sequence[str], most: int) -> str:
    """The text, or, where it is longer than `most` characters, its paragraphs that fit the queries best.

    Rows of a table are paragraphs of their own: a long table is cut too.
    """
    if len(text) <= most:
        return text
    parts = [
        part for block in text.split("\n\n") for part in (block.split("\n") if len(block) > most // 4 else [block])
    ]
    kept, room = set[int](), most
    for place in _best_first(parts, queries):
        if (need := len(parts[place]) + len(GAP) + 2) <= room:
            kept.add(place)
            room -= need
    return _joined(parts, kept) if kept else clipped(text, most)


def _best_first(parts: Sequence[str], queries: Sequence[str]) -> list[int]:
    passages = [Passage(id=str(place), title="", text=part) for place, part in enumerate(parts) if terms(part)]
    query = " ".join(queries)
    if not passages or not terms(query):
        return list(range(len(parts)))
    found = [int(hit.passage.id) for hit in Pool(passages).search(query, len(passages))]
    return list(dict.fromkeys([*found, *range(len(parts))]))


def _joined(parts: Sequence[str], kept: set[int]) -> str:
    told, before = [], -1
    for place in sorted(kept):
        told += [GAP] * (place != before + 1) + [parts[place]]
        before = place
    return "\n".join(told)


# What an episode of research has met: results, pages, what could not be read, and domains that are left alone.

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


# One round of gathering: searches, pages worth reading, and a second source where the first brings nothing.

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


# The world of research: searches, pages, an answer. What it fetches is what a search brought up, and nothing else.

Judge = Callable[[str | None, bool], Scores]
"""Scores an answer, None where there is none; the flag says that it is certified by nobody."""

Tool = Callable[[Action], Observation]


class ResearchWorld:
    """One question. Nothing tells the agent whether an answer is right: no reward, and never `solved`.

    A step repeated in a new episode after the same steps answers the same, as long as the web is kept (`WebCache`).
    Not concurrent: what is left alone, and what counts as new, depends on what was done before.
    """

    concurrent = False

    def __init__(self, web: Web, question: str, judge: Judge, *, k: int) -> None:
        """A world over a web. `k`: results of a search."""
        self._web, self._question, self._judge, self._k = web, question, judge, k
        self._clear()

    def reset(self) -> Observation:
        """Nothing is searched, read or answered yet."""
        self._clear()
        return Observation(text="Nothing has been looked up yet.")

    def step(self, action: Action) -> Observation:
        """Use a tool; what is none, or names a page that is not known, is refused with the reason.

        The answer's `data` repeats `tool` and arguments, for a validator sees nothing else of the action.
        """
        meant, tools = parsed(action), self._tools()
        if meant is None or meant.kind not in tools:
            known = ", ".join(f"{name}[...]" for name in (SEARCH, OPEN, FINISH))
            return refused(f"{action.text[:100]!r} is no action here; write one of {known}")
        observation = tools[meant.kind](meant)
        return observation.model_copy(update={"data": {"tool": meant.kind, **meant.args, **observation.data}})

    def view(self) -> str:
        """The known results, numbered as `sources` has them."""
        return numbered(self._memory.listed())

    def sources(self) -> tuple[str, ...]:
        """The URLs of the known results."""
        return tuple(self._memory.known())

    def admissible(self) -> None:
        """Any words can be searched for."""

    def score(self) -> Scores:
        """The benchmark's verdict on the answer handed in, else the last one noted."""
        return self._judge(self._answer, self._forced)

    def close(self) -> None:
        """The web is shared between episodes."""

    def _tools(self) -> Mapping[str, Tool]:
        return {
            SEARCH: self._search,
            OPEN: self._open,
            RESEARCH: self._research,
            ANSWER: self._note,
            FINISH: self._finish,
        }

    def _clear(self) -> None:
        self._memory = Memory(self._question)
        self._answer: str | None = None
        self._forced = False

    def _search(self, action: Action) -> Observation:
        if not (query := said(action, "query").strip()):
            return refused("There is nothing to look for: name what you look for.")
        return _format_problem(self._gathered([query], [], query, elsewhere=False, lines=True))

    def _open(self, action: Action) -> Observation:
        url = said(action, "query").strip()
        if url not in self._memory.hits:
            return refused(f"{url[:200]!r} is not known: only pages that a search brought up can be opened.")
        if reason := self._memory.reason(url):
            return refused(f"{url} cannot be read: {reason}.")
        return _format_problem(self._gathered([], [url], self._question, elsewhere=False, lines=True))

    def _research(self, action: Action) -> Observation:
        queries, urls = texts(action.args.get("queries")), texts(action.args.get("urls"))
        elsewhere = action.args.get("elsewhere") is True
        return _format_problem(self._gathered(queries, urls, said(action, "goal"), elsewhere=elsewhere, lines=False))

    def _gathered(
        self, queries: Sequence[str], urls: Sequence[str], goal: str, *, elsewhere: bool, lines: bool
    ) -> Gathered:
        return gather(self._web, self._memory, queries, urls, goal, k=self._k, elsewhere=elsewhere, lines=lines)

    def _note(self, action: Action) -> Observation:
        self._take(action)
        return Observation(text=f"Noted: {line(self._answer or '')}")

    def _finish(self, action: Action) -> Observation:
        self._take(action)
        return Observation(text=f"Handed in: {line(self._answer or '')}", done=True)

    def _take(self, action: Action) -> None:
        self._answer = said(action, "answer")
        self._forced = "forced" in action.args or any(known.forced for known in findings_of(action.args))


def said(action: Action, name: str) -> str:
    """A text among an action's arguments; empty where there is none."""
    return str(action.args.get(name) or "")


def _format_problem(gathered: Gathered) -> Observation:
    return Observation(text=gathered.text, sources=gathered.sources, data=gathered.data)
