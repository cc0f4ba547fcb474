"""What web agents saw while they worked on AssistantBench's questions, as a small web to search offline.

It is partial: 306 pages (`recordings`), often no more than a search result's lines, for 23 of the 31 questions whose
text there is, of 2024, seen by agents that failed. Where they came past the answer, the answer is in it, which is a
leak: the whole gold occurs for 6 questions, of 4 as a number that may mean anything. Scores on it compare with nothing
published.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from certigraph.adapters.assistantbench.recordings import Seen, address, read_seen
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.web.protocol import Hit, Page, Unreadable
from certigraph.adapters.web.results import LONGEST_TITLE, one_line
from certigraph.adapters.web.snippets import found_in
from certigraph.state.passages import Passage


class RecordedWeb:
    """The recorded pages: a search provider over them (BM25), and a source of pages that has no others."""

    name = "recorded"

    def __init__(self, seen: Iterable[Seen]) -> None:
        """Put what was seen together by URL. Raises Fault where nothing was."""
        self._pages = {url: _page(url, pieces) for url, pieces in _by_url(seen).items()}
        documents = [Passage(id=url, title=page.title, text=page.text) for url, page in self._pages.items()]
        self._pool = Pool(documents)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` pages that share a word with the query, best first."""
        return found_in(self._pool, query, k)

    def page(self, url: str) -> Page | Unreadable:
        """What was seen of a page: perhaps a search result's lines alone."""
        page = self._pages.get(address(url))
        return page.model_copy(update={"url": url}) if page else Unreadable(url=url, reason="never recorded")


def recorded_web(folder: Path) -> RecordedWeb:
    """The recorded web of a data folder. Raises Fault where its file is missing or malformed."""
    return RecordedWeb(read_seen(folder))


def _by_url(seen: Iterable[Seen]) -> dict[str, list[Seen]]:
    grouped = defaultdict[str, list[Seen]](list)
    for piece in seen:
        if piece.text:
            grouped[piece.url].append(piece)
    return grouped


def _page(url: str, pieces: list[Seen]) -> Page:
    title = one_line(pieces[0].title, LONGEST_TITLE)
    return Page(url=url, title=title, text="\n\n".join(dict.fromkeys(piece.text for piece in pieces)))
