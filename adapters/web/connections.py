"""Connections to the addresses that were checked, which end when a page's time is over."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from ssl import SSLContext
from typing import Any, TypeVar

import httpcore

from certigraph.adapters.web.addresses import Addresses
from certigraph.adapters.web.refused import Refused

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
