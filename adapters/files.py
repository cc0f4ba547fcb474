"""Files: JSON rows, error hints, caches and atomic writes."""

import codecs
import gzip
import json
import os
import re
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, TypeVarTuple, cast

from pydantic import BaseModel, ValidationError

from certigraph.state.records import MAX_LINE, Fault, UnknownName, json_value, next_json_value, read_bounded_lines

# The folder of what can be built again, and files that appear in it complete or not at all.


def expanded(given: str | Path) -> Path:
    """A path as it was given, `~` and `~user` replaced by their homes. Raises Fault where there is no such user."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise Fault("data", f"{given}: nobody of that name has a home here: write the path out") from None


def cache_folder() -> Path:
    """certigraph in the user's cache folder (XDG_CACHE_HOME, else ~/.cache); it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "certigraph"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write in place of `path`, which it becomes when the block ends without an error.

    Threads and processes may write the same path at once: each has a file of its own, and the last one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".unfinished")
    os.close(handle)
    try:
        yield Path(name)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


# Error messages that benchmarks share: data that is not where it was looked for, and ids that no task has.

EXAMPLES = 3
"""Valid ids that a message lists."""


def missing_data(benchmark: str, folder: Path, expected: str) -> Fault:
    """The fault of a data folder without a benchmark's files.

    Args:
        benchmark: its name.
        folder: the folder that was searched.
        expected: the files that it should hold.
    """
    given = folder.parent if folder.name == benchmark else folder
    call = f"--data DIR (or CERTIGRAPH_DATA=DIR) where DIR/{benchmark}/ holds them, or --data with that folder itself"
    return Fault("data", f"no {benchmark} data in {given}: searched {folder} for {expected}; give {call}")


def unknown_task(benchmark: str, task_id: str, pattern: str, known: Iterable[str], more: str = "") -> UnknownName:
    """The error of an id that no task has.

    Args:
        benchmark: its name.
        task_id: the unknown id.
        pattern: what ids look like.
        known: valid ids, of which the first are listed.
        more: what else helps.
    """
    examples = ", ".join(islice(known, EXAMPLES)) or "none"
    hint = f"; {more}" if more else ""
    return UnknownName(f"{benchmark} has no task {task_id!r}; ids are {pattern}, for example {examples}{hint}")


# Rows of JSON files: one a line or one list, gzipped or not; errors name the file and the line or row.

M = TypeVar("M", bound=BaseModel)

MOST_BYTES = 1 << 30
"""Of a file of rows, unpacked: twice the largest of all benchmarks. A few packed bytes may stand for any number."""

MOST_WHOLE = 1 << 26
"""Of a file that is one value, unpacked; it is in memory as a whole, so that this is also what a damaged one costs."""

MOST_SETTINGS = 1 << 24
"""Of a file that says what was asked for; those that we write have a few thousand."""

PIECE = 1 << 20

LAYOUT = "write one JSON object a line, or one list"


class Row(NamedTuple):
    """One row as its file has it."""

    where: str
    """`file:line`, or `file: row n` of a list."""
    value: Any


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a UTF-8 file in order, blank lines skipped, one in memory at a time.

    Raises:
        Fault: the file cannot be read, a row is not JSON or has more than 16 MiB, or all have more than 1 GiB.
    """
    with _opened(path) as file:
        listed = file.read(PIECE).lstrip().startswith(b"[")
    total = 0
    with _opened(path) as file:
        if listed:
            yield from read_list(file, str(path), most=MOST_BYTES)
            return
        for number, line in enumerate(read_bounded_lines(file, str(path)), 1):
            if (total := total + len(line)) > MOST_BYTES:
                raise _too_large(str(path), MOST_BYTES)
            if line.strip():
                yield Row(f"{path}:{number}", parsed(line, f"{path}:{number}"))


def read_list(file: IO[bytes], name: str, layout: str = LAYOUT, most: int = sys.maxsize) -> Iterator[Row]:
    """The elements of a JSON list, one in memory at a time; of a file that holds another value, that value.

    Raises:
        Fault: it is not JSON, an element has more than 16 MiB, or the file more than `most` bytes; names file and row.
    """
    first = file.read(PIECE)
    if not first.lstrip().startswith(b"[") or json.detect_encoding(first) != "utf-8":
        whole = first + whole_bytes(file, name)
        value = parsed(whole, f"{name}:1", layout) if whole.strip() else []
        values = enumerate(value, 1) if isinstance(value, list) else ()
        yield from (Row(f"{name}: row {number}", one) for number, one in values)
        if not isinstance(value, list):
            yield Row(f"{name}:1", value)
        return
    number = 0
    try:
        text = _ListText(file, first, most)
        while text.has_more():
            number += 1
            yield Row(f"{name}: row {number}", text.parse_next())
    except _TooLarge as large:
        raise _too_large(name, most) from large
    except ValueError as error:
        raise Fault("data", f"{name}: row {number}: not JSON ({error}): {layout}") from error


class _TooLarge(Exception):
    pass


class _ListText:
    """The text of a JSON list, of which only what is not yet parsed is kept."""

    def __init__(self, file: IO[bytes], first: bytes, most: int) -> None:
        self._file, self._left = file, most - len(first)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text, self._at, self._ended = self._decode(first), 0, False
        self._begun = False

    def has_more(self) -> bool:
        """Go over the bracket or the comma before the next element, or over the list's end."""
        opening = self._take()
        if opening == "[" and not self._begun:
            self._begun = True
            if self._next() != "]":
                return True
            opening = self._take()
        elif opening == ",":
            return True
        if opening != "]":
            raise ValueError(f"expected a comma or the end of the list, got {opening!r}")
        if self._next():
            raise ValueError(f"more follows the end of the list: {self._text[self._at : self._at + 20]!r}")
        return False

    def parse_next(self) -> Any:
        """The element that is next. Raises ValueError where there is none, or where it has more than 16 MiB."""
        self._next()
        while True:
            try:
                value, end = next_json_value(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = "Unterminated" in error.msg or len(self._text) - error.pos < _LITERAL
                if self._ended or not cut:
                    raise
            else:
                if self._ended or len(self._text) - end >= _LITERAL:  # else a number may go on in the next piece
                    refuse_surrogates(value, self._text[self._at : end])
                    self._at = end
                    return value
            if sys.getsizeof(self._text) > MAX_LINE + PIECE:
                raise ValueError(f"it has more than {MAX_LINE:,} bytes")
            self._read()

    def _take(self) -> str:
        character = self._next()
        self._at += 1
        return character

    def _next(self) -> str:
        """The next character that is no white space; none at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read()

    def _read(self) -> None:
        piece = self._file.read(PIECE)
        self._left -= len(piece)
        if self._left < 0:
            raise _TooLarge
        self._ended = not piece
        self._text, self._at = self._text[self._at :] + self._decode(piece, not piece), 0


_SPACE = re.compile(r"[ \t\n\r]*")

_LITERAL = 16
"""Characters that are enough to see that a number or a word such as `-Infinity` has ended."""


def read_json(path: Path) -> Any:
    """The one JSON value of a file. Raises Fault as `read_rows` does."""
    return parsed(file_text(path), str(path))


def parsed(text: str | bytes, where: str, layout: str = LAYOUT) -> Any:
    """The JSON value of a text. Raises Fault that says where, and what layout was expected.

    Half a surrogate pair, which no file of ours takes, is none.
    """
    try:
        value = json_value(text)
        refuse_surrogates(value, text)
        return value
    except ValueError as error:
        raise Fault("data", f"{where}: not JSON ({error}): {layout}") from error


def refuse_surrogates(value: Any, text: str | bytes) -> None:
    """Raise ValueError where half a surrogate pair is in a value that was parsed from a text."""
    if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
        json.dumps(value, ensure_ascii=False).encode()


def checked(model: type[M], row: Row) -> M:
    """The row as a model. Raises Fault that names the first field which does not fit."""
    try:
        return model.model_validate(row.value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "row"
        got = repr(first["input"])[:80]
        raise Fault("data", f"{row.where}: {field}: {first['msg']}, got {got}: correct this field") from error


def file_text(path: Path, most: int = MOST_WHOLE) -> str:
    """The text of a UTF-8 file. Raises Fault as `file_bytes` does, and where it is not UTF-8."""
    try:
        return file_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(path, error) from error


def file_bytes(path: Path, most: int = MOST_WHOLE) -> bytes:
    """What is in a file, unpacked where its name ends in `.gz`.

    Raises:
        Fault: it is missing, cannot be read, or has more than `most` bytes.
    """
    with _opened(path) as file:
        return whole_bytes(file, str(path), most)


def whole_bytes(file: IO[bytes], name: str, most: int = MOST_WHOLE) -> bytes:
    """What is left of an open file. Raises Fault where that is more than `most` bytes."""
    content = bytearray()
    while len(content) <= most and (piece := file.read(PIECE)):
        content += piece
    if len(content) > most:
        raise _too_large(name, most)
    return bytes(content)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise Fault("data", f"{path}: no such file: correct the path") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def _too_large(name: str, most: int) -> Fault:
    return Fault("data", f"{name} has more than {most:,} bytes, unpacked: is it another file, or a damaged one?")


def _unreadable(path: Path, error: Exception) -> Fault:
    return Fault("data", f"{path} cannot be read ({error}): put the file there whole")


# A cache in one SQLite file that several processes may use at once. It holds texts, nothing that runs when read.

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to wait for another process that writes."""


class CacheFile(NamedTuple):
    """A file with one layout."""

    path: Path
    tables: str
    """The statement that lays an empty file out."""
    version: int
    """Of the layout, kept as SQLite's user_version."""
    what: str
    """What it is for, and how another is named, as errors say it: `a cache of replies`."""
    fix: str

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work on the open file, which is made where there is none.

        Raises:
            Fault: ("data") the file is another program's or version's, or cannot be read or written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)) as opened:
                self._laid_out(opened)
                return work(opened)
        except (sqlite3.Error, OSError, ValueError, KeyError, TypeError) as error:
            raise self.unfit(error) from error

    def unfit(self, why: object) -> Fault:
        """The fault of a file that cannot be used."""
        return Fault("data", f"{self.path} cannot serve as {self.what} ({why}): {self.fix}")

    def _laid_out(self, opened: sqlite3.Connection) -> None:
        if _version(opened) == self.version:
            return
        with opened:
            opened.execute("BEGIN IMMEDIATE")  # of several processes that come first, one lays it out
            if _version(opened) == self.version:
                return
            if _version(opened) or opened.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise ValueError("another program's or another version's file")
            opened.execute(self.tables)
            opened.execute(f"PRAGMA user_version = {self.version}")


def _version(opened: sqlite3.Connection) -> int:
    [version] = opened.execute("PRAGMA user_version").fetchone()
    return int(version)


# Remembers what was computed of records that have no hash.

Given = TypeVarTuple("Given")

MOST = 4_096
"""Answers that are kept; past them it begins anew."""


def remembered(compute: Callable[[*Given], T]) -> Callable[[*Given], T]:
    """The function, computing once for the same objects: resampling asks for the same runs a thousand times."""
    answers: dict[tuple[int, ...], tuple[tuple[*Given], T]] = {}

    def answer(*given: *Given) -> T:
        key = tuple(map(id, given))
        if key not in answers:
            if len(answers) >= MOST:
                answers.clear()
            answers[key] = (given, compute(*given))  # beside the objects, so that no others take their identities
        return answers[key][1]

    return answer
