"""Rows of JSON files: one a line or one list, gzipped or not; errors name the file and the line or row."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from certigraph.state.endings import Fault

M = TypeVar("M", bound=BaseModel)

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
    text = _text(path)
    if text.lstrip().startswith("["):
        yield from (Row(f"{path}: row {number}", value) for number, value in enumerate(parsed(text, str(path)), 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield Row(f"{path}:{number}", parsed(line, f"{path}:{number}"))


def read_json(path: Path) -> Any:
    """The one JSON value of a file. Raises Fault as `read_rows` does."""
    return parsed(_text(path), str(path))


def parsed(text: str | bytes, where: str, layout: str = LAYOUT) -> Any:
    """The JSON value of a text. Raises Fault that says where, and what layout was expected."""
    try:
        return json.loads(text)
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


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except FileNotFoundError as error:
        raise Fault("data", f"{path}: no such file: correct the path") from error
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise Fault("data", f"{path} cannot be read ({error}): put the file there whole") from error
