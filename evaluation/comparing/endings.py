"""How a run ended, read off the end of its file: a thousand trajectories need not be read to see which are done."""

import os
from pathlib import Path

from certigraph.state.endings import Fault
from certigraph.state.reading import LONGEST_LINE, parse_line
from certigraph.state.trajectory import Footer

TAIL = 1 << 16
"""Bytes read at first; a footer with a long answer takes more."""


def last_footer(path: Path) -> Footer | None:
    """The footer of a trajectory if that is its last line; None while the run goes on or was resumed since."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        line = _last_line(file.fileno(), size, TAIL)
    try:
        last = parse_line(line)
    except (ValueError, Fault):
        return None
    return last if isinstance(last, Footer) else None


def _last_line(file: int, size: int, tail: int) -> bytes:
    """The last line, or nothing where it was not written whole or is longer than any line is."""
    text = os.pread(file, tail, max(size - tail, 0))
    if not text.endswith(b"\n"):
        return b""
    start = text.rfind(b"\n", 0, -1) + 1
    if start or tail >= size:
        return text[start:-1]
    return _last_line(file, size, 4 * tail) if tail < LONGEST_LINE else b""
