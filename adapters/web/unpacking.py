"""A body without its compression, never more of it than is wanted: a few packed bytes may stand for gigabytes."""

import zlib
from collections.abc import Iterable
from typing import Any

from certigraph.adapters.web.refused import Refused

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
