"""Opening TravelPlanner's text files, plain or gzipped."""

import gzip
from pathlib import Path
from typing import IO

from certigraph.state.endings import Fault


def open_text(path: Path) -> IO[str]:
    """Opens a UTF-8 text file, gzipped if its name ends in `.gz`.

    Raises:
        Fault: there is no such file.
    """
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except FileNotFoundError as error:
        raise Fault("data", f"{path}: no such file: correct the path") from error
