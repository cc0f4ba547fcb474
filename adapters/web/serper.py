"""Google's results by Serper, or by any service that answers as it does."""

import time
from collections.abc import Iterator

from certigraph.adapters.web.provider import HttpProvider
from certigraph.adapters.web.requests import Form, Sleep
from certigraph.adapters.web.results import Found
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


class Serper(HttpProvider):
    """Asks https://google.serper.dev/search, or the address in SERPER_URL, with the key in SERPER_API_KEY.

    A page that answers at once comes before all others.

    Args:
        service: one that answers as Serper does.
        key: in place of the service's own.
        sleep: waits between tries.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, service: Service = SERPER, *, key: str = "", sleep: Sleep = time.sleep) -> None:
        super().__init__(service, {"X-API-KEY": key or service.secret()}, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        answer = self._requests.post(_Answer, {"q": words, "num": k}, self._headers)
        yield from (result.found() for result in (answer.answerBox, *answer.organic))
