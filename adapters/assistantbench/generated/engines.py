"""The search engines of the invented web as providers."""

import time

from certigraph.adapters.web.requests import Sleep
from certigraph.adapters.web.serper import Serper
from certigraph.adapters.web.service import Service

KEY = "generated"
"""Any key will do."""


def engine_at(name: str, address: str, *, sleep: Sleep = time.sleep) -> Serper:
    """An engine that answers as Serper does, of a name that no other one has: its answers are kept under it."""
    return Serper(Service(name=name, variable="", home=address), key=KEY, sleep=sleep)
