"""One page's HTTP: a GET and the redirects after it, with no more bytes or seconds than are allowed.

No proxy of the environment is used: it would look names up itself, past the check of addresses. httpx's client can
neither check the address that it connects to nor limit the time of a whole request, so httpcore, which httpx stands
on, is asked directly.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

import httpcore
import httpx

from certigraph.adapters.web.addresses import Addresses
from certigraph.adapters.web.connections import Checked, Deadline
from certigraph.adapters.web.refused import OutOfBounds, Refused
from certigraph.adapters.web.unpacking import unpacked
from certigraph.adapters.web.urls import parsed
from certigraph.state.endings import Fault

HEADERS: Mapping[bytes | str, bytes | str] = {
    "User-Agent": "certigraph/0.1 (+https://pypi.org/project/certigraph)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}


class Answer(NamedTuple):
    """What a server said. A status that is not one of success has no body."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes = b""


class Asked(NamedTuple):
    """How URLs are asked for."""

    deadline: Deadline
    most: int
    """Bytes of the unpacked body; what comes after them is not read."""
    before: Callable[[httpx.URL], None] = lambda url: None
    """Raises Refused where a URL is not to be asked for."""
    wanted: Callable[[httpx.Headers], None] = lambda headers: None
    """Raises Refused where the headers show that the body is of no use."""


class Transport:
    """Asks for URLs. Threads may share it. Every method raises Refused where there is no answer."""

    def __init__(self, addresses: Addresses, redirects: int) -> None:
        self._addresses, self._redirects = addresses, redirects

    def followed(self, url: httpx.URL, asked: Asked) -> Answer:
        """The answer at the end of the redirects, each of which is checked anew."""
        answer, seen = self.answer(url, asked), {url}
        while answer.status in (301, 302, 303, 307, 308) and "Location" in answer.headers:
            try:
                target = parsed(answer.headers["Location"], answer.url)
                self._count(target, seen)
                answer = self.answer(target, asked)
            except OutOfBounds as error:
                raise Refused(f"redirects to {error.reason}") from None
        return answer

    def _count(self, target: httpx.URL, seen: set[httpx.URL]) -> None:
        if target in seen:
            raise Refused("redirects in a circle")
        if len(seen) > self._redirects:
            raise Refused(f"more than {self._redirects} redirects")
        seen.add(target)

    def answer(self, url: httpx.URL, asked: Asked) -> Answer:
        """The answer of the URL's host."""
        asked.before(url)
        place = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with (
            _refusing(asked.deadline),
            self._pool(url, asked.deadline) as pool,
            pool.stream("GET", place, headers=HEADERS) as reply,
        ):
            answer = Answer(url, reply.status, httpx.Headers(reply.headers))
            if not 200 <= reply.status < 300:
                return answer
            asked.wanted(answer.headers)
            packed = answer.headers.get("Content-Encoding", "")
            return answer._replace(body=unpacked(reply.iter_stream(), packed, asked.most))

    def _pool(self, url: httpx.URL, deadline: Deadline) -> httpcore.ConnectionPool:
        tls = self._tls if url.scheme == "https" else None
        return httpcore.ConnectionPool(tls, network_backend=Checked(self._addresses, deadline))

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        try:
            return httpx.create_ssl_context()
        except OSError as error:  # the file of certificates that the environment names
            raise Fault("environment", f"no TLS ({error}): correct or unset SSL_CERT_FILE and SSL_CERT_DIR") from error


@contextmanager
def _refusing(deadline: Deadline) -> Iterator[None]:
    try:
        yield
    except httpcore.TimeoutException:
        raise deadline.missed() from None
    except httpcore.ConnectError as error:
        secret = any(isinstance(part, ssl.SSLError) for part in error.args)
        raise Refused("no secure connection" if secret else "cannot be reached", lasting=True) from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise Refused("the connection broke off") from None
