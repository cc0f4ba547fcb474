"""The study's tables for a terminal, or as one JSON object."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from certigraph.evaluation.comparing.command import PIPED
from certigraph.evaluation.studying.tables import ARM, Tables, cell

PRINTED = {
    "differences": "left minus right, paired over tasks",
    "gate": "the gate's answer where it fired, else the natural one",
    "reorganisation": "curating the belief",
    "artefacts": "open questions that say that nothing is known, share of runs",
}
"""Tables that are printed where they have lines, between scores and gaps; the page and the CSV files have all."""

LEFT_OUT = {*ARM[1:], "tasks", "fire_low", "fire_high", "spread"}
"""Columns that a terminal has no room for."""


def print_study(tables: Tables, *, as_json: bool) -> None:
    """Print the tables, or one JSON object with all of them."""
    if as_json:
        plain = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        typer.echo(json.dumps(plain, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED)
    for title, table in _tables(tables):
        console.print(f"\n{title}", style="bold", markup=False)
        console.print(table, markup=False)


def _tables(tables: Tables) -> Iterator[tuple[str, Table]]:
    yield "means a run, with 95 % intervals", _shown(_by_arm(tables["scores"]))
    for name, title in PRINTED.items():
        if not tables[name].empty:
            yield title, _shown(tables[name].drop(columns=LEFT_OUT, errors="ignore"))
    yield "gaps: runs that show them, of those that can tell", _shown(_by_gap(tables["gaps"]))


def _by_arm(scores: pd.DataFrame) -> pd.DataFrame:
    """A line an arm, its measures side by side."""
    told = scores.assign(told=[_interval(line) for line in scores.itertuples(index=False)])
    return _beside(told, ["method", "n"], "measure")


def _by_gap(gaps: pd.DataFrame) -> pd.DataFrame:
    """A line an arm, the gaps side by side."""
    told = gaps.assign(told=[f"{line.shown}/{line.n}" for line in gaps.itertuples(index=False)])
    return _beside(told, ["method"], "gap")


def _beside(told: pd.DataFrame, lines: list[str], columns: str) -> pd.DataFrame:
    return told.pivot_table("told", lines, columns, aggfunc="first", sort=False).reset_index()


def _interval(line: Any) -> str:
    between = f" ({cell(line.low)} to {cell(line.high)})"
    return cell(line.value) + ("" if pd.isna(line.low) else between)


def _shown(frame: pd.DataFrame) -> Table:
    table = Table(*(str(name).replace("_", " ") for name in frame.columns), box=None)
    for line in frame.itertuples(index=False, name=None):
        table.add_row(*map(cell, line))
    return table
