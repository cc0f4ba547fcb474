"""What sites let be read: their robots.txt (RFC 9309), asked for once for each scheme, host and port."""

from threading import Lock
from typing import Any

import httpx

from certigraph.adapters.web.connections import Deadline
from certigraph.adapters.web.extra import package
from certigraph.adapters.web.refused import Refused
from certigraph.adapters.web.transport import Asked, Transport

AGENT = "certigraph"
MOST = 500_000
"""Bytes of a robots.txt that are read."""


class Robots:
    """The rules of the sites met so far. Threads may share it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._rules: dict[str, Any] = {}
        self._locks: dict[str, Lock] = {}
        self._lock = Lock()

    def check(self, url: httpx.URL, deadline: Deadline) -> None:
        """Pass where a page may be read.

        Raises:
            Refused: its rules do not let it be read, or its server cannot be asked for them.
        """
        rules = self._of(url.copy_with(raw_path=b"/robots.txt"), deadline)
        if not rules.can_fetch(str(url), AGENT):
            raise Refused("its robots.txt does not allow it")

    def _of(self, place: httpx.URL, deadline: Deadline) -> Any:
        with self._lock:
            lock = self._locks.setdefault(str(place), Lock())
        # a site that never answers would otherwise be waited for by one thread after the other
        if not lock.acquire(timeout=deadline.left()):
            raise deadline.missed()
        try:
            # a failure is not kept: it may be the time that was over, and the next page tells it of itself
            if str(place) not in self._rules:
                self._rules[str(place)] = self._asked(place, deadline)
            return self._rules[str(place)]
        finally:
            lock.release()

    def _asked(self, place: httpx.URL, deadline: Deadline) -> Any:
        parse = package("protego").Protego.parse
        answer = self._transport.followed(place, Asked(deadline, MOST))
        if answer.status >= 500:
            return parse("User-agent: *\nDisallow: /")
        return parse(answer.body.decode(errors="replace"))
