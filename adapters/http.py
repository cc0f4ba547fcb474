"""HTTP answers that are bounded while they are read."""

import os
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

# Why a page cannot be had, raised on the way and said in `Unreadable`.


class Refused(Exception):
    """There is no page, and `reason` says why; `lasting`: other pages of its domain will fare no better."""

    def __init__(self, reason: str, *, lasting: bool = False) -> None:
        self.reason, self.lasting = reason, lasting
        super().__init__(reason)


class OutOfBounds(Refused):
    """An address that must not be asked; the reason names it, so that `redirects to` may stand before it."""


# A body without its compression, never more of it than is wanted: a few packed bytes may stand for gigabytes.

ENCODINGS = ("gzip", "x-gzip", "deflate")
EITHER = zlib.MAX_WBITS | 32
"""gzip or zlib, as the first bytes tell."""

BARE = -zlib.MAX_WBITS
"""What some servers send as `deflate`."""


def unpacked(chunks: Iterable[bytes], encoding: str, most: int) -> bytes:
    """The first `most` bytes of a body; no more than that is read or unpacked, but for the last chunk.

    Raises:
        Refused: an unknown encoding, or bytes that are not in it.
    """
    name = encoding.strip().lower()
    if name not in ("", "identity", *ENCODINGS):
        raise Refused("in an encoding that was not asked for")
    body, inflate, read = bytearray(), Inflate() if name in ENCODINGS else None, 0
    for chunk in chunks:
        left = most - len(body)
        body += inflate.next(chunk, left) if inflate else chunk[:left]
        read += len(chunk)
        if len(body) >= most or read >= most:
            break
    return bytes(body)


class Inflate:
    """Unpacks piece by piece."""

    def __init__(self) -> None:
        self._inflate: Any = None

    def next(self, chunk: bytes, most: int) -> bytes:
        """What a chunk adds, at most so many bytes, more than 0. Raises Refused where it is not compressed data."""
        try:
            if self._inflate is None:
                return self._first(chunk, most)
            return bytes(self._inflate.decompress(chunk, most))
        except zlib.error:
            raise Refused("a body that cannot be unpacked") from None

    def _first(self, chunk: bytes, most: int) -> bytes:
        try:
            self._inflate = zlib.decompressobj(EITHER)
            return bytes(self._inflate.decompress(chunk, most))
        except zlib.error:
            self._inflate = zlib.decompressobj(BARE)
            return bytes(self._inflate.decompress(chunk, most))


# Answers over HTTP that are bounded while they are read: in bytes, unpacked where they are packed, and in time.
#
# A client bounds neither: it unpacks what comes and keeps all of it, and its time limit is one on each part. The
# bounds replace the stream of a response, where a transport of our own would ignore the proxies of the environment.
# They serve httpx and httpx2.

MOST_BYTES = 8_000_000
"""Unpacked bytes of one answer of a model. The longest answers of today, 128,000 tokens, have about one million."""

PACKED = {"Accept-Encoding": "gzip, deflate"}
"""Headers of a request whose answer is bounded: these encodings can be unpacked piece by piece."""


class UnboundedAnswer(Exception):
    """An answer that is longer than is read, or packed so that its length cannot be bounded."""


def bound_answer(response: Any, most: int) -> None:
    """Have the body of a response, which is not read yet, come unpacked and end with an error after `most` bytes.

    Reading it raises UnboundedAnswer, or the library's own ReadTimeout and DecodingError.
    """
    library = type(response).__module__.partition(".")[0]
    seconds = response.request.extensions.get("timeout", {}).get("read")
    body = _Body(import_module(library), response.headers.pop("Content-Encoding", ""), most, seconds)
    response.stream = _stream_type(library)(response.stream, body)


def openai_settings() -> dict[str, Any]:
    """The settings of ChatOpenAI for bounded answers, through the proxy of OPENAI_PROXY where that is set."""
    return {**_openai_clients(os.environ.get("OPENAI_PROXY", "")), "openai_proxy": ""}


@lru_cache(maxsize=1)
def _openai_clients(proxy: str) -> dict[str, Any]:
    from openai import DefaultHttpxClient

    def bound(response: Any) -> None:
        bound_answer(response, MOST_BYTES)

    waiting = DefaultHttpxClient(**_SINGLE, proxy=proxy or None, event_hooks={"response": [bound]})
    return {"http_client": waiting, "http_async_client": async_openai_client(proxy)}


def async_openai_client(proxy: str = "") -> Any:
    """An asynchronous HTTP client for OpenAI's: bounded answers, no redirects. `proxy` replaces the environment's."""
    from openai import DefaultAsyncHttpxClient

    async def bound(response: Any) -> None:
        bound_answer(response, MOST_BYTES)

    return DefaultAsyncHttpxClient(**_SINGLE, proxy=proxy or None, event_hooks={"response": [bound]})


_SINGLE: Any = {"follow_redirects": False, "headers": PACKED}
"""A redirect would be a second request inside one call."""


class _Body:
    """Unpacks the parts of a body and counts them."""

    def __init__(self, http: Any, encoding: str, most: int, seconds: float | None) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", *ENCODINGS):
            raise UnboundedAnswer(f"the answer is packed as {name[:20]!r}, which was not asked for")
        self._http = http
        self._inflate = Inflate() if name in ENCODINGS else None
        self._most = self._left = most
        self._seconds, self._until = seconds, time.monotonic() + (seconds or 0)

    def part(self, chunk: bytes) -> bytes:
        """A part of the body as it is meant."""
        if self._seconds and time.monotonic() > self._until:
            raise self._http.ReadTimeout(f"the answer was not complete after {self._seconds:g} seconds")
        if self._inflate:
            try:
                chunk = self._inflate.next(chunk, self._left + 1)
            except Refused as refused:
                raise self._http.DecodingError(f"the answer is {refused.reason}") from None
        self._left -= len(chunk)
        if self._left < 0:
            raise UnboundedAnswer(f"the answer has more than {self._most:,} bytes")
        return chunk


@lru_cache(maxsize=2)
def _stream_type(library: str) -> Any:
    """The type of stream that a response of this library takes, `httpx` or `httpx2`."""
    http: Any = import_module(library)

    class BoundedStream(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, body: _Body) -> None:
            self._stream, self._body = stream, body

        def __iter__(self) -> Iterator[bytes]:
            return map(self._body.part, self._stream)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                yield self._body.part(chunk)

        def close(self) -> None:
            self._stream.close()

        async def aclose(self) -> None:
            await self._stream.aclose()

    return BoundedStream
