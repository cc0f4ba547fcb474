"""Where question files are, and what holds of their rows."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.hints import missing_data
from certigraph.adapters.rows import Row
from certigraph.state.endings import Fault

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".json.gz")


def question_file(benchmark: str, folder: Path, stems: Sequence[str]) -> Path:
    """The first file there is of these names, each with any of SUFFIXES. Raises Fault where there is none."""
    for stem in stems:
        for suffix in SUFFIXES:
            if (path := folder / f"{stem}{suffix}").is_file():
                return path
    names = ", ".join(f"{stem}{SUFFIXES[0]}" for stem in stems)
    expected = f"one of {names} (also as {', '.join(SUFFIXES[1:])})"
    raise missing_data(benchmark, folder, expected) from FileNotFoundError(names)


def unique(rows: Sequence[tuple[Row, str]]) -> None:
    """Hold that no id is given twice. Raises Fault that names both places."""
    places: dict[str, str] = {}
    for row, id_ in rows:
        if id_ in places:
            raise Fault("data", f"{row.where}: the id {id_!r} is taken by {places[id_]}: give each question its own")
        places[id_] = row.where
