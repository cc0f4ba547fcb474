"""Files: rows of JSON, atomic writes, SQLite caches, and errors about missing or malformed data.

Everything that reads a file here bounds its size and raises `Fault("data")` with the path and the line or row.
"""

import codecs
import gzip
import json
import os
import re
import sqlite3
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, NamedTuple, TypeVar, TypeVarTuple, cast

from pydantic import BaseModel, ValidationError

from certigraph.adapters.json_lines import MAX_LINE, parse_json, parse_json_at, read_bounded_lines
from certigraph.adapters.user_warnings import warn_user
from certigraph.state.endings import Fault, UnknownName

# Paths, the cache folder and atomic writes.


def expand_path(path: str | Path) -> Path:
    """Expand `~` and `~user` in a path. Raises Fault if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise Fault("data", f"{path}: no such user on this machine: write the full path") from None


def cache_folder() -> Path:
    """Return certigraph's folder in the user's cache folder (by the XDG standard); it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "certigraph"


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    Threads and processes may write the same path at once: each has its own temporary file, and the last one wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}{token_hex(4)}.unfinished")
    # readable by others as the umask says, which a file of `tempfile` is not
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a text as a file in UTF-8, which is replaced only when it is complete."""
    with replace_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


# Errors that benchmarks share: missing data files and unknown task ids.

MAX_EXAMPLES = 3
"""Maximum number of valid ids that a message lists."""


def missing_data_fault(benchmark: str, folder: Path, expected: str) -> Fault:
    """Create the Fault for a data folder that lacks a benchmark's files.

    Args:
        benchmark: name of the benchmark.
        folder: the folder that was searched.
        expected: the files that it should hold.
    """
    root = folder.parent if folder.name == benchmark else folder
    call = f"--data DIR (or CERTIGRAPH_DATA=DIR) where DIR/{benchmark}/ holds them, or --data with that folder itself"
    return Fault("data", f"no {benchmark} data in {root}: searched {folder} for {expected}; give {call}")


def unknown_task_error(benchmark: str, task_id: str, pattern: str, known: Iterable[str], more: str = "") -> UnknownName:
    """Create the error for an unknown task id.

    Args:
        benchmark: name of the benchmark.
        task_id: the unknown id.
        pattern: format of valid ids.
        known: valid ids; the first ones are listed.
        more: a further hint.
    """
    examples = ", ".join(islice(known, MAX_EXAMPLES)) or "none"
    hint = f"; {more}" if more else ""
    return UnknownName(f"{benchmark} has no task {task_id!r}; ids are {pattern}, for example {examples}{hint}")


# Rows of JSON files: one object per line or one list, gzipped or not.

M = TypeVar("M", bound=BaseModel)

MAX_ROWS_BYTES = 1 << 30
"""Maximum unpacked size of a file of rows: twice the largest of all benchmarks. Guards against decompression bombs."""

MAX_VALUE_BYTES = 1 << 26
"""Maximum unpacked size of a file that is read into memory completely, such as a file with one JSON value."""

MAX_SETTINGS_BYTES = 1 << 24
"""Maximum size of a file of settings; those that certigraph writes have a few thousand bytes."""

CHUNK_BYTES = 1 << 20

ROWS_LAYOUT = "write one JSON object a line, or one list"


class JsonRow(NamedTuple):
    """One row of a file."""

    where: str
    """Location for messages: `file:line`, or `file: row n` in a list."""
    value: Any


def read_rows(path: Path) -> Iterator[JsonRow]:
    """Read the rows of a UTF-8 file in order, without blank lines, one in memory at a time.

    Raises:
        Fault: the file cannot be read, a row is not JSON or larger than 16 MiB, or the file is larger than 1 GiB.
    """
    with _open_file(path) as file:
        is_list = file.read(CHUNK_BYTES).lstrip().startswith(b"[")
    total = 0
    with _open_file(path) as file:
        if is_list:
            yield from read_list(file, str(path), most=MAX_ROWS_BYTES)
            return
        for number, line in enumerate(read_bounded_lines(file, str(path)), 1):
            if (total := total + len(line)) > MAX_ROWS_BYTES:
                raise _too_large_fault(str(path), MAX_ROWS_BYTES)
            if line.strip():
                yield JsonRow(f"{path}:{number}", decode_json(line, f"{path}:{number}"))


def read_list(file: IO[bytes], name: str, layout: str = ROWS_LAYOUT, most: int = sys.maxsize) -> Iterator[JsonRow]:
    """Read the elements of a JSON list, one in memory at a time. If the file holds another value, yield that value.

    Args:
        file: an open binary file.
        name: name of the file, for messages.
        layout: the expected layout, for messages.
        most: maximum number of bytes.

    Raises:
        Fault: the file is not JSON or larger than `most` bytes, or an element is larger than 16 MiB.
    """
    first = file.read(CHUNK_BYTES)
    if not first.lstrip().startswith(b"[") or json.detect_encoding(first) != "utf-8":
        content = first + read_remaining_bytes(file, name)
        value = decode_json(content, f"{name}:1", layout) if content.strip() else []
        values = enumerate(value, 1) if isinstance(value, list) else ()
        yield from (JsonRow(f"{name}: row {number}", element) for number, element in values)
        if not isinstance(value, list):
            yield JsonRow(f"{name}:1", value)
        return
    number = 0
    try:
        reader = _JsonListReader(file, first, most)
        while reader.has_more():
            number += 1
            yield JsonRow(f"{name}: row {number}", reader.parse_next())
    except _TooLargeError as error:
        raise _too_large_fault(name, most) from error
    except ValueError as error:
        raise Fault("data", f"{name}: row {number}: not JSON ({error}): {layout}") from error


class _TooLargeError(Exception):
    pass


class _JsonListReader:
    """Incremental reader of a JSON list that keeps only the text that is not parsed yet."""

    def __init__(self, file: IO[bytes], first: bytes, most: int) -> None:
        self._file, self._remaining = file, most - len(first)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text, self._position, self._ended = self._decode(first), 0, False
        self._started = False

    def has_more(self) -> bool:
        """Skip the bracket or the comma before the next element; at the end of the list, check that nothing follows."""
        opening = self._take()
        if opening == "[" and not self._started:
            self._started = True
            if self._next() != "]":
                return True
            opening = self._take()
        elif opening == ",":
            return True
        if opening != "]":
            raise ValueError(f"expected a comma or the end of the list, got {opening!r}")
        if self._next():
            raise ValueError(f"more follows the end of the list: {self._text[self._position : self._position + 20]!r}")
        return False

    def parse_next(self) -> Any:
        """Parse the next element. Raises ValueError if it is malformed or larger than 16 MiB."""
        self._next()
        while True:
            try:
                value, end = parse_json_at(self._text, self._position)
            except json.JSONDecodeError as error:
                incomplete = "Unterminated" in error.msg or len(self._text) - error.pos < _LITERAL_LENGTH
                if self._ended or not incomplete:
                    raise
            else:
                if (
                    self._ended or len(self._text) - end >= _LITERAL_LENGTH
                ):  # else a number may continue in the next chunk
                    check_surrogates(value, self._text[self._position : end])
                    self._position = end
                    return value
            if sys.getsizeof(self._text) > MAX_LINE + CHUNK_BYTES:
                raise ValueError(f"it has more than {MAX_LINE:,} bytes")
            self._read()

    def _take(self) -> str:
        character = self._next()
        self._position += 1
        return character

    def _next(self) -> str:
        """Return the next character that is not white space; the empty string at the end."""
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text) or self._ended:
                return self._text[self._position : self._position + 1]
            self._read()

    def _read(self) -> None:
        chunk = self._file.read(CHUNK_BYTES)
        self._remaining -= len(chunk)
        if self._remaining < 0:
            raise _TooLargeError
        self._ended = not chunk
        self._text, self._position = self._text[self._position :] + self._decode(chunk, not chunk), 0


_SPACE = re.compile(r"[ \t\n\r]*")

_LITERAL_LENGTH = 16
"""Number of characters after which a number or a literal such as `-Infinity` has certainly ended."""


def read_json(path: Path) -> Any:
    """Read a file that holds one JSON value. Raises Fault as `read_rows` does."""
    return decode_json(read_text(path), str(path))


def decode_json(text: str | bytes, where: str, layout: str = ROWS_LAYOUT) -> Any:
    """Parse JSON text. Raises Fault with the location and the expected layout.

    Unpaired surrogates are refused, because the text could not be written to a file.
    """
    try:
        value = parse_json(text)
        check_surrogates(value, text)
        return value
    except ValueError as error:
        raise Fault("data", f"{where}: not JSON ({error}): {layout}") from error


def check_surrogates(value: Any, text: str | bytes) -> None:
    """Raise ValueError if a value that was parsed from `text` contains an unpaired surrogate."""
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
        json.dumps(value, ensure_ascii=False).encode()


def validate_row(model: type[M], row: JsonRow) -> M:
    """Validate a row as a pydantic model. Raises Fault that names the first invalid field."""
    try:
        return model.model_validate(row.value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "row"
        got = repr(first["input"])[:80]
        raise Fault("data", f"{row.where}: {field}: {first['msg']}, got {got}: correct this field") from error


def read_text(path: Path, most: int = MAX_VALUE_BYTES) -> str:
    """Read a UTF-8 file. Raises Fault as `read_bytes` does, and if the file is not UTF-8."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable_fault(path, error) from error


def read_bytes(path: Path, most: int = MAX_VALUE_BYTES) -> bytes:
    """Read a file, unpacked if its name ends in `.gz`.

    Raises:
        Fault: it is missing, cannot be read, or is larger than `most` bytes.
    """
    with _open_file(path) as file:
        return read_remaining_bytes(file, str(path), most)


def read_remaining_bytes(file: IO[bytes], name: str, most: int = MAX_VALUE_BYTES) -> bytes:
    """Read the rest of an open file. Raises Fault if that is more than `most` bytes."""
    content = bytearray()
    while len(content) <= most and (chunk := file.read(CHUNK_BYTES)):
        content += chunk
    if len(content) > most:
        raise _too_large_fault(name, most)
    return bytes(content)


@contextmanager
def _open_file(path: Path) -> Iterator[IO[bytes]]:
    try:
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as file:
            yield skip_byte_order_mark(file)
    except FileNotFoundError as error:
        raise Fault("data", f"{path}: no such file: correct the path") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable_fault(path, error) from error


def skip_byte_order_mark(file: IO[bytes]) -> IO[bytes]:
    """Skip the mark that programs for Windows write at the beginning of a UTF-8 file. Return the file."""
    if cast(BufferedReader, file).peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    return file


def warn_of_partial_answers(path: Path, answered: Iterable[object], tasks: Collection[object]) -> None:
    """Warn if a file of answers that is scored lacks some, or has answers to other tasks.

    Args:
        path: the file.
        answered: ids of the tasks that it answers.
        tasks: ids of the tasks that are scored.
    """
    known, given = set(tasks), list(dict.fromkeys(answered))
    strange, missing = [one for one in given if one not in known], len(known - set(given))
    if missing:
        warn_user(f"{path.name}: {missing} of {len(known)} tasks have no answer, which counts as a wrong one")
    if strange:
        shown = ", ".join(map(str, strange[:MAX_EXAMPLES]))
        warn_user(f"{path.name}: {len(strange)} of {len(given)} answers are to other tasks and not scored: {shown}")


def _too_large_fault(name: str, most: int) -> Fault:
    return Fault("data", f"{name} has more than {most:,} bytes, unpacked: is it another file, or a damaged one?")


def _unreadable_fault(path: Path, error: Exception) -> Fault:
    return Fault("data", f"{path} cannot be read ({error}): copy the complete file there again")


# A cache in one SQLite file that several processes may use at once. It stores texts, so that reading it runs no code.

T = TypeVar("T")

LOCK_TIMEOUT = 60.0
"""Seconds to wait for another process that writes."""


class CacheFile(NamedTuple):
    """A SQLite file with one layout of tables."""

    path: Path
    tables: str
    """SQL statement that creates the tables of an empty file."""
    version: int
    """Version of the layout, stored as SQLite's user_version."""
    what: str
    """What the file is, for error messages: `a cache of replies`."""
    fix: str

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` with a connection to the file, which is created if it is missing.

        Raises:
            Fault: ("data") the file belongs to another program or version, or cannot be read or written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT, isolation_level=None)) as connection:
                self._create_tables(connection)
                return work(connection)
        except (sqlite3.Error, OSError, ValueError, KeyError, TypeError) as error:
            raise self.create_fault(error) from error

    def create_fault(self, reason: object) -> Fault:
        """Create the Fault for a file that cannot be used."""
        return Fault("data", f"{self.path} cannot serve as {self.what} ({reason}): {self.fix}")

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        if _read_version(connection) == self.version:
            return
        with connection:
            connection.execute(
                "BEGIN IMMEDIATE"
            )  # if several processes open an empty file, one of them creates the tables
            if _read_version(connection) == self.version:
                return
            if _read_version(connection) or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise ValueError("another program's or another version's file")
            connection.execute(self.tables)
            connection.execute(f"PRAGMA user_version = {self.version}")


def _read_version(connection: sqlite3.Connection) -> int:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


# Memoization of functions whose arguments have no hash.

Given = TypeVarTuple("Given")

MAX_MEMOIZED = 4_096
"""Maximum number of stored results; the cache is emptied when it is full."""


def memoize_by_identity(compute: Callable[[*Given], T]) -> Callable[[*Given], T]:
    """Memoize a function by the identity of its arguments, which need no hash.

    For example, bootstrap resampling scores the same runs a thousand times.
    """
    results: dict[tuple[int, ...], tuple[tuple[*Given], T]] = {}

    def compute_once(*arguments: *Given) -> T:
        key = tuple(map(id, arguments))
        if key not in results:
            if len(results) >= MAX_MEMOIZED:
                results.clear()
            results[key] = (
                arguments,
                compute(*arguments),
            )  # the arguments are kept alive, so that no new object gets the same id
        return results[key][1]

    return compute_once
