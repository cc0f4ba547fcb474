"""Pages fetched from the web itself."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from certigraph.adapters.web.addresses import Addresses, Resolve, resolved
from certigraph.adapters.web.protocol import Page, Unreadable
from certigraph.adapters.web.readable import kind, readable
from certigraph.adapters.web.refused import Refused
from certigraph.adapters.web.urls import parsed

if TYPE_CHECKING:
    import httpx

    from certigraph.adapters.web.connections import Deadline
    from certigraph.adapters.web.transport import Answer

DENIED = (401, 403, 407, 429, 451)


class Fetcher:
    """A PageSource over HTTP. Threads may share it. A proxy that the environment names is not used.

    Only public addresses are asked, on ports 80 and 443, and what is connected to is the address that was checked;
    `allowed` and `hosts` are the exceptions.

    Args:
        timeout: seconds for a page with its redirects and its site's robots.txt; nothing on the network outlasts it,
            then comes the reading of the page, which takes a few seconds for a very large one.
        largest: bytes of a page, unpacked; no more are taken in.
        redirects: how many are followed.
        allowed: hosts, `host:port` or networks that may be private; `addresses.allowed_hosts()` are the user's.
        hosts: where hosts are, like a hosts file: a name, or the end of names (`.example`), to `address:port`.
        robots: whether a site's robots.txt is obeyed.
        resolve: finds a host's addresses.

    Raises:
        Fault: ("data") an entry of `allowed` or `hosts` that cannot be read.
    """

    def __init__(
        self,
        *,
        timeout: float = 10.0,
        largest: int = 2_000_000,
        redirects: int = 5,
        allowed: Sequence[str] = (),
        hosts: Mapping[str, str] | None = None,
        robots: bool = True,
        resolve: Resolve = resolved,
    ) -> None:
        from certigraph.adapters.web.robots import Robots
        from certigraph.adapters.web.transport import Transport

        # what was refused is not refused for good: once it is allowed it is asked for anew
        self.name = " ".join(("page", *sorted(allowed)))
        self._timeout, self._largest = timeout, largest
        self._transport = Transport(Addresses(allowed, hosts, resolve), redirects)
        self._robots = Robots(self._transport) if robots else None

    def page(self, url: str) -> Page | Unreadable:
        """The page of an http or https URL, or why there is none.

        Raises:
            Fault: ("environment") the extra `web` is not installed.
        """
        try:
            start = parsed(url)
            answer = self._answer(start)
            read = readable(answer.body, answer.headers.get("Content-Type", ""))
        except Refused as refused:
            return Unreadable(url=url, reason=refused.reason, lasting=refused.lasting)
        moved = "" if answer.url == start else str(answer.url)
        return Page(url=url, title=read.title, text=read.text, moved=moved)

    def _answer(self, url: "httpx.URL") -> "Answer":
        from certigraph.adapters.web.connections import Deadline
        from certigraph.adapters.web.transport import Asked

        deadline = Deadline(self._timeout)
        asked = Asked(deadline, self._largest + 1, lambda hop: self._check(hop, deadline), self._check_headers)
        answer = self._transport.followed(url, asked)
        if answer.status in DENIED:
            raise Refused(f"refused ({answer.status})", lasting=True)
        if not 200 <= answer.status < 300:
            raise Refused(f"status {answer.status}")
        self._check_size(len(answer.body))
        return answer

    def _check(self, url: "httpx.URL", deadline: "Deadline") -> None:
        if self._robots:
            self._robots.check(url, deadline)

    def _check_headers(self, headers: "httpx.Headers") -> None:
        kind(headers.get("Content-Type", ""))
        length = headers.get("Content-Length", "")
        self._check_size(int(length) if length.isdecimal() and len(length) < 19 else 0)

    def _check_size(self, size: int) -> None:
        if size > self._largest:
            raise Refused(f"larger than {self._largest / 1e6:g} MB")
