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

from certigraph.adapters.extras import import_web_package
from certigraph.adapters.http import AddressRefused, PageRefused, unpack_body
from certigraph.adapters.web.addresses import Addresses, parse_url
from certigraph.state.endings import Fault

# Connections to checked addresses, which end when the time for a page is over.

T = TypeVar("T")


class Deadline:
    """Time limit for loading one page, its redirects and its site's robots.txt included; it starts at construction."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the remaining seconds, more than 0. Raises PageRefused if the time is over."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise self.timed_out()
        return seconds

    def timed_out(self) -> PageRefused:
        """Create the error to raise when the time is over."""
        return PageRefused(f"timed out after {self._seconds:g} s", lasting=True)

    def run(self, call: Callable[[], T]) -> T:
        """Run a call that has no time limit of its own in a thread, and return its result.

        Raises:
            PageRefused: the call takes too long; its thread then continues.
        """
        future: Future[T] = Future()
        threading.Thread(target=_complete_future, args=(future, call), daemon=True).start()
        try:
            return future.result(self.remaining())
        except TimeoutError:
            raise self.timed_out() from None


class CheckedBackend(httpcore.NetworkBackend):
    """Network backend for httpcore that connects only to checked addresses of a host.

    The Host header and TLS still use the host's name.
    """

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
        """Connect to the first address of a host that accepts the connection.

        Raises:
            PageRefused: no address may be requested, or the time is over.
            httpcore.ConnectError, httpcore.ConnectTimeout: no address accepts.
        """
        places = self._deadline.run(lambda: self._addresses.find(host, port))
        last_error: Exception = httpcore.ConnectError()
        for index, place in enumerate(places):
            try:
                # share the remaining time among the addresses, because one may never answer
                share = self._deadline.remaining() / (len(places) - index)
                return TimedStream(self._sockets.connect_tcp(place.address, place.port, share), self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last_error = error
        raise last_error


class TimedStream(httpcore.NetworkStream):
    """Connection whose reads and writes end at the deadline, however slowly the server sends."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read at most `max_bytes` bytes; an empty result means the end of the stream."""
        return self._stream.read(max_bytes, self._deadline.remaining())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all bytes."""
        self._stream.write(buffer, self._deadline.remaining())

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Start TLS, and return the encrypted connection with the same deadline."""
        return TimedStream(
            self._stream.start_tls(ssl_context, server_hostname, self._deadline.remaining()), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        """Return a piece of information about the connection, as httpcore asks for it by name."""
        return self._stream.get_extra_info(info)


def _complete_future(future: "Future[T]", call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - raised again by Future.result
        future.set_exception(error)


# HTTP of one page: a GET request and its redirects, bounded in bytes and seconds.
#
# No proxy of the environment is used, because it would resolve names itself, without the check of addresses. httpx's
# client can neither check the address that it connects to nor limit the time of a complete request, so httpcore is used
# directly.

HEADERS: Mapping[bytes | str, bytes | str] = {
    "User-Agent": "certigraph/0.1 (+https://pypi.org/project/certigraph)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}


class PageResponse(NamedTuple):
    """Response of a server to one request. `body` is empty unless the status is a success."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes = b""


class RequestSettings(NamedTuple):
    """Limits and checks of a request."""

    deadline: Deadline
    most: int
    """Maximum bytes of the unpacked body; later bytes are not read."""
    before: Callable[[httpx.URL], None] = lambda url: None
    """Function that raises PageRefused if a URL must not be requested."""
    wanted: Callable[[httpx.Headers], None] = lambda headers: None
    """Function that raises PageRefused if the response headers show that the body cannot be used."""


class Transport:
    """Sends GET requests to checked addresses. Threads may share it.

    Every method raises PageRefused if there is no response.

    Args:
        addresses: resolver that returns only addresses which may be requested.
        redirects: maximum number of redirects that are followed.
    """

    def __init__(self, addresses: Addresses, redirects: int) -> None:
        self._addresses, self._redirects = addresses, redirects

    def follow(self, url: httpx.URL, settings: RequestSettings) -> PageResponse:
        """Request a URL and return the response after all redirects. Each redirect is checked like the URL itself."""
        answer, seen = self.answer(url, settings), {url}
        while answer.status in (301, 302, 303, 307, 308) and "Location" in answer.headers:
            try:
                target = parse_url(answer.headers["Location"], answer.url)
                self._check_redirect(target, seen)
                answer = self.answer(target, settings)
            except AddressRefused as error:
                raise PageRefused(f"redirects to {error.reason}", forbidden=True) from None
        return answer

    def _check_redirect(self, target: httpx.URL, seen: set[httpx.URL]) -> None:
        if target in seen:
            raise PageRefused("redirects in a circle")
        if len(seen) > self._redirects:
            raise PageRefused(f"more than {self._redirects} redirects")
        seen.add(target)

    def answer(self, url: httpx.URL, settings: RequestSettings) -> PageResponse:
        """Request a URL and return the response, without following redirects."""
        settings.before(url)
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with (
            _translate_errors(settings.deadline),
            self._pool(url, settings.deadline) as pool,
            pool.stream("GET", target, headers=HEADERS) as reply,
        ):
            answer = PageResponse(url, reply.status, httpx.Headers(reply.headers))
            if not 200 <= reply.status < 300:
                return answer
            settings.wanted(answer.headers)
            encoding = answer.headers.get("Content-Encoding", "")
            return answer._replace(body=unpack_body(reply.iter_stream(), encoding, settings.most))

    def _pool(self, url: httpx.URL, deadline: Deadline) -> httpcore.ConnectionPool:
        tls = self._tls if url.scheme == "https" else None
        return httpcore.ConnectionPool(tls, network_backend=CheckedBackend(self._addresses, deadline))

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        try:
            return httpx.create_ssl_context()
        except OSError as error:  # certificates named by the environment
            raise Fault("environment", f"no TLS ({error}): correct or unset SSL_CERT_FILE and SSL_CERT_DIR") from error


@contextmanager
def _translate_errors(deadline: Deadline) -> Iterator[None]:
    try:
        yield
    except httpcore.TimeoutException:
        raise deadline.timed_out() from None
    except httpcore.ConnectError as error:
        is_tls_error = any(isinstance(part, ssl.SSLError) for part in error.args)
        raise PageRefused("no secure connection" if is_tls_error else "cannot be reached", lasting=True) from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise PageRefused("the connection broke off") from None


# Rules of robots.txt (RFC 9309), requested once for each scheme, host and port.

ROBOTS_AGENT = "certigraph"
MAX_ROBOTS_BYTES = 500_000
"""Maximum bytes of a robots.txt that are read."""


class Robots:
    """The robots.txt rules of all sites requested so far. Threads may share it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._rules: dict[str, Any] = {}
        self._locks: dict[str, Lock] = {}
        self._lock = Lock()

    def check(self, url: httpx.URL, deadline: Deadline) -> None:
        """Check that the site's robots.txt allows reading a page; load the robots.txt if needed.

        Raises:
            PageRefused: the robots.txt forbids it, or cannot be loaded.
        """
        rules = self._of(url.copy_with(raw_path=b"/robots.txt"), deadline)
        if not rules.can_fetch(str(url), ROBOTS_AGENT):
            raise PageRefused("its robots.txt does not allow it", forbidden=True)

    def _of(self, address: httpx.URL, deadline: Deadline) -> Any:
        with self._lock:
            lock = self._locks.setdefault(str(address), Lock())
        # otherwise one thread after the other would wait for a site that never answers
        if not lock.acquire(timeout=deadline.remaining()):
            raise deadline.timed_out()
        try:
            # failures are not cached: the time may have been over, and the next page tries again
            if str(address) not in self._rules:
                self._rules[str(address)] = self._fetch(address, deadline)
            return self._rules[str(address)]
        finally:
            lock.release()

    def _fetch(self, address: httpx.URL, deadline: Deadline) -> Any:
        parse = import_web_package("protego").Protego.parse
        answer = self._transport.follow(address, RequestSettings(deadline, MAX_ROBOTS_BYTES))
        if answer.status >= 500:
            return parse("User-agent: *\nDisallow: /")
        return parse(answer.body.decode(errors="replace"))
