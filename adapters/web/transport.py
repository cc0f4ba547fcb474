"""Connections and requests for pages, and robots.txt."""

import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property
from ssl import SSLContext
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import httpcore
import httpx

from certigraph.adapters.http import OutOfBounds, Refused, unpacked
from certigraph.adapters.processes import package
from certigraph.adapters.web.addresses import Addresses, parsed
from certigraph.state.records import Fault

# Connections to the addresses that were checked, which end when a page's time is over.

T = TypeVar("T")


class Deadline:
    """The time that a page may take."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left, more than 0. Raises Refused where there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.missed()
        return left

    def missed(self) -> Refused:
        """What to raise where the time is over."""
        return Refused(f"timed out after {self._seconds:g} s", lasting=True)

    def within(self, call: Callable[[], T]) -> T:
        """What a call that has no time limit returns or raises; where it takes too long it goes on in its thread."""
        future: Future[T] = Future()
        threading.Thread(target=_settle, args=(future, call), daemon=True).start()
        try:
            return future.result(self.left())
        except TimeoutError:
            raise self.missed() from None


class Checked(httpcore.NetworkBackend):
    """Connects a host's name to the addresses found for it and to nothing else; the name stays in Host and in TLS."""

    def __init__(self, addresses: Addresses, deadline: Deadline) -> None:
        self._addresses, self._deadline, self._sockets = addresses, deadline, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first address that takes one. Raises Refused, or httpcore's errors."""
        places = self._deadline.within(lambda: self._addresses.find(host, port))
        failed: Exception = httpcore.ConnectError()
        for tried, place in enumerate(places):
            try:
                # an address that never answers leaves the others their share of the time
                patience = self._deadline.left() / (len(places) - tried)
                return Timed(self._sockets.connect_tcp(place.address, place.port, patience), self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class Timed(httpcore.NetworkStream):
    """A connection of which no read or write goes beyond the deadline, however slowly the other side drips."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes; none at the end."""
        return self._stream.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of them."""
        self._stream.write(buffer, self._deadline.left())

    def close(self) -> None:
        """Hang up."""
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The connection, encrypted."""
        return Timed(self._stream.start_tls(ssl_context, server_hostname, self._deadline.left()), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks about a socket."""
        return self._stream.get_extra_info(info)


def _settle(future: "Future[T]", call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - raised again where it is waited for
        future.set_exception(error)


# One page's HTTP: a GET and the redirects after it, with no more bytes or seconds than are allowed.
#
# No proxy of the environment is used: it would look names up itself, past the check of addresses. httpx's client can
# neither check the address that it connects to nor limit the time of a whole request, so httpcore, which httpx stands
# on, is asked directly.

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


# What sites let be read: their robots.txt (RFC 9309), asked for once for each scheme, host and port.

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
