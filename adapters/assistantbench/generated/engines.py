"""The search engines of the invented web as providers."""

import time

from certigraph.adapters.web.requests import Requests, Sleep
from certigraph.adapters.web.serper import Serper
from certigraph.adapters.web.service import Service

KEY = "generated"
"""Any key will do."""


class Asked(Serper):
    """A search engine that answers as Serper does, at an address of its own."""

    def __init__(self, name: str, address: str, *, sleep: Sleep = time.sleep) -> None:
        """An engine of a name that no other one has: its answers are kept under it."""
        self.name = name
        self._headers = {"X-API-KEY": KEY}
        self._requests = Requests(Service(name=name, variable="", home=address), sleep=sleep)
