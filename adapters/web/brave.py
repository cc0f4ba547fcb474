"""Results of Brave Search, from its own index of the web."""

import html
import re
import time
from collections.abc import Sequence

from certigraph.adapters.web.protocol import Hit
from certigraph.adapters.web.requests import Form, Requests, Sleep
from certigraph.adapters.web.results import Found, asked, hits
from certigraph.adapters.web.service import Service

BRAVE = Service(
    name="brave",
    variable="BRAVE_URL",
    home="https://api.search.brave.com/res/v1/web/search",
    key="BRAVE_API_KEY",
    key_page="https://api-dashboard.search.brave.com",
)
MOST_RESULTS = 20
MOST_WORDS = 50
LONGEST_QUERY = 400
"""Characters. A request beyond one of these three is refused."""

_MARKS = re.compile(r"</?strong>")


class _Result(Form):
    title: str | None = None
    url: str | None = None
    description: str | None = None

    def found(self) -> Found:
        return Found(_plain(self.title), self.url, _plain(self.description))


class _Web(Form):
    results: list[_Result]


class _Answer(Form):
    type: str
    web: _Web | None = None
    """Missing where nothing was found."""


class Brave:
    """Asks https://api.search.brave.com, or the address in BRAVE_URL, with the key in BRAVE_API_KEY.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, *, sleep: Sleep = time.sleep) -> None:
        self._headers = {"X-Subscription-Token": BRAVE.secret()}
        self._requests = Requests(BRAVE, sleep=sleep)
        self.name = self._requests.name

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results, and at most 20, for the first 50 words. Raises Fault like any provider."""
        words = " ".join(asked(query).split()[:MOST_WORDS])[:LONGEST_QUERY]
        if not words or k < 1:
            return []
        params = {"q": words, "count": str(min(k, MOST_RESULTS))}
        answer = self._requests.get(_Answer, params, self._headers)
        return hits((result.found() for result in answer.web.results), k) if answer.web else []


def _plain(text: str | None) -> str:
    return html.unescape(_MARKS.sub("", text or ""))
