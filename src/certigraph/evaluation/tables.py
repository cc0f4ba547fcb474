"""Tables of results: on a terminal, as CSV files, and the intervals in their cells."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from certigraph.adapters.files import replace_file, replace_text
from certigraph.evaluation.measures import MISSING_VALUE
from certigraph.runtime.pages import render_page

T = TypeVar("T")

# Cells with intervals.

NumberFormat = str | Callable[[float], str]
"""Format of a number: a format specification such as `.1f`, or a function."""


def format_interval(
    low: float | None, high: float | None, form: NumberFormat = ".1f", *, missing: str = MISSING_VALUE
) -> str:
    """Format the bounds of an interval, as in `40.1 to 42.3`; `missing` if a bound is None or NaN."""
    if low is None or high is None or isnan(low) or isnan(high):
        return missing
    return f"{_format_number(low, form)} to {_format_number(high, form)}"


def format_estimate(value: float, low: float | None, high: float | None, form: NumberFormat = ".1f") -> str:
    """Format a value with its interval, as in `41.2 (40.1 to 42.3)`; without the interval if there is none."""
    interval = format_interval(low, high, form, missing="")
    return _format_number(value, form) + (f" ({interval})" if interval else "")


def _format_number(value: float, form: NumberFormat) -> str:
    value = value or 0.0  # a bootstrap's bound may be -0.0
    return f"{value:{form}}" if isinstance(form, str) else form(value)


def format_cell(value: Any) -> str:
    """Format a table value: floats with three significant digits, whole from a thousand on; `-` if it is missing."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "yes" if value else "no"
    if pd.isna(value):
        return MISSING_VALUE
    if not isinstance(value, float):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value or 0.0:.3g}"


def frame_cells(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Format a data frame as the headings and rows of a table, with `format_cell`."""
    heads = [str(name).replace("_", " ") for name in frame.columns]
    return heads, [list(map(format_cell, line)) for line in frame.itertuples(index=False, name=None)]


class LinkedCell(NamedTuple):
    """Heading or cell of a table on a page that leads elsewhere."""

    text: str
    link: str


# Tables on a terminal.

PIPED_WIDTH = 200
"""Width of a table that is written to a file or pipe, in columns."""

CELL_PADDING = 2
"""Number of spaces around each cell of a table."""

MIN_FITTED = 3
"""Number of columns that a FittedTable shows at any width."""


def table_console() -> Console:
    """Create a console for tables: as wide as the terminal, or PIPED_WIDTH."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)


def terminal_table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> Table:
    """Create a table for a terminal from its column headings and the cells of its rows."""
    table = Table(*heads, box=None)
    for line in lines:
        table.add_row(*line)
    return table


TableCells = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings and rows of a table, as texts."""


def table_of(columns: Mapping[str, Callable[[T], str]], records: Iterable[T]) -> TableCells:
    """Make a table of a record for each row; a column is a heading with the function that formats its cell."""
    return tuple(columns), [tuple(cell(record) for cell in columns.values()) for record in records]


class FittedTable:
    """Table for a terminal that leaves out the last columns where it is too narrow, and names them in a line below.

    The first MIN_FITTED columns are always shown, folded if necessary; of the others as many as fit.
    """

    def __init__(self, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
        self.heads, self.lines = heads, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [max(map(cell_len, column)) + CELL_PADDING for column in zip(self.heads, *self.lines, strict=True)]
        count = max(MIN_FITTED, sum(width <= options.max_width for width in accumulate(widths)))
        table = terminal_table(self.heads[:count], [line[:count] for line in self.lines])
        for column in table.columns:
            column.overflow = "fold"
        yield table
        if left_out := self.heads[count:]:
            yield Text(f" not shown at this width, but on the page: {', '.join(left_out)}", style="dim")


def print_report_path(path: Path) -> None:
    """Print the path of a report on one line, however long it is."""
    Console(highlight=False, soft_wrap=True).print(f"report: {path}", style="dim", markup=False)


def records_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Convert a data frame to the rows of a JSON array; missing values are None."""
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records"))
    return rows


# Pages.


def write_page(path: Path, template: str, *, package: str = "", **values: Any) -> None:
    """Write an HTML page, which is replaced only when it is complete.

    It loads no other files and runs no script; texts are escaped.

    Args:
        path: the page.
        template: file name of the template, of this package or of `package`.
        package: name of a further package that has templates.
        values: the variables of the template.
    """
    packages = (*filter(None, [package]), "certigraph.evaluation")
    replace_text(path, render_page(template, packages, **values))


# CSV files: texts that begin like a formula are escaped, since a spreadsheet would run them.

FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that a spreadsheet runs as formulas."""


def escape_formula(value: Any) -> Any:
    """Escape a value for a spreadsheet cell: a text that looks like a formula gets an apostrophe in front.

    Numbers are unchanged.
    """
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA_PREFIXES):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


QUOTING_TERMINATOR = "\r\n"
"""Line terminator with which the module `csv` quotes cells that have a carriage return, which some programs take for
the end of a line."""


class _PlainLines(io.TextIOWrapper):
    """Text file that ends lines with a line feed alone. It is written to with QUOTING_TERMINATOR, a line at a time."""

    def write(self, line: str, /) -> int:
        return super().write(line.removesuffix(QUOTING_TERMINATOR) + "\n")


@contextmanager
def _replace_csv(path: Path) -> Iterator[_PlainLines]:
    with (
        replace_file(path) as draft,
        draft.open("wb") as binary,
        _PlainLines(binary, encoding="utf-8", newline="") as file,
    ):
        yield file


def write_csv(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write dictionaries as the lines of a CSV file, which is replaced only when it is complete.

    The columns are the keys of all lines. A cell for which a line has no value is empty.
    """
    names = list(dict.fromkeys(name for line in lines for name in line))
    with _replace_csv(path) as file:
        writer = csv.DictWriter(file, names, lineterminator=QUOTING_TERMINATOR)
        writer.writeheader()
        writer.writerows({name: escape_formula(value) for name, value in line.items()} for line in lines)


def write_frame(table: pd.DataFrame, path: Path) -> Path:
    """Write a data frame as a CSV file, which is replaced only when it is complete, and return its path."""
    with _replace_csv(path) as file:
        table.map(escape_formula).to_csv(file, index=False, lineterminator=QUOTING_TERMINATOR)
    return path
