"""Results of Brave Search, from its own index of the web."""

import html
import re
import time
from collections.abc import Iterator

from certigraph.adapters.web.provider import HttpProvider
from certigraph.adapters.web.requests import Form, Sleep
from certigraph.adapters.web.results import Found
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


class Brave(HttpProvider):
    """Asks https://api.search.brave.com, or the address in BRAVE_URL, with the key in BRAVE_API_KEY.

    It takes the first 50 words of a query, and gives at most 20 results.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, *, sleep: Sleep = time.sleep) -> None:
        super().__init__(BRAVE, {"X-Subscription-Token": BRAVE.secret()}, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        query = " ".join(words.split()[:MOST_WORDS])[:LONGEST_QUERY]
        params = {"q": query, "count": str(min(k, MOST_RESULTS))}
        answer = self._requests.get(_Answer, params, self._headers)
        yield from (result.found() for result in (answer.web.results if answer.web else ()))


def _plain(text: str | None) -> str:
    return html.unescape(_MARKS.sub("", text or ""))
