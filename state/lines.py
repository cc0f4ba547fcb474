"""Lines of files, read with a bound: a file of one endless line costs the bound, not its size."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from certigraph.state.endings import Fault

MAX_LINE = 1 << 24
"""Bytes of a line of a data file, a journal or a list of results; the longest known has less than a tenth of that."""

_PIECE = 1 << 20
"""Bytes read at a time."""

CORRECT = "is it another file, or a damaged one? Name the right file, or split that line"
"""The fix for a line that is too long, where the caller knows no better one."""


def read_bounded_lines(file: IO[bytes], name: str, most: int = MAX_LINE, fix: str = CORRECT) -> Iterator[bytes]:
    """Read the lines of an open file in order, each with its newline, without ever holding more than one.

    Args:
        file: opened for reading bytes; packed files (gzip, bz2) and members of archives too.
        name: of the file, for the message of an error.
        most: bytes that a line may have.
        fix: what the reader of the message should do.

    Raises:
        Fault: ("data") a line is longer; at most `most` bytes and 1 MiB of it were read.
    """
    number = 0
    while line := _read_line(file, most):
        number += 1
        if len(line) > most:
            raise Fault("data", f"{name}:{number}: a line has more than {most:,} bytes: {fix}")
        yield bytes(line)


def read_first_line(path: Path, most: int = MAX_LINE) -> bytes:
    """Read the first line of a file with its newline; nothing where it has more than `most` bytes."""
    with path.open("rb") as file:
        line = _read_line(file, most)
    return bytes(line) if len(line) <= most else b""


def _read_line(file: IO[bytes], most: int) -> bytes | bytearray:
    first = file.readline(_PIECE)
    if len(first) < _PIECE or first.endswith(b"\n"):
        return first
    line = bytearray(first)  # grows in place, where `readline(most)` collects and then joins: twice the memory
    while len(line) <= most and not line.endswith(b"\n") and (piece := file.readline(_PIECE)):
        line += piece
    return line


def ends_line(path: Path) -> bool:
    """Whether a file is empty or ends with a newline, so that its last line was written whole."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def drop_torn_line(path: Path) -> None:
    """Cut what follows the last newline off a file, whatever its length; do nothing where there is no such file."""
    if not path.is_file():
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - _PIECE, 0)
            file.seek(start)
            kept = file.read(end - start).rfind(b"\n") + 1
            if kept:
                end = start + kept
                break
            end = start
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
