"""Rows of JSON files: one a line or one list, gzipped or not; errors name the file and the line or row."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from certigraph.state.endings import Fault
from certigraph.state.json_text import json_value

M = TypeVar("M", bound=BaseModel)

MOST_BYTES = 1 << 30
"""Of a file, unpacked: twice the largest of all benchmarks. A few packed bytes may stand for any number."""

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
    """The rows of a UTF-8 file in order, blank lines skipped.

    Raises:
        Fault: the file cannot be read, or a line is not JSON.
    """
    text = file_text(path)
    if text.lstrip().startswith("["):
        yield from (Row(f"{path}: row {number}", value) for number, value in enumerate(parsed(text, str(path)), 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield Row(f"{path}:{number}", parsed(line, f"{path}:{number}"))


def read_json(path: Path) -> Any:
    """The one JSON value of a file. Raises Fault as `read_rows` does."""
    return parsed(file_text(path), str(path))


def parsed(text: str | bytes, where: str, layout: str = LAYOUT) -> Any:
    """The JSON value of a text. Raises Fault that says where, and what layout was expected.

    Half a surrogate pair, which no file of ours takes, is none.
    """
    try:
        value = json_value(text)
        if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except ValueError as error:
        raise Fault("data", f"{where}: not JSON ({error}): {layout}") from error


def checked(model: type[M], row: Row) -> M:
    """The row as a model. Raises Fault that names the first field which does not fit."""
    try:
        return model.model_validate(row.value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "row"
        got = repr(first["input"])[:80]
        raise Fault("data", f"{row.where}: {field}: {first['msg']}, got {got}: correct this field") from error


def file_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a UTF-8 file. Raises Fault as `file_bytes` does, and where it is not UTF-8."""
    try:
        return file_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(path, error) from error


def file_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """What is in a file, unpacked where its name ends in `.gz`.

    Raises:
        Fault: it is missing, cannot be read, or has more than `most` bytes.
    """
    content = bytearray()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while len(content) <= most and (piece := file.read(PIECE)):
                content += piece
    except FileNotFoundError as error:
        raise Fault("data", f"{path}: no such file: correct the path") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if len(content) > most:
        raise Fault("data", f"{path} has more than {most:,} bytes, unpacked: is it another file, or a damaged one?")
    return bytes(content)


def _unreadable(path: Path, error: Exception) -> Fault:
    return Fault("data", f"{path} cannot be read ({error}): put the file there whole")
