"""Trajectory files: reading and writing the lines of a run.

A line in the file is the JSON of a record of `state.trajectory` with an additional key `number`, so that missing lines
are noticed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from certigraph.adapters.json_lines import parse_json, read_bounded_lines, read_first_line
from certigraph.state.endings import Fault
from certigraph.state.trajectory import (
    READABLE_SCHEMAS,
    SCHEMA_VERSION,
    Trajectory,
    TrajectoryLine,
    assemble_trajectory,
)

MAX_TRAJECTORY_LINE = 1 << 26
"""Maximum bytes per line of a trajectory.

A line holds the prompts and replies of one execution of a graph node. Limits on prompts keep them far smaller.
"""

_RESTORE_ADVICE = "restore the file, or delete the run (`certigraph delete`) and start it again"

_LINE_ADAPTER: TypeAdapter[TrajectoryLine] = TypeAdapter(Annotated[TrajectoryLine, Field(discriminator="type")])


TRAJECTORY_FILE = "trajectory.jsonl"
"""Name of the trajectory's file in the folder of a run."""


def read_trajectory(path: Path | str) -> Trajectory:
    """Read a trajectory from its file, or from the folder of its run.

    Raises:
        Fault: ("data") the file or one of its lines is missing, a line other than the last is not a trajectory line, or
            a line has more than 64 MB.
    """
    given = Path(path)
    path = given / TRAJECTORY_FILE if given.is_dir() else given
    if not path.is_file():
        raise Fault("data", _describe_missing(given))
    try:
        return assemble_trajectory(read_lines(path))
    except Fault as fault:
        message = str(fault)
        raise Fault(fault.boundary, message if str(path) in message else f"{path}: {message}") from fault


def _describe_missing(given: Path) -> str:
    where = str(given) if given.exists() else f"{given}, which does not exist"
    inside = max(given.rglob(TRAJECTORY_FILE), key=lambda file: file.stat().st_mtime, default=None)
    hint = f"; the latest of the runs in it is {inside.parent}" if inside else ""
    return f"no trajectory at {where}: give the folder of a run, as `certigraph run` printed it{hint}"


def read_header_line(path: Path) -> bytes:
    """Read the header, the first line of a trajectory, with its newline; b"" if it is longer than a line may be."""
    return read_first_line(path, MAX_TRAJECTORY_LINE)


def read_lines(path: Path) -> Iterator[TrajectoryLine]:
    """Read the lines of a trajectory file in order, without an incomplete last one.

    Raises:
        Fault: as `read_trajectory`.
    """
    expected = 1
    with path.open("rb") as file:
        for row, text in enumerate(read_bounded_lines(file, str(path), MAX_TRAJECTORY_LINE, _RESTORE_ADVICE), 1):
            if not text.strip(b"\n"):
                continue
            try:
                number, line = _parse_numbered(text)
            except Fault as error:
                raise Fault(error.boundary, f"{path}: {error}") from None
            except ValueError as error:  # no JSON, no UTF-8 (a character cut in two) or no trajectory line
                if not text.endswith(b"\n"):
                    return
                shown = text[:80].decode(errors="replace")
                message = f"{path}:{row}: not a trajectory line ({type(error).__name__}): {shown!r}; {_RESTORE_ADVICE}"
                raise Fault("data", message) from error
            if number is not None and number != expected:
                raise Fault("data", f"{path}:{row}: {_format_gap(number, expected)}; {_RESTORE_ADVICE}")
            expected += 1
            yield line


def add_line_number(text: str, number: int) -> str:
    """Return the JSON text of a line with the number of the line (from 1) added."""
    return f'{text[:-1]},"number":{number}}}'


def parse_line(text: str | bytes) -> TrajectoryLine:
    """Parse one line of a trajectory.

    Raises:
        ValueError: it is not a trajectory line.
        Fault: ("data") it is the header of a trajectory whose schema version cannot be read.
    """
    return _parse_numbered(text)[1]


def _parse_numbered(text: str | bytes) -> tuple[int | None, TrajectoryLine]:
    """Parse a line and its number. Lines of schema versions before 4 have no number."""
    plain = parse_json(text)
    number = plain.pop("number", None) if isinstance(plain, dict) else None
    if number is not None and type(number) is not int:
        raise ValueError(f"{number!r:.40} is not a line number")
    if isinstance(plain, dict) and plain.get("type") == "header":
        _check_schema(plain)
    return number, _LINE_ADAPTER.validate_python(plain)


def _format_gap(number: int, expected: int) -> str:
    if number < expected:
        return f"line {number} follows line {expected - 1}"
    return f"line {expected} is missing" if number == expected + 1 else f"lines {expected} to {number - 1} are missing"


def _check_schema(header: dict[str, Any]) -> None:
    schema, versions = header.get("schema_version", SCHEMA_VERSION), header.get("versions")
    if schema not in READABLE_SCHEMAS:
        writer = versions.get("certigraph", "") if isinstance(versions, dict) else ""
        readable = " and ".join(map(str, READABLE_SCHEMAS))
        problem = f"trajectory schema {schema!r}, written by certigraph {writer or 'of an unknown version'}"
        advice = "read it with the certigraph that wrote it, or start a new run"
        raise Fault("data", f"{problem}; this version reads {readable}: {advice}")
