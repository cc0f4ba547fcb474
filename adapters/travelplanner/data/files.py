"""Reading TravelPlanner's text files, plain or gzipped."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from certigraph.state.endings import Fault
from certigraph.state.lines import read_bounded_lines


def read_text_lines(path: Path) -> Iterator[str]:
    """Read the lines of a UTF-8 file, each with its newline; the file is gzipped if its name ends in `.gz`.

    Raises:
        Fault: there is no such file, or a line has more than 16 MiB.
        ValueError, OSError, EOFError, zlib.error: it is no UTF-8, or damaged.
    """
    try:
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as file:
            for line in read_bounded_lines(file, str(path)):
                yield line.decode("utf-8")
    except FileNotFoundError as error:
        raise Fault("data", f"{path}: no such file: correct the path") from error
