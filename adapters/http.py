"""Limits on the bodies of HTTP responses while they are read: on bytes, on decompressed bytes and on time.

Used for web pages (`unpack_body`) and for the answers of model endpoints (`limit_response`). `read_retry_after` reads
the time after which a busy server takes another request.
"""

import os
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from importlib import import_module
from typing import Any

# Errors that explain why a page cannot be fetched; `Unreadable` reports their reasons.


class PageRefused(Exception):
    """Page that cannot be fetched.

    Attributes:
        reason: why, as a part of a sentence.
        lasting: whether other pages of the same domain will fail as well.
        forbidden: whether no other page source may read the page either.
    """

    forbidden = False

    def __init__(self, reason: str, *, lasting: bool = False, forbidden: bool = False) -> None:
        self.reason, self.lasting, self.forbidden = reason, lasting, self.forbidden or forbidden
        super().__init__(reason)


class AddressRefused(PageRefused):
    """Address that must not be requested. `reason` contains the address, so that callers can prefix `redirects to`."""

    forbidden = True


# Decompression that stops at a maximum size: a few compressed bytes may expand to gigabytes.

ENCODINGS = ("gzip", "x-gzip", "deflate")
GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
"""zlib setting for gzip or zlib, detected by the first bytes."""

RAW_DEFLATE = -zlib.MAX_WBITS
"""zlib setting for raw deflate, which some servers send as `deflate`."""


def unpack_body(chunks: Iterable[bytes], encoding: str, most: int) -> bytes:
    """Return at most `most` bytes of a body, decompressed. Reading stops once `most` bytes were read or unpacked.

    Raises:
        PageRefused: the encoding is unknown, or the body is not in this encoding.
    """
    name = encoding.strip().lower()
    if name not in ("", "identity", *ENCODINGS):
        raise PageRefused("in an encoding that was not asked for")
    body, inflate, read = bytearray(), Inflate() if name in ENCODINGS else None, 0
    for chunk in chunks:
        remaining = most - len(body)
        body += inflate.next(chunk, remaining) if inflate else chunk[:remaining]
        read += len(chunk)
        if len(body) >= most or read >= most:
            break
    return bytes(body)


class Inflate:
    """Incremental decompressor of gzip, zlib and raw deflate."""

    def __init__(self) -> None:
        self._inflate: Any = None

    def next(self, chunk: bytes, most: int) -> bytes:
        """Decompress one chunk to at most `most` bytes (> 0). Raises PageRefused if it is not compressed data."""
        try:
            if self._inflate is None:
                return self._first(chunk, most)
            return bytes(self._inflate.decompress(chunk, most))
        except zlib.error:
            raise PageRefused("a body that cannot be unpacked") from None

    def _first(self, chunk: bytes, most: int) -> bytes:
        try:
            self._inflate = zlib.decompressobj(GZIP_OR_ZLIB)
            return bytes(self._inflate.decompress(chunk, most))
        except zlib.error:
            self._inflate = zlib.decompressobj(RAW_DEFLATE)
            return bytes(self._inflate.decompress(chunk, most))


# The time after which a busy server takes another request.


def read_retry_after(header: str) -> float | None:
    """Return the seconds, at least 0, that a Retry-After header asks to wait; None if it is missing or invalid.

    The header holds seconds or a date (RFC 9110, section 10.2.3).
    """
    for convert in (float, _seconds_until):
        with suppress(ValueError, OverflowError):
            return max(0.0, convert(header))  # max(0.0, nan) is 0.0, but max(nan, 0.0) is nan
    return None


def _seconds_until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()


# Bounds on the responses of model endpoints, for httpx and httpx2.
#
# An HTTP client bounds neither size nor total time: it decompresses and keeps everything, and its timeout applies to
# each part. The bounds wrap the stream of a response; a custom transport would ignore the proxies of the environment.

MAX_ANSWER_BYTES = 8_000_000
"""Maximum unpacked bytes of one answer of a model. The longest current ones, 128,000 tokens, have about one million."""

ENCODING_HEADERS = {"Accept-Encoding": "gzip, deflate"}
"""Request headers that allow only encodings which can be decompressed incrementally."""


class UnboundedAnswer(Exception):
    """Answer that is too long, or encoded so that its length cannot be bounded."""


def limit_response(response: Any, most: int) -> None:
    """Replace the unread body of a response by one that is decompressed and fails after `most` bytes.

    Reading the new body raises UnboundedAnswer if it is too long, or ReadTimeout or DecodingError of the HTTP library.
    """
    library = type(response).__module__.partition(".")[0]
    seconds = response.request.extensions.get("timeout", {}).get("read")
    body = _BodyReader(import_module(library), response.headers.pop("Content-Encoding", ""), most, seconds)
    response.stream = _stream_type(library)(response.stream, body)


def openai_settings() -> dict[str, Any]:
    """Return arguments of ChatOpenAI that bound the length of answers and set the proxy named in OPENAI_PROXY."""
    return {**_cached_openai_clients(os.environ.get("OPENAI_PROXY", "")), "openai_proxy": ""}


@lru_cache(maxsize=1)
def _cached_openai_clients(proxy: str) -> dict[str, Any]:
    from openai import DefaultHttpxClient

    def bound(response: Any) -> None:
        limit_response(response, MAX_ANSWER_BYTES)

    client = DefaultHttpxClient(**_CLIENT_SETTINGS, proxy=proxy or None, event_hooks={"response": [bound]})
    return {"http_client": client, "http_async_client": async_openai_client(proxy)}


def async_openai_client(proxy: str = "") -> Any:
    """Create an asynchronous HTTP client for the OpenAI library, with bounded answers and without redirects.

    Args:
        proxy: address of a proxy; replaces that of the environment.
    """
    from openai import DefaultAsyncHttpxClient

    async def bound(response: Any) -> None:
        limit_response(response, MAX_ANSWER_BYTES)

    return DefaultAsyncHttpxClient(**_CLIENT_SETTINGS, proxy=proxy or None, event_hooks={"response": [bound]})


_CLIENT_SETTINGS: Any = {"follow_redirects": False, "headers": ENCODING_HEADERS}
"""Settings that make one call one request: a redirect would be a second one."""


class _BodyReader:
    """Decompresses the chunks of a body and enforces the limits on bytes and seconds."""

    def __init__(self, http: Any, encoding: str, most: int, seconds: float | None) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", *ENCODINGS):
            raise UnboundedAnswer(f"the answer is packed as {name[:20]!r}, which was not requested")
        self._http = http
        self._inflate = Inflate() if name in ENCODINGS else None
        self._most = self._remaining = most
        self._seconds, self._deadline = seconds, time.monotonic() + (seconds or 0)

    def decode(self, chunk: bytes) -> bytes:
        if self._seconds and time.monotonic() > self._deadline:
            raise self._http.ReadTimeout(f"the answer was not complete after {self._seconds:g} seconds")
        if self._inflate:
            try:
                chunk = self._inflate.next(chunk, self._remaining + 1)
            except PageRefused as refused:
                raise self._http.DecodingError(f"the answer is {refused.reason}") from None
        self._remaining -= len(chunk)
        if self._remaining < 0:
            raise UnboundedAnswer(f"the answer has more than {self._most:,} bytes")
        return chunk


@lru_cache(maxsize=2)
def _stream_type(library: str) -> Any:
    """Create the class of bounded response streams for a library, `httpx` or `httpx2`."""
    http: Any = import_module(library)

    class BoundedStream(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, body: _BodyReader) -> None:
            self._stream, self._body = stream, body

        def __iter__(self) -> Iterator[bytes]:
            return map(self._body.decode, self._stream)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                yield self._body.decode(chunk)

        def close(self) -> None:
            self._stream.close()

        async def aclose(self) -> None:
            await self._stream.aclose()

    return BoundedStream
