"""Tables and pages of the studies: statistics by group as data, and one way to write, print and show tables.

A table is a data frame. As CSV and JSON it has its exact values; for people, values and the bounds of their intervals
share a cell.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from certigraph.evaluation.plots import chart_style, save_drawing
from certigraph.evaluation.tables import (
    NumberFormat,
    format_cell,
    format_estimate,
    frame_cells,
    records_of,
    table_console,
    terminal_table,
    write_frame,
    write_page,
)
from certigraph.runtime.texts import format_count

# Tables for people.


def join_intervals(table: pd.DataFrame, form: NumberFormat = format_cell) -> pd.DataFrame:
    """Join each value with the bounds of its interval to one text.

    The bounds are the columns `low` and `high`, or such as `fire_low` and `fire_high`, after the column of the value.
    """
    columns = list(map(str, table.columns))
    for low in [name for name in columns if f"_{name}".endswith("_low")]:
        figure, high = columns[columns.index(low) - 1], f"{low.removesuffix('low')}high"
        cells: Any = zip(table[figure], table[low], table[high], strict=True)
        texts = [format_cell(v) if pd.isna(v) else format_estimate(v, lo, hi, form) for v, lo, hi in cells]
        table = table.assign(**{figure: texts}).drop(columns=[low, high])
    return table


def print_frames(tables: Mapping[str, pd.DataFrame], notes: Iterable[str] = ()) -> None:
    """Print tables by their titles, and notes below them; intervals are joined with their values."""
    console = table_console()
    for title, table in tables.items():
        console.print(f"\n{title}", style="bold", markup=False)
        console.print(terminal_table(*frame_cells(join_intervals(table))), markup=False)
    for note in notes:
        console.print(note, markup=False)


def print_json(tables: Mapping[str, pd.DataFrame], **more: Any) -> None:
    """Print one JSON object with the rows of each table by its name."""
    rows = {name: records_of(table) for name, table in tables.items()}
    print(json.dumps({**rows, **more}, ensure_ascii=False))


# The files of a study.


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write each table as a CSV file under its name, and return the files."""
    return [write_frame(table, folder / f"{name}.csv") for name, table in tables.items()]


def format_progress(done: int, planned: int, name: str = "run") -> str:
    """Format the number of finished runs, and of those that are not finished, as in `23 runs; 1 run not finished`."""
    missing = f"; {format_count(planned - done, 'run')} not finished" if done < planned else ""
    return f"{format_count(done, name)}{missing}"


def write_figures(figures: Mapping[str, Callable[[], Figure]], folder: Path) -> dict[str, Markup]:
    """Draw figures, write each as PNG and SVG under its name, and return the SVG elements for a page by name."""
    with chart_style():
        return {name: save_drawing(draw(), folder / name) for name, draw in figures.items()}


def write_study_page(
    path: Path,
    template: str,
    tables: Mapping[str, pd.DataFrame],
    drawings: Mapping[str, Markup],
    verdict: str = "",
    notes: Iterable[str] = (),
    **texts: Any,
) -> None:
    """Write the HTML page of a study, whose template has the titles and captions of its sections.

    Args:
        path: the page.
        template: file name of the template.
        tables: tables by name; those without rows are left out.
        drawings: figures by name.
        verdict: the main result in a sentence, if there is one.
        notes: what limits the meaning of the figures; empty ones are left out.
        texts: title, scope and other variables of the template.
    """
    cells = {name: frame_cells(join_intervals(table)) for name, table in tables.items() if len(table)}
    files = [name for name in tables if path.with_name(f"{name}.csv").is_file()]
    shown = {"tables": cells, "files": files, "drawings": drawings, "notes": [*filter(None, notes)]}
    write_page(path, template, package="certigraph.studies", verdict=verdict, **shown, **texts)
