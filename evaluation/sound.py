"""Files of SQLite that a run finds in its folder: what is none, or is spoilt, is told in one line."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certigraph.state.endings import Fault


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Open the file at `path` inside the block.

    Raises:
        Fault: ("data") it is no database, or a spoilt one.
    """
    try:
        yield
    except sqlite3.OperationalError:  # a full disk, a lock: the file is not to blame
        raise
    except sqlite3.DatabaseError as error:
        raise Fault("data", f"{path} cannot be opened ({error}): restore it, or start the run anew") from error
