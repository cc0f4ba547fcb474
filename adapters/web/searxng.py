"""Results of a SearXNG server of one's own, which asks many engines and needs no key."""

import time
from collections.abc import Sequence

from certigraph.adapters.web.protocol import Hit
from certigraph.adapters.web.requests import Form, Requests, Sleep
from certigraph.adapters.web.results import Found, asked, hits
from certigraph.adapters.web.service import Service

SEARXNG = Service(name="searxng", variable="SEARXNG_URL", path="/search")


class _Result(Form):
    title: str | None = None
    url: str | None = None
    content: str | None = None

    def found(self) -> Found:
        return Found(self.title, self.url, self.content)


class _Answer(Form):
    results: list[_Result]


class SearXNG:
    """Asks the server at SEARXNG_URL, which may hold a user's name and password; its settings must allow JSON.

    Raises:
        Fault: ("environment") SEARXNG_URL is not set, or no address.
    """

    def __init__(self, *, sleep: Sleep = time.sleep) -> None:
        self._requests = Requests(SEARXNG, sleep=sleep)
        self.name = self._requests.name

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results of the first page, which has about 20. Raises Fault like any provider."""
        words = asked(query)
        if not words or k < 1:
            return []
        answer = self._requests.get(_Answer, {"q": words, "format": "json"})
        return hits((result.found() for result in answer.results), k)
