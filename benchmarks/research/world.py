"""The environment of research on the web: searches, pages, excerpts of long pages, and the evidence for a step."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, zip_longest
from urllib.parse import urlsplit

from certigraph.adapters.protocols import Environment
from certigraph.adapters.retrieval.bm25 import PassagePool, terms
from certigraph.adapters.web.protocol import SearchHit, SearchProvider, Unreadable, WebPage
from certigraph.adapters.web.sources import Web
from certigraph.benchmarks.research.findings import failed_to_establish, partial_sources
from certigraph.benchmarks.research.plans import UNREAD_MARK
from certigraph.state.records import Action, Arguments, Observation, Scores
from certigraph.state.run import ANSWER, FINISH, SEARCH, parse_action
from certigraph.state.search import (
    OPEN,
    RESEARCH,
    Passage,
    clip_words,
    create_refusal,
    findings_of,
    to_line,
    unique_texts,
)

# Excerpts of long pages: the paragraphs that match the queries best, in their original order.

GAP_MARK = "[...]"
"""Mark in an excerpt in place of paragraphs that are left out."""


def excerpt_of(text: str, queries: Sequence[str], most: int) -> str:
    """Return a text, or if it is longer than `most` characters, the paragraphs that match the queries best.

    In a long block such as a table, each line counts as a paragraph, so that the table is shortened too; in a long
    line, every few sentences do. No part is cut.
    """
    if len(text) <= most:
        return text
    parts = [part for block in text.split("\n\n") for part in _divide_block(block, most // 4)]
    chosen, remaining = set[int](), most
    for index in _rank_paragraphs(parts, queries):
        if (length := len(parts[index]) + len(GAP_MARK) + 2) <= remaining:
            chosen.add(index)
            remaining -= length
    return _join_paragraphs(parts, chosen) if chosen else clip_words(text, most)


_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")

MIN_PART_CHARACTERS = 200
"""Minimum characters of a part of a long line, except for the last one."""


def _divide_block(block: str, most: int) -> list[str]:
    """Divide a block into its lines if it is longer than `most` characters, and lines of that length into sentences."""
    if len(block) <= most:
        return [block]
    lines = block.split("\n")
    return [part for line in lines for part in (_divide_line(line) if len(line) > most else [line])]


def _divide_line(line: str) -> list[str]:
    parts = [""]
    for sentence in _SENTENCE_END.split(line):
        if len(parts[-1]) < MIN_PART_CHARACTERS:
            parts[-1] = f"{parts[-1]} {sentence}".strip()
        else:
            parts.append(sentence)
    return parts


def _rank_paragraphs(parts: Sequence[str], queries: Sequence[str]) -> list[int]:
    passages = [Passage(id=str(index), title="", text=part) for index, part in enumerate(parts) if terms(part)]
    query = " ".join(queries)
    if not passages or not terms(query):
        return list(range(len(parts)))
    ranked = [int(hit.passage.id) for hit in PassagePool(passages).search(query, len(passages))]
    return list(dict.fromkeys([*ranked, *range(len(parts))]))


def _join_paragraphs(parts: Sequence[str], chosen: set[int]) -> str:
    lines, previous = [], -1
    for index in sorted(chosen):
        lines += [GAP_MARK] * (index != previous + 1) + [parts[index]]
        previous = index
    return "\n".join(lines)


# What was seen so far in an episode: results, pages, pages that could not be read, and domains that are avoided.

URL_PATTERN = re.compile(r"https?://[^\s<>\"')\]]+")
"""URL in a question's text."""

MAX_RESULTS = 100
"""Maximum number of search results in the world's view. If there are more, the latest ones are shown.

The view is part of the state, which is saved after every action.
"""


class EpisodeMemory:
    """Search results and pages that were seen so far in one episode.

    The pages whose URLs are in the question count as results from the start.

    Attributes:
        hits: search results by URL.
        pages: pages that were read, by URL.
        unreadable: pages that could not be read, by URL.
        blocked: domains that are avoided, because a page of theirs failed with a lasting reason.
    """

    def __init__(self, question: str) -> None:
        named = (url.rstrip(".,;:!?") for url in URL_PATTERN.findall(question))
        self.hits: dict[str, SearchHit] = {url: SearchHit(title="named in the question", url=url) for url in named}
        self.pages: dict[str, WebPage] = {}
        self.unreadable: dict[str, Unreadable] = {}
        self.blocked: set[str] = set()
        self.found_by: dict[str, str] = {}
        """Query of the latest search that found a result, by URL; those named in the question have none."""
        self.searched: set[tuple[str, str]] = set()
        """Provider and query of each search so far."""
        self.read_for: dict[str, dict[str, int]] = {}
        """By goal, the URLs of the pages that were read for it so far, in order, and how many tries with it were vain.

        A page of which MAX_VAIN_TRIES tries established nothing is not shown again.
        """

    def add_hits(self, hits: Iterable[SearchHit], query: str) -> None:
        """Add the results of a search as the latest ones, those that are known already too.

        A prompt without space for all results has the latest, which belong to the current step. The snippet of a new
        search fits its query.
        """
        for hit in hits:
            self.hits.pop(hit.url, None)
            self.hits[hit.url] = hit
            self.found_by[hit.url] = query

    def add_page(self, page: WebPage | Unreadable) -> None:
        """Add a page that was read, or one that could not be read. After a lasting failure its domain is avoided."""
        if isinstance(page, WebPage):
            self.pages[page.url] = page
            return
        self.unreadable[page.url] = page
        if page.lasting:
            self.blocked.add(domain_of(page.url))

    def worth_reading(self, url: str) -> bool:
        """Return whether a URL is a known result that was not requested yet and whose domain is not avoided."""
        unread = url in self.hits and url not in self.pages and url not in self.unreadable
        return unread and domain_of(url) not in self.blocked

    def reason(self, url: str) -> str:
        """Return the reason why a page cannot be read; an empty text if it was read or may be readable."""
        if url in self.pages:
            return ""
        if url in self.unreadable:
            return self.unreadable[url].reason
        return f"{domain_of(url)} did not let itself be read" if domain_of(url) in self.blocked else ""

    def result_lines(self) -> list[str]:
        """Return the known search results as numbered lines: a mark such as [read], the title, the URL and the snippet.

        A heading before the results of each search names its query.
        """
        lines, query = list[str](), ""
        for number, url in enumerate(self.known(), 1):
            if (found_by := self.found_by.get(url, "")) != query:
                lines.append(to_line(f"Found by {found_by!r}:"))
                query = found_by
            lines.append(f"{number}. {self._result_line(self.hits[url])}")
        return lines

    def known(self) -> Sequence[str]:
        """Return the URLs of the known search results in the order of their latest search, at most MAX_RESULTS."""
        return list(self.hits)[-MAX_RESULTS:]

    def _result_line(self, hit: SearchHit) -> str:
        state = "[read]" if hit.url in self.pages else "[blocked]" if self.reason(hit.url) else UNREAD_MARK
        return to_line(f"{state} {hit.title} - {hit.url}: {hit.snippet}")


def domain_of(url: str) -> str:
    """Return the domain of a URL: its host and port. Pages of one domain usually fail for the same reason."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:  # a malformed address belongs to no domain but itself
        return url


# One round of gathering evidence: searches, pages worth reading, and a second source if the first finds nothing new.

MAX_PAGE_CHARACTERS = 10_000
"""Maximum characters of pages in one observation, unless the action gives another number."""

MAX_SNIPPETS = 8
"""Maximum number of unread search results in one observation of that size."""

SNIPPET_SHARE = 4
"""One part in so many of an observation whose size the action gives may be unread search results."""

MAX_VAIN_TRIES = 2
"""Number of tries that establish nothing after which a page is not shown again for the same goal.

One is not enough: a page may be needed together with another one.
"""

MAX_FAILED_PAGES = 3
"""Maximum number of a search's results that are requested in order to read one."""

SOURCE_NUMBER = re.compile(r"^\s*\[(\d+)\]", re.MULTILINE)
"""The number of a source at the beginning of a line. It is changed where a page contains one, because the text after it
could pass for another source."""


class GatheringRound:
    """One round of gathering evidence by searches and pages.

    Attributes:
        searches: number of searches that were made for the first time in the episode.
        fetched: number of pages that were requested for the first time.
        met: URLs of the search results, in order.
        read: URLs of the pages that can be shown, in order.
        failed: URLs of the pages that could not be read, in order.
        elsewhere: whether the second search provider was used.
    """

    def __init__(self, web: Web, memory: EpisodeMemory, k: int, known: Iterable[str] = ()) -> None:
        """Create a round. A search passes over the pages in `known`, and opens its next result instead."""
        self.searches = self.fetched = 0
        self.met: dict[str, None] = {}
        self.read: dict[str, None] = {}
        self.failed: dict[str, None] = {}
        self.elsewhere = False
        self._web, self._memory, self._k, self._known = web, memory, k, frozenset(known)

    def search(self, provider: SearchProvider, queries: Iterable[str]) -> None:
        """Search for each query, and open its first result that can be read (see `open`)."""
        ranked = []
        for query in queries:
            hits = self._web.search(provider, query, self._k)
            self.searches += (provider.name, query) not in self._memory.searched
            self._memory.searched.add((provider.name, query))
            self._memory.add_hits(hits, query)
            ranked.append([hit.url for hit in hits])
        # the best results of every query come first, so that one query does not crowd out the others
        self.met |= dict.fromkeys(url for urls in zip_longest(*ranked) for url in urls if url)
        self._open_best(ranked)

    def _open_best(self, ranked: Sequence[Sequence[str]]) -> None:
        """Open the first result of each query that can be read; give up after MAX_FAILED_PAGES requests that failed."""
        requested = [0] * len(ranked)
        for rank in range(max(map(len, ranked), default=0)):
            chosen = []
            for number, urls in enumerate(ranked):
                opened = any(url in self._memory.pages and url not in self._known for url in urls[:rank])
                done = requested[number] >= MAX_FAILED_PAGES or opened or rank >= len(urls)
                if done or urls[rank] in self._known or (rank and self._memory.reason(urls[rank])):
                    continue
                requested[number] += self._memory.worth_reading(urls[rank])
                chosen.append(urls[rank])
            self.open(chosen)

    def open(self, urls: Sequence[str]) -> None:
        """Read the pages at these URLs that were not requested yet. Pages that were read before are shown again.

        URLs that are not among the known results are ignored.
        """
        wanted = [url for url in dict.fromkeys(urls) if self._memory.worth_reading(url)]
        for page in self._web.read(wanted):
            self._memory.add_page(page)
        self.fetched += len(wanted)
        for url in dict.fromkeys(urls):
            if url in self._memory.hits:
                (self.read if url in self._memory.pages else self.failed)[url] = None

    def show_again(self, read: Iterable[str], met: Iterable[str]) -> None:
        """Show pages that were read before, first, and known search results again."""
        self.read = dict.fromkeys([*read, *self.read])
        self.met |= dict.fromkeys(url for url in met if url in self._memory.hits)

    @property
    def new_count(self) -> int:
        """Number of searches and requests for pages that were made for the first time in the episode."""
        return self.searches + self.fetched


def _format_evidence(
    gathering: GatheringRound,
    memory: EpisodeMemory,
    wanted: Sequence[str],
    lines: bool,
    characters: int | None,
    left_out: Sequence[str],
) -> Observation:
    met = [url for url in gathering.met if not (url in gathering.read or url in left_out or memory.reason(url))]
    read = list(gathering.read)
    if characters is None:
        snippets, shares = met[:MAX_SNIPPETS], [MAX_PAGE_CHARACTERS // max(len(read), 1)] * len(read)
    else:
        ends = accumulate(len(_format_source(memory, url, wanted, None, lines)) + 1 for url in met)
        snippets = [url for url, end in zip(met, ends, strict=True) if end <= characters // SNIPPET_SHARE]
        pages = characters - characters // SNIPPET_SHARE
        shares = divide_characters([len(memory.pages[url].text) for url in read], pages)
    sources, limits = (*read, *snippets), dict(zip(read, shares, strict=True))
    texts = [_format_source(memory, url, wanted, limits.get(url), lines) for url in sources]
    if not lines:
        texts = [f"[{number}] {text}" for number, text in enumerate(texts, 1)]
        texts += [f"{url} could not be read: {memory.reason(url)}" for url in gathering.failed]
        if characters is not None and len(snippets) < len(met):
            texts.append(f"({len(met) - len(snippets)} further search results are left out)")
        if characters is not None and left_out:
            titles = to_line("; ".join(memory.pages[url].title or url for url in left_out))
            texts.append(f"(left out, because earlier tries read them and established nothing: {titles})")
    excerpts = [url for url in read if len(memory.pages[url].text) > limits[url]]
    data: Arguments = {
        "elsewhere": gathering.elsewhere,
        "fresh": gathering.new_count,
        "searches": gathering.searches,
        "fetched": gathering.fetched,
        "read": [*read],
        "unreadable": {url: memory.reason(url) for url in gathering.failed},
        **({"excerpts": [*excerpts]} if excerpts else {}),
    }
    return Observation(text="\n".join(texts), sources=sources, data=data)


def divide_characters(lengths: Sequence[int], most: int) -> list[int]:
    """Divide `most` characters among texts: short texts get their whole length, the longer ones equal shares."""
    shares, left = [0] * len(lengths), most
    for served, index in enumerate(sorted(range(len(lengths)), key=lambda one: lengths[one])):
        shares[index] = min(lengths[index], left // (len(lengths) - served))
        left -= shares[index]
    return shares


def _format_source(memory: EpisodeMemory, url: str, wanted: Sequence[str], limit: int | None, lines: bool) -> str:
    """Format a source: an excerpt of the page, or what the search engine shows of it if `limit` is None."""
    hit, page = memory.hits[url], memory.pages.get(url)
    if page is None or limit is None:
        mark = "not read" if page is None else "read for something else"
        return to_line(f"{url} - {hit.title} ({mark}): {hit.snippet}")
    moved = f" (moved to {page.moved})" if page.moved else ""
    heading, text = f"{url}{moved} - {page.title or hit.title}", excerpt_of(page.text, wanted, limit)
    if lines:
        return to_line(f"{heading}: {text}")
    plain = "\n".join(text.splitlines())  # other line separators could hide a source number from the pattern
    return to_line(heading) + "\n" + SOURCE_NUMBER.sub(r"(\1)", plain) + "\n"


# The environment of research on the web. It only requests pages that a search found or the question names.

ResearchJudge = Callable[[str | None, bool], Scores]
"""Function (answer, forced) -> scores. The answer is None if there is none; it is forced if it was submitted without
being certified."""

ResearchTool = Callable[[Action], Observation]
"""Function that carries out one kind of action and returns the observation."""


class ResearchWorld(Environment):
    """Environment in which an agent searches the web, reads pages and answers one question.

    The agent never learns whether an answer is right: there is no reward, and `solved` stays False. The same actions in
    a new episode give the same observations as long as the web is cached (`WebCache`). The environment is not
    concurrent, because earlier actions determine which domains are avoided and what counts as new.
    """

    concurrent = False

    def __init__(self, web: Web, question: str, judge: ResearchJudge, *, k: int) -> None:
        """Create the environment of a question.

        Args:
            web: search providers and page source.
            question: text of the question. Pages whose URLs are in it may be read.
            judge: function that scores the answer.
            k: maximum number of results per search.
        """
        self._web, self._question, self._judge, self._k = web, question, judge, k
        self._clear()

    def reset(self) -> Observation:
        """Start an episode in which nothing has been searched, read or answered."""
        self._clear()
        return Observation(text="Nothing has been looked up yet.")

    def step(self, action: Action) -> Observation:
        """Carry out an action, which names a tool and its arguments.

        An unknown tool, or a page that no search found, is refused with the reason. The observation's `data` repeats
        the tool and its arguments, because a validator sees nothing else of the action.
        """
        parsed_action, tools = parse_action(action), self._tools()
        if parsed_action is None or parsed_action.kind not in tools:
            known = ", ".join(f"{name}[...]" for name in (SEARCH, OPEN, FINISH))
            return create_refusal(f"{action.text[:100]!r} is not an action here; write one of {known}")
        observation = tools[parsed_action.kind](parsed_action)
        return observation.model_copy(
            update={"data": {"tool": parsed_action.kind, **parsed_action.args, **observation.data}}
        )

    def view(self) -> str:
        """Return the known search results as a numbered list, in the order of `sources`, under a line that says so."""
        shown, count = len(self._memory.known()), len(self._memory.hits)
        left_out = f", the latest {shown} of {count}" if count > shown else ""
        heading = f"Search results so far{left_out}:" if shown else "No search results yet."
        note = [f"({self._web.note})"] if self._web.note else []
        return "\n".join([heading, *note, *self._memory.result_lines()])

    def sources(self) -> tuple[str, ...]:
        """Return the URLs of the known search results, in order."""
        return tuple(self._memory.known())

    def admissible(self) -> None:
        """Return None: any words can be searched for."""

    def score(self) -> Scores:
        """Return the benchmark's score of the submitted answer, else of the one noted last."""
        return self._judge(self._answer, self._forced)

    def close(self) -> None:
        """Do nothing: the web is shared between episodes."""

    def _tools(self) -> Mapping[str, ResearchTool]:
        return {
            SEARCH: self._search,
            OPEN: self._open,
            RESEARCH: self._research,
            ANSWER: self._note,
            FINISH: self._finish,
        }

    def _clear(self) -> None:
        self._memory = EpisodeMemory(self._question)
        self._answer: str | None = None
        self._forced = False

    def _search(self, action: Action) -> Observation:
        if not (query := text_argument(action, "query").strip()):
            return create_refusal("There is nothing to look for: name what you look for.")
        return self._gather([query], [], query, lines=True)

    def _open(self, action: Action) -> Observation:
        url = text_argument(action, "query").strip()
        if url not in self._memory.hits:
            return create_refusal(f"{url[:200]!r} is not known: only pages that a search brought up can be opened.")
        if reason := self._memory.reason(url):
            return create_refusal(f"{url} cannot be read: {reason}.")
        return self._gather([], [url], self._question, lines=True)

    def _research(self, action: Action) -> Observation:
        queries, urls = unique_texts(action.args.get("queries")), unique_texts(action.args.get("urls"))
        elsewhere, characters = action.args.get("elsewhere") is True, action.args.get("characters")
        most = characters if isinstance(characters, int) else None
        goal = text_argument(action, "goal")
        kept, vain = partial_sources(action.args), failed_to_establish(action.args)
        return self._gather(queries, urls, goal, elsewhere=elsewhere, characters=most, kept=kept, vain=vain)

    def _gather(
        self,
        queries: Sequence[str],
        urls: Sequence[str],
        goal: str,
        *,
        elsewhere: bool = False,
        lines: bool = False,
        characters: int | None = None,
        kept: Sequence[str] = (),
        vain: bool = False,
    ) -> Observation:
        """Gather evidence for a goal by searches and pages (SDP, appendix A.4).

        If there is a second search provider, it is used too if `elsewhere` is set or the first one gave nothing new.

        Args:
            queries: search queries.
            urls: pages to read; those that are not among the known results are ignored.
            goal: what to find out. Excerpts of long pages are chosen by it and the queries.
            elsewhere: whether to use the second provider in any case.
            lines: whether to return one line per source, as transcripts need it; else pages keep their line breaks.
            characters: maximum characters of the sources. The evidence then has all new search results that fit, and
                first the pages that were read before for the same goal. None for MAX_PAGE_CHARACTERS, and new evidence
                only.
            kept: earlier results that are shown again if `characters` is given.
            vain: whether the latest try at the goal established nothing.
        """
        read = self._memory.read_for.setdefault(goal, {})
        if vain:
            read.update({url: tries + 1 for url, tries in read.items() if url not in kept})
        # pages that were read for the goal are shown again only where there is space for them
        gathering = GatheringRound(self._web, self._memory, self._k, () if characters is None else read)
        gathering.search(self._web.provider, queries)
        gathering.open(urls)
        stale = bool(queries or urls) and not gathering.new_count
        if self._web.second and (elsewhere or stale):
            gathering.elsewhere = True
            gathering.search(self._web.second, queries or [goal])
        read.update(dict.fromkeys(gathering.read, 0))
        left_out = [url for url, tries in read.items() if tries >= MAX_VAIN_TRIES]
        if characters is not None:
            gathering.show_again([url for url in read if url not in left_out], kept)
        evidence = _format_evidence(gathering, self._memory, [goal, *queries], lines, characters, left_out)
        nothing = "Nothing was found." if queries or urls else "Nothing was looked up."
        return evidence if evidence.text else evidence.model_copy(update={"text": nothing})

    def _note(self, action: Action) -> Observation:
        self._take_answer(action)
        return Observation(text=f"Noted: {to_line(self._answer or '')}")

    def _finish(self, action: Action) -> Observation:
        self._take_answer(action)
        return Observation(text=f"Handed in: {to_line(self._answer or '')}", done=True)

    def _take_answer(self, action: Action) -> None:
        self._answer = text_argument(action, "answer")
        self._forced = "forced" in action.args or any(known.forced for known in findings_of(action.args))


def text_argument(action: Action, name: str) -> str:
    """Return the argument of an action with a name, as a text; an empty text if it is missing."""
    return str(action.args.get(name) or "")
