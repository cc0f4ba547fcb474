"""The lines of trajectory files: a torn last line is tolerated, anything else that is wrong is named.

A line in the file is the JSON of a record with one key more, its `number`, so that lines that are gone are noticed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from certigraph.state.endings import Fault
from certigraph.state.json_text import json_value
from certigraph.state.lines import read_bounded_lines, read_first_line
from certigraph.state.trajectory import READABLE, SCHEMA, Line, Trajectory, assembled

LONGEST_LINE = 1 << 26
"""Bytes. A line holds what one node said and was told, which prompts bound far below that."""

_RESTORE = "restore the file, or delete the run (`certigraph delete`) and start it again"

_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])


def read_trajectory(path: Path | str) -> Trajectory:
    """Read a trajectory from its file, or from the folder of its run.

    Raises:
        Fault: the file or one of its lines is missing, a line other than the last is not a trajectory line, or one has
            more than 64 MB.
    """
    path = Path(path)
    path = path / "trajectory.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise Fault("data", f"no trajectory at {path}: give the folder of a run, as `certigraph run` printed it")
    try:
        return assembled(read_lines(path))
    except Fault as fault:
        told = str(fault)
        raise Fault(fault.boundary, told if str(path) in told else f"{path}: {told}") from fault


def first_line(path: Path) -> bytes:
    """The first line of a file, its header's, with its newline; nothing where it is longer than any is."""
    return read_first_line(path, LONGEST_LINE)


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file in order, without a torn last one. Raises Fault as `read_trajectory` does."""
    expected = 1
    with path.open("rb") as file:
        for row, text in enumerate(read_bounded_lines(file, str(path), LONGEST_LINE, _RESTORE), 1):
            if not text.strip(b"\n"):
                continue
            try:
                number, line = _parse_numbered(text)
            except Fault as error:
                raise Fault(error.boundary, f"{path}: {error}") from None
            except ValueError as error:  # no JSON, no UTF-8 (a character cut in two) or no line of ours
                if not text.endswith(b"\n"):
                    return
                shown = text[:80].decode(errors="replace")
                message = f"{path}:{row}: not a trajectory line ({type(error).__name__}): {shown!r}; {_RESTORE}"
                raise Fault("data", message) from error
            if number is not None and number != expected:
                raise Fault("data", f"{path}:{row}: {_misplaced(number, expected)}; {_RESTORE}")
            expected += 1
            yield line


def with_number(text: str, number: int) -> str:
    """The JSON of a line with its number, from 1."""
    return f'{text[:-1]},"number":{number}}}'


def parse_line(text: str | bytes) -> Line:
    """One line. Raises ValueError when it is none, and Fault when it is the header of another schema's trajectory."""
    return _parse_numbered(text)[1]


def _parse_numbered(text: str | bytes) -> tuple[int | None, Line]:
    """The number of a line, which those of schemas before 4 lack, and the line."""
    plain = json_value(text)
    number = plain.pop("number", None) if isinstance(plain, dict) else None
    if number is not None and type(number) is not int:
        raise ValueError(f"{number!r:.40} is no number of a line")
    if isinstance(plain, dict) and plain.get("type") == "header":
        _check_schema(plain)
    return number, _LINE.validate_python(plain)


def _misplaced(number: int, expected: int) -> str:
    if number < expected:
        return f"line {number} follows line {expected - 1}"
    return f"line {expected} is missing" if number == expected + 1 else f"lines {expected} to {number - 1} are missing"


def _check_schema(header: dict[str, Any]) -> None:
    found, versions = header.get("schema_version", SCHEMA), header.get("versions")
    if found not in READABLE:
        wrote = versions.get("certigraph", "") if isinstance(versions, dict) else ""
        readable = " and ".join(map(str, READABLE))
        told = f"trajectory schema {found!r}, written by certigraph {wrote or 'of an unknown version'}; this one reads"
        raise Fault("data", f"{told} {readable}: read it with the certigraph that wrote it, or start the run anew")
