"""Rows of question files: JSON lines or one JSON list, gzipped or not; errors name the file and the line or row."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from certigraph.state.endings import Fault

M = TypeVar("M", bound=BaseModel)

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".json.gz")


class Row(NamedTuple):
    """One question as its file has it."""

    where: str
    """`file:line`, or `file: row n` of a list."""
    value: Any


def question_file(folder: Path, stems: Sequence[str]) -> Path:
    """The first file there is of these names, each with any of SUFFIXES. Raises Fault where there is none."""
    for stem in stems:
        for suffix in SUFFIXES:
            if (path := folder / f"{stem}{suffix}").is_file():
                return path
    names = ", ".join(f"{stem}{SUFFIXES[0]}" for stem in stems)
    fix = f"name the folder that holds {folder.name}/ with --data DIR or CERTIGRAPH_DATA"
    message = f"{folder}: none of {names} is there (also as {', '.join(SUFFIXES[1:])}): {fix}"
    raise Fault("data", message) from FileNotFoundError(names)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file in order, blank lines skipped.

    Raises:
        Fault: the file cannot be read, or a line is not JSON.
    """
    text = _text(path)
    if text.lstrip().startswith("["):
        yield from (Row(f"{path}: row {number}", value) for number, value in enumerate(_json(text, str(path)), 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield Row(f"{path}:{number}", _json(line, f"{path}:{number}"))


def read_json(path: Path) -> Any:
    """The one JSON value of a file. Raises Fault as `read_rows` does."""
    return _json(_text(path), str(path))


def checked(model: type[M], row: Row) -> M:
    """The row as a model. Raises Fault that names the first field which does not fit."""
    try:
        return model.model_validate(row.value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "row"
        got = repr(first["input"])[:80]
        raise Fault("data", f"{row.where}: {field}: {first['msg']}, got {got}: correct this field") from error


def unique(rows: Sequence[tuple[Row, str]]) -> None:
    """Hold that no id is given twice. Raises Fault that names both places."""
    places: dict[str, str] = {}
    for row, id_ in rows:
        if id_ in places:
            raise Fault("data", f"{row.where}: the id {id_!r} is taken by {places[id_]}: give each question its own")
        places[id_] = row.where


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise Fault("data", f"{path} cannot be read ({error}): put the file there whole") from error


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        fault = f"{where}: not JSON ({error.msg}, column {error.colno}): write one JSON object a line, or one list"
        raise Fault("data", fault) from error
