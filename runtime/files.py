"""Files of a run's folder: names, search and guarded reading."""

import errno
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from certigraph.state.records import Fault, UnknownName, json_value
from certigraph.state.trajectory import LONGEST_LINE, Footer, first_line, parse_line

# Names of files: those of a run's folder, and those made of texts from outside, which are short and lead nowhere.

TRAJECTORY = "trajectory.jsonl"
SETTINGS = "local.json"
CHECKPOINTS = "checkpoints.sqlite"
MEMORY = "memory.sqlite"
REPORT = "report.html"

_SQLITE = r"(-journal|-wal|-shm)?"
_RUN_FILE = re.compile(
    rf"{re.escape(TRAJECTORY)}|{re.escape(SETTINGS)}|{re.escape(REPORT)}"
    rf"|({re.escape(CHECKPOINTS)}|{re.escape(MEMORY)}){_SQLITE}"
)


def is_run_file(path: Path) -> bool:
    """Whether a path in a run's folder is a file that certigraph writes there; links and folders are not."""
    return bool(_RUN_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink()


def check_out(out: Path | str) -> None:
    """Make sure that a folder is one for runs and their tables to lie in.

    Raises:
        Fault: ("data") it is the root of the file system, which is what an empty variable in `--out $OUT/` leads to, or
            the folder of a run, whose own files would be mixed with those of others.
    """
    path = Path(out).resolve()
    told = "the root of the file system" if path == Path(path.anchor) else ""
    if (path / TRAJECTORY).is_file():
        told = "the folder of a run"
    if told:
        raise Fault("data", f"{out} is {told}: name a folder of its own for what is written, as in --out runs")


def slug(text: str, most: int, *, kept: str = "") -> str:
    """Letters and digits of a text, hyphens for all else but `kept`; at most so many bytes.

    Bytes, for a file's name has 255 at most, and a path that SQLite opens 512 with all its folders.
    """
    plain = "".join(c if c.isalnum() or c in kept else "-" for c in text)
    return plain.encode()[:most].decode(errors="ignore")


def own_slug(text: str, most: int) -> str:
    """As `slug`, with a hash where the text says more than its slug, so that two texts never share a file."""
    short = slug(text, most, kept="_")
    return short if short == text else f"{short}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


def refuse_links(*paths: Path) -> None:
    """Make sure that what is written or deleted at some paths is there and not elsewhere.

    Raises:
        Fault: ("data") one of them is a link.
    """
    for path in paths:
        if path.is_symlink():
            told = f"{path} is a link to {path.readlink()}, and runs write and delete nothing outside their own folder"
            raise Fault("data", f"{told}: put the file itself there")


# What a run's folder holds, read by those who did not write it: what is spoilt is told in one line.

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


# Finding the runs below a folder: one's own, a comparison's, or a whole collection.


def trajectory_files(folder: Path) -> Sequence[Path]:
    """The trajectories at any depth below a folder, in the order of their paths. Raises Fault where it is none."""
    if folder.is_file():
        beside = f"`certigraph eval` leaves them beside its log, in {folder.parent}"
        raise Fault("data", f"{folder} is a file: give a folder with runs; {beside}")
    if not folder.is_dir():
        raise Fault("data", f"{folder}: no such folder: give folders that `certigraph run` wrote")
    return sorted(folder.rglob("trajectory.jsonl"))


def has_header(path: Path) -> bool:
    """Whether a trajectory's first line was written whole: a process that died before leaves nothing to go by."""
    return first_line(path).endswith(b"\n")


def read_run_id(path: Path) -> str | None:
    """The run id in the header of a trajectory of any schema; None where the file is missing or has none."""
    if not path.is_file():
        return None
    try:
        header = json_value(first_line(path))
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("type") != "header" or "graph" not in header:
        return None
    run_id = header.get("run_id")
    return run_id if isinstance(run_id, str) else None


# How a run ended, read off the end of its file: a thousand trajectories need not be read to see which are done.

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
