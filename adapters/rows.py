"""Rows of JSON files: one a line or one list, gzipped or not; errors name the file and the line or row."""

import codecs
import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError

from certigraph.state.endings import Fault
from certigraph.state.json_text import json_value, next_json_value
from certigraph.state.lines import MAX_LINE, read_bounded_lines

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
