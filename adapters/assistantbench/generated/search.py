"""The two search engines of the invented web: they rank differently, and the second knows more pages."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from certigraph.adapters.assistantbench.generated.pages import Reach, WebPage
from certigraph.adapters.retrieval.pool import Pool
from certigraph.state.passages import Passage

SNIPPET = 160
"""Characters of a page that a result shows."""

FIRST, SECOND = "/search", "/elsewhere"
"""The paths at which the engines are asked."""


class Searching(StrEnum):
    """How the engines answer."""

    WORKS = "works"
    SPENT = "spent"
    """The quota is used up."""
    MALFORMED = "malformed"
    """JSON that breaks off."""


class Engine:
    """BM25 over pages, answering as Serper does.

    Args:
        pages: those that it knows.
        titles: whether pages whose title a query names come first.
    """

    def __init__(self, pages: Iterable[WebPage], *, titles: bool) -> None:
        self._pages = {page.url: page for page in pages}
        passages = [Passage(id=page.url, title=page.title, text=page.text) for page in self._pages.values()]
        self._pool = Pool(passages, boost_titles=titles)

    def answer(self, query: str, most: int) -> Mapping[str, Any]:
        """The body of an answer."""
        urls = [hit.passage.id for hit in self._pool.search(query, most)]
        return {"organic": [self._result(url, place) for place, url in enumerate(urls, 1)], "credits": 1}

    def _result(self, url: str, place: int) -> Mapping[str, Any]:
        page = self._pages[url]
        snippet = " ".join(page.text.split())[:SNIPPET]
        return {"title": page.title, "link": url, "snippet": snippet, "position": place}


def engines(pages: Sequence[WebPage]) -> Mapping[str, Engine]:
    """The engines by the path at which they are asked."""
    first = Engine((page for page in pages if page.reach is Reach.BOTH), titles=False)
    return {FIRST: first, SECOND: Engine((page for page in pages if page.reach is not Reach.NONE), titles=True)}
