"""HTTP proxy on this machine through which a browser reaches only addresses that may be requested.

A browser resolves names and follows redirects, scripts and frames on its own. With this proxy as its only way out, the
check of addresses (`addresses.Addresses`) holds for every request that a page makes.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from certigraph.adapters.http import PageRefused
from certigraph.adapters.web.addresses import Addresses, SocketAddress, parse_url

# Parsing of the request that a browser sends to its proxy.

MAX_HEAD_BYTES = 65_536
"""Maximum bytes of the request line and the headers."""

HEAD_END = b"\r\n\r\n"

_HOP_HEADERS = (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive")
"""Headers for the proxy itself, which are not forwarded."""


class ProxyRequest(NamedTuple):
    """Request to a proxy: the host and port to connect to, and what to send there first (nothing for a tunnel)."""

    host: str
    port: int
    head: bytes
    tunnel: bool


def parse_proxy_request(head: bytes) -> ProxyRequest:
    """Parse the request line and headers of a request to a proxy, up to and with the empty line.

    Raises:
        PageRefused: it is not such a request, or its URL is invalid.
    """
    line, _, headers = head.partition(b"\r\n")
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[0].isalpha() or not parts[2].startswith(b"HTTP/1."):
        raise PageRefused("no request to a proxy")
    method, target = parts[0], parts[1].decode("ascii", "replace")
    tunnel = method == b"CONNECT"
    url = parse_url(f"https://{target}" if tunnel else target)
    port = url.port or (443 if url.scheme == "https" else 80)
    if tunnel:
        return ProxyRequest(url.host, port, b"", True)
    if url.scheme != "http":
        raise PageRefused("no request to a proxy")
    kept = [one for one in headers.split(b"\r\n") if one and one.partition(b":")[0].strip().lower() not in _HOP_HEADERS]
    # the connection carries one request: a second one could be for another host
    lines = [b" ".join((method, url.raw_path, b"HTTP/1.1")), *kept, b"Connection: close", b"", b""]
    return ProxyRequest(url.host, port, b"\r\n".join(lines), False)


# The proxy.

CHUNK_BYTES = 65_536

REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


class CheckedProxy:
    """HTTP proxy that connects only to addresses which may be requested. It lives in one event loop.

    Args:
        addresses: resolver that returns only addresses which may be requested.
        most: maximum bytes that are sent and received; after these, connections end.

    Attributes:
        refused: reasons for which hosts were refused, by host.
    """

    def __init__(self, addresses: Addresses, most: int) -> None:
        self.refused: dict[str, str] = {}
        self._addresses, self._left = addresses, most
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        """Port of the proxy on 127.0.0.1."""
        if self._server is None:
            raise RuntimeError("the proxy does not run: use `async with CheckedProxy(...)`")
        return int(self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError, PageRefused):
            with suppress(OSError):
                writer.write(REFUSAL)
                await writer.drain()
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = parse_proxy_request(await reader.readuntil(HEAD_END))
        far_reader, far_writer = await self._connect(request)
        try:
            if request.tunnel:
                writer.write(TUNNEL)
            far_writer.write(request.head)
            await _first_of(self._copy(reader, far_writer), self._copy(far_reader, writer))
        finally:
            far_writer.close()

    async def _connect(self, request: ProxyRequest) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the first checked address that accepts the connection.

        Raises:
            PageRefused: no address may be requested.
            OSError: no address accepts.
        """
        try:
            places = await asyncio.to_thread(self._addresses.find, request.host, request.port)
        except PageRefused as refused:
            self.refused[request.host] = refused.reason
            raise
        return await _open_first(places)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self._left > 0 and (chunk := await reader.read(CHUNK_BYTES)):
            self._left -= len(chunk)
            writer.write(chunk)
            await writer.drain()


async def _open_first(places: list[SocketAddress]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    error: OSError = ConnectionError("no address")
    for place in places:
        try:
            return await asyncio.open_connection(place.address, place.port)
        except OSError as failure:
            error = failure
    raise error


async def _first_of(*copies: Awaitable[None]) -> None:
    """Wait until one of two directions has ended, and end the other."""
    tasks = [asyncio.ensure_future(copy) for copy in copies]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            with suppress(OSError):
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
