"""Results of a SearXNG server of one's own, which asks many engines and needs no key."""

import time
from collections.abc import Iterator

from certigraph.adapters.web.provider import HttpProvider
from certigraph.adapters.web.requests import Form, Sleep
from certigraph.adapters.web.results import Found
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


class SearXNG(HttpProvider):
    """Asks the server at SEARXNG_URL, which may hold a user's name and password; its settings must allow JSON.

    It gives the first page of results, which has about 20.

    Raises:
        Fault: ("environment") SEARXNG_URL is not set, or no address.
    """

    def __init__(self, *, sleep: Sleep = time.sleep) -> None:
        super().__init__(SEARXNG, {}, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        answer = self._requests.get(_Answer, {"q": words, "format": "json"})
        yield from (result.found() for result in answer.results)
