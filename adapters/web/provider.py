"""What search providers over HTTP have in common: a service, its headers, and results that are bounded."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from certigraph.adapters.searching.telling import storable_line
from certigraph.adapters.web.protocol import Hit
from certigraph.adapters.web.requests import TIMEOUT, Requests, Sleep
from certigraph.adapters.web.results import Found, hits
from certigraph.adapters.web.service import Service

LONGEST_QUERY = 2_000
"""Characters; services refuse much longer ones, and what a refusal ends is the run."""


class HttpProvider(ABC):
    """A SearchProvider that asks one service.

    Raises:
        Fault: ("environment") what is set as the service's address is none.
    """

    def __init__(
        self, service: Service, headers: Mapping[str, str], *, timeout: float = TIMEOUT, sleep: Sleep = time.sleep
    ) -> None:
        self._headers, self._requests = headers, Requests(service, timeout=timeout, sleep=sleep)
        self.name = self._requests.name

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results, best first; none for a query without words. Raises Fault as `Requests` does."""
        words = storable_line(query)[:LONGEST_QUERY]
        return hits(self._found(words, k), k) if words and k > 0 else []

    @abstractmethod
    def _found(self, words: str, k: int) -> Iterable[Found]:
        """What the service answers."""
