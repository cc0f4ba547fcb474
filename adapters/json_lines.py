"""JSON from outside and lines of files, read within limits of depth and length."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from certigraph.state.endings import Fault

# JSON from outside. Values nested too deep for recursive code are refused like malformed JSON.

MAX_DEPTH = 100
"""Maximum nesting depth of JSON that is read.

The deepest JSON that this library writes, an answer in a trajectory line, has about half of it.
"""


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text with at most 100 levels of nesting.

    Raises:
        ValueError: the text is not JSON, or is nested deeper (where `json.loads` would raise a RecursionError).
    """
    plain = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(plain)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, plain.count("[") + plain.count("{"))
    return value


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at index `start` of a text. Return the value and the index of its end.

    Raises:
        ValueError: there is no JSON value; a TooDeepError if it is nested deeper than `MAX_DEPTH`.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, text.count("[", start, end) + text.count("{", start, end))
    return value, end


class TooDeepError(ValueError):
    """JSON text has more levels of nesting than `MAX_DEPTH`."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {MAX_DEPTH} levels")


_DECODER = json.JSONDecoder()


def _check_depth(value: Any, brackets: int) -> None:
    # counting brackets is a hundred times as fast as walking the value, and decides most cases
    if brackets > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise TooDeepError()


def replace_surrogates(text: str) -> str:
    """Replace each unpaired UTF-16 surrogate with U+FFFD, because no file, database or request can carry it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _depth(value: Any) -> int:
    """Return the nesting depth of lists and objects. Counting stops one level above `MAX_DEPTH`."""
    depth, level = 0, _nested([value])
    while level and depth <= MAX_DEPTH:
        depth, level = depth + 1, [part for value in level for part in _nested(value)]
    return depth


def _nested(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value
    return [part for part in parts if isinstance(part, (dict, list))]


# Reading files line by line with a maximum line length, so that a file of one endless line cannot fill the memory.

MAX_LINE = 1 << 24
"""Maximum bytes per line of a data file, a journal or a list of results. The longest known line has under a tenth."""

_CHUNK_BYTES = 1 << 20
"""Number of bytes that are read at a time."""

SPLIT_LINE_ADVICE = "is it another file, or a damaged one? Name the right file, or split that line"
"""Advice in the error message about a line that is too long, unless the caller gives another one."""


def read_bounded_lines(
    file: IO[bytes], name: str, most: int = MAX_LINE, fix: str = SPLIT_LINE_ADVICE
) -> Iterator[bytes]:
    """Read the lines of an open file in order, each with its newline, holding only one in memory.

    Args:
        file: file opened for reading bytes; compressed files (gzip, bz2) and members of archives work too.
        name: name of the file for the error message.
        most: maximum number of bytes per line.
        fix: advice at the end of the error message.

    Raises:
        Fault: ("data") a line is longer. Of that line, at most `most` bytes and 1 MiB were read.
    """
    number = 0
    while line := _read_line(file, most):
        number += 1
        if len(line) > most:
            raise Fault("data", f"{name}:{number}: a line has more than {most:,} bytes: {fix}")
        yield bytes(line)


def read_first_line(path: Path, most: int = MAX_LINE) -> bytes:
    """Read the first line of a file with its newline; return b"" if the line has more than `most` bytes."""
    with path.open("rb") as file:
        line = _read_line(file, most)
    return bytes(line) if len(line) <= most else b""


def _read_line(file: IO[bytes], most: int) -> bytes | bytearray:
    first = file.readline(_CHUNK_BYTES)
    if len(first) < _CHUNK_BYTES or first.endswith(b"\n"):
        return first
    line = bytearray(first)  # grows in place; `readline(most)` collects pieces and joins them: twice the memory
    while len(line) <= most and not line.endswith(b"\n") and (piece := file.readline(_CHUNK_BYTES)):
        line += piece
    return line


def ends_with_newline(path: Path) -> bool:
    """Return whether the last line of a file is complete: the file ends with a newline, or is empty."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def drop_incomplete_line(path: Path) -> None:
    """Cut off an incomplete last line of a file, that is, all bytes after its last newline. Ignore a missing file."""
    if not path.is_file():
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - _CHUNK_BYTES, 0)
            file.seek(start)
            length = file.read(end - start).rfind(b"\n") + 1
            if length:
                end = start + length
                break
            end = start
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
