"""The study's tables for a terminal, or as one JSON object."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from certigraph.evaluation.comparing.command import PIPED
from certigraph.evaluation.studying.shown import readable
from certigraph.evaluation.studying.tables import Tables, cell

PRINTED = {
    "differences": "left minus right, paired over tasks",
    "gate": "the gate's answer where it fired, else the natural one",
    "reorganisation": "curating the belief",
    "errors": "runs that an error ended: left out above, tried again by the next call",
    "artefacts": "open questions that say that nothing is known, share of runs",
}
"""Tables that are printed where they have lines, between scores and gaps; the page and the CSV files have all."""

LEFT_OUT = {"tasks", "spread"}
"""Columns that a terminal has no room for."""


def plain(tables: Tables) -> dict[str, Any]:
    """All tables by name, each a list of its lines, as JSON has it."""
    return {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}


def print_study(tables: Tables) -> None:
    """Print the tables that a terminal has room for."""
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED)
    for title, table in _tables(tables):
        console.print(f"\n{title}", style="bold", markup=False)
        console.print(table, markup=False)


def _tables(tables: Tables) -> Iterator[tuple[str, Table]]:
    yield "means a run, with 95 % intervals", _shown(readable("scores", tables["scores"]))
    for name, title in PRINTED.items():
        if not tables[name].empty:
            yield title, _shown(readable(name, tables[name]).drop(columns=LEFT_OUT, errors="ignore"))
    yield "gaps: runs that show them, of those that can tell", _shown(readable("gaps", tables["gaps"]))


def _shown(frame: pd.DataFrame) -> Table:
    table = Table(*(str(name).replace("_", " ") for name in frame.columns), box=None)
    for line in frame.itertuples(index=False, name=None):
        table.add_row(*map(cell, line))
    return table
