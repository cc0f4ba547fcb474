"""What a run's folder holds, read by those who did not write it: what is spoilt is told in one line."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certigraph.state.endings import Fault, UnknownName

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def lacks_space(error: BaseException) -> bool:
    """Whether an error says that a disk, a quota or a limit of file sizes leaves no space to write."""
    if isinstance(error, sqlite3.OperationalError):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(error, OSError) and error.errno in FULL


def no_space(folder: Path) -> Fault:
    """The fault of a run whose folder cannot be written any more; what was written stays."""
    told = f"no space left on the disk of {folder}, or it cannot be written"
    return Fault("data", f"{told}: free space, then go on with: certigraph resume {folder}")


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Open the SQLite file at `path` inside the block.

    Raises:
        Fault: ("data") it is no database, or a spoilt one.
    """
    try:
        yield
    except sqlite3.OperationalError as error:  # a full disk, a lock: the file is not to blame
        if lacks_space(error):
            raise no_space(path.parent) from error
        raise
    except sqlite3.DatabaseError as error:
        raise Fault("data", f"{path} cannot be opened ({error}): restore it, or start the run anew") from error


@contextmanager
def legible(run: str) -> Iterator[None]:
    """Read what a run's header and updates say inside the block: each is JSON, but anything may stand in it.

    Raises:
        Fault: ("data") something that no run of such a graph says.
    """
    try:
        yield
    except UnknownName:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        told = " ".join(f"{type(error).__name__}: {error!s:.200}".split())
        fix = "restore its trajectory.jsonl or leave the run out"
        raise Fault("data", f"run {run} says what no run of its graph does ({told}): {fix}") from error
