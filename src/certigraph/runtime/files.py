"""Files of a run's folder: their names, searching for runs, and reading that reports a corrupted file in one line."""

import errno
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes, replace_text
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.trajectories import MAX_TRAJECTORY_LINE, TRAJECTORY_FILE, parse_line, read_header_line
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record
from certigraph.state.trajectory import Footer

# Names of files.

PROMPTS_FILE = "prompts.jsonl"
SETTINGS_FILE = "local.json"
CHECKPOINTS_FILE = "checkpoints.sqlite"
MEMORY_FILE = "memory.sqlite"
REPORT_FILE = "report.html"

MANIFEST_FILE = "manifest.json"
"""Name of the file that says what was written about all runs below its folder (`RunsManifest`)."""

_SQLITE_SUFFIX = r"(-journal|-wal|-shm)?"
_RUN_FILE = re.compile(
    rf"{re.escape(TRAJECTORY_FILE)}|{re.escape(PROMPTS_FILE)}|{re.escape(SETTINGS_FILE)}|{re.escape(REPORT_FILE)}"
    rf"|({re.escape(CHECKPOINTS_FILE)}|{re.escape(MEMORY_FILE)}){_SQLITE_SUFFIX}"
)


def is_run_file(path: Path) -> bool:
    """Whether a path in a run's folder is a file that certigraph writes there; false for links and folders."""
    return bool(_RUN_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink()


def check_output_folder(out: Path | str) -> None:
    """Check that runs and tables may be written to a folder.

    Raises:
        Fault: ("data") the folder is the root of the file system, as `--out $OUT/` gives if the variable is empty; or
            it is the folder of a run, whose files would be mixed with those of other runs.
    """
    path = Path(out).resolve()
    problem = "the root of the file system" if path == Path(path.anchor) else ""
    if (path / TRAJECTORY_FILE).is_file():
        problem = "the folder of a run"
    if problem:
        raise Fault("data", f"{out} is {problem}: give another folder for the output, as in --out runs")


def slug_of(text: str, most: int, *, kept: str = "") -> str:
    """Turn a text into a part of a file name: every character except letters, digits and `kept` becomes a hyphen.

    Args:
        text: the text.
        most: maximum number of bytes of the result; a file name may have 255, and a path that SQLite opens 512.
        kept: further characters that stay as they are.
    """
    plain = "".join(c if c.isalnum() or c in kept else "-" for c in text)
    return plain.encode()[:most].decode(errors="ignore")


def unique_slug_of(text: str, most: int) -> str:
    """Return `slug_of` a text; if it differs from the text, a hash is added so that two texts never share a file."""
    short = slug_of(text, most, kept="_")
    return short if short == text else f"{short}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


def check_no_links(*paths: Path) -> None:
    """Check that no path is a symbolic link, so that nothing outside the folder of a run is written or deleted.

    Raises:
        Fault: ("data") a path is a link.
    """
    for path in paths:
        if path.is_symlink():
            reason = f"{path} is a link to {path.readlink()}, and runs write and delete nothing outside their folder"
            raise Fault("data", f"{reason}: replace the link with the file")


# Errors of reading and writing a run's folder.

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk, an exceeded quota and an exceeded file size."""


def is_disk_full(error: BaseException) -> bool:
    """Whether an error means that a disk, a quota or a limit of file sizes leaves no space to write."""
    if isinstance(error, sqlite3.OperationalError):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS


def disk_full_fault(folder: Path) -> Fault:
    """Create the error of a run whose folder can no longer be written.

    Its message has the command that resumes the run.
    """
    reason = f"no space left on the disk of {folder}, or it cannot be written"
    return Fault("data", f"{reason}: free space, then resume the run with: certigraph resume {folder}")


@contextmanager
def translate_database_errors(path: Path) -> Iterator[None]:
    """Context manager that raises Fault in place of errors about the SQLite file at `path`.

    Raises:
        Fault: ("data") the file is not a database or is corrupted, or the disk is full.
    """
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:  # a full disk or a lock: the file is not corrupted
        if is_disk_full(error):
            raise disk_full_fault(path.parent) from error
        raise
    except sqlite3.DatabaseError as error:
        raise Fault("data", f"{path} cannot be opened ({error}): restore it, or start the run again") from error


@contextmanager
def translate_trajectory_errors(run: str) -> Iterator[None]:
    """Context manager that raises Fault in place of errors in the contents of a run's trajectory.

    Each line of the trajectory was parsed as JSON before, but its contents may be anything.

    Raises:
        Fault: ("data") the contents are not those of a run of this graph.
    """
    try:
        yield
    except UnknownName:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        reason = " ".join(f"{type(error).__name__}: {error!s:.200}".split())
        fix = "restore its trajectory.jsonl or leave the run out"
        raise Fault("data", f"run {run} has contents that no run of its graph writes ({reason}): {fix}") from error


# What a command that makes many runs wrote about all of them.

MAX_LEVELS = 5
"""Number of folders around a run's that are searched for a manifest."""


class RunsManifest(Record):
    """What was written about all runs below a folder, for whoever shows or deletes one of them."""

    page: str
    """Name of the page that shows the runs."""
    files: tuple[str, ...]
    """Names of the files that count the runs, the page among them."""
    command: str
    """Command that writes the files again."""


def write_manifest(folder: Path, manifest: RunsManifest) -> None:
    """Write what a command writes about all runs below a folder, which is replaced if it differs."""
    if (text := manifest.model_dump_json(indent=1)) != _read_text(folder / MANIFEST_FILE):
        replace_text(folder / MANIFEST_FILE, text)


def find_manifest(run: Path) -> tuple[Path, RunsManifest] | None:
    """Return the nearest folder around a run's that has a manifest, and this; None without one that can be read."""
    for folder in list(run.parents)[:MAX_LEVELS]:
        if text := _read_text(folder / MANIFEST_FILE):
            with suppress(ValidationError):
                return folder, RunsManifest.model_validate_json(text)
    return None


def _read_text(path: Path) -> str:
    return read_bytes(path, MAX_SETTINGS_BYTES).decode(errors="replace") if path.is_file() else ""


# Search for runs below a folder, and the first and last line of a trajectory.


def find_trajectories(folder: Path) -> Sequence[Path]:
    """Find the trajectory files at any depth below a folder, sorted by path.

    Raises Fault if the folder does not exist.
    """
    if folder.is_file():
        hint = f"`certigraph eval` saves runs next to its log, in {folder.parent}"
        raise Fault("data", f"{folder} is a file: give a folder with runs; {hint}")
    if not folder.is_dir():
        raise Fault(
            "data", f"{folder}: no such folder: give one that `certigraph run`, `eval`, `compare` or `ablate` wrote"
        )
    return sorted(folder.rglob(TRAJECTORY_FILE))


def has_header(path: Path) -> bool:
    """Whether the first line of a trajectory was written completely. Without it the run cannot be resumed."""
    return read_header_line(path).endswith(b"\n")


def read_run_id(path: Path) -> str | None:
    """Read the run id from the header of a trajectory of any schema version; None if there is no file or no header."""
    if not path.is_file():
        return None
    try:
        header = parse_json(read_header_line(path))
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("type") != "header" or "graph" not in header:
        return None
    run_id = header.get("run_id")
    return run_id if isinstance(run_id, str) else None


TAIL_BYTES = 1 << 16
"""Number of bytes that are read first from the end of a trajectory. A footer with a long answer needs more."""


def read_last_footer(path: Path) -> Footer | None:
    """Read the footer from the end of a trajectory without reading the lines before it.

    Return None if the last line is not a footer, that is, if the run is not finished.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        line = _read_last_line(file.fileno(), size, TAIL_BYTES)
    try:
        last = parse_line(line)
    except (ValueError, Fault):
        return None
    return last if isinstance(last, Footer) else None


def _read_last_line(file: int, size: int, tail: int) -> bytes:
    # Empty if the last line was not written completely, or is longer than lines may be.
    text = os.pread(file, tail, max(size - tail, 0))
    if not text.endswith(b"\n"):
        return b""
    start = text.rfind(b"\n", 0, -1) + 1
    if start or tail >= size:
        return text[start:-1]
    return _read_last_line(file, size, 4 * tail) if tail < MAX_TRAJECTORY_LINE else b""
