"""CSV files whose cells are values: a spreadsheet takes texts that begin like formulas for formulas, and runs them."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that a spreadsheet runs."""


def inert(value: Any) -> Any:
    """A value as it goes into a cell: a text that would be a formula has an apostrophe before it; numbers stay."""
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def write_rows(path: Path, names: Sequence[str], lines: Iterable[Mapping[str, Any]], *, ends: str = "\r\n") -> None:
    """A header and a line each, with the cells inert; what a line lacks is left empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator=ends)
        writer.writeheader()
        writer.writerows({name: inert(value) for name, value in line.items()} for line in lines)
