"""Google's results by Serper, or by any service that answers as it does."""

import time
from collections.abc import Sequence

from certigraph.adapters.web.protocol import Hit
from certigraph.adapters.web.requests import Form, Requests, Sleep
from certigraph.adapters.web.results import Found, asked, hits
from certigraph.adapters.web.service import Service

SERPER = Service(
    name="serper",
    variable="SERPER_URL",
    home="https://google.serper.dev/search",
    key="SERPER_API_KEY",
    key_page="https://serper.dev",
)


class _Result(Form):
    title: str | None = None
    link: str | None = None
    snippet: str | None = None
    answer: str | None = None

    def found(self) -> Found:
        return Found(self.title, self.link, " ".join(filter(None, (self.answer, self.snippet))))


class _Answer(Form):
    organic: list[_Result]
    answerBox: _Result = _Result()  # noqa: N815 - Serper's name


class Serper:
    """Asks https://google.serper.dev/search, or the address in SERPER_URL, with the key in SERPER_API_KEY.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, *, sleep: Sleep = time.sleep) -> None:
        self._headers = {"X-API-KEY": SERPER.secret()}
        self._requests = Requests(SERPER, sleep=sleep)
        self.name = self._requests.name

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results, a page that answers at once before all others. Raises Fault like any provider."""
        words = asked(query)
        if not words or k < 1:
            return []
        answer = self._requests.post(_Answer, {"q": words, "num": k}, self._headers)
        return hits((result.found() for result in (answer.answerBox, *answer.organic)), k)
