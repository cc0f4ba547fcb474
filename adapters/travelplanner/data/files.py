"""Reading TravelPlanner's text files, plain or gzipped, with errors that name file and line."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from pydantic import ValidationError

from certigraph.state.endings import Fault
from certigraph.state.records import Record

R = TypeVar("R", bound=Record)


class Line(NamedTuple):
    """One row of a file."""

    where: str
    """`file:line`, for error messages."""
    value: object


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


def json_lines(path: Path) -> Iterator[Line]:
    """The JSON values of a JSONL file, blank lines skipped.

    Raises:
        Fault: a line is not JSON, or the file is missing.
    """
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield Line(f"{path}:{number}", _json(line, f"{path}:{number}"))


def parse(record: type[R], line: Line) -> R:
    """The record that a line holds.

    Raises:
        Fault: the line does not fit the record; the message names the first field that does not.
    """
    try:
        return record.model_validate(line.value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "row"
        got = repr(first["input"])[:80]
        raise Fault("data", f"{line.where}: {field}: {first['msg']}, got {got}: correct this field") from error


def _json(line: str, where: str) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise Fault("data", f"{where}: not JSON ({error.msg}): write one JSON object a line") from error
