"""What the command `anatomy` says."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from certigraph.evaluation.anatomy.analyses import Tables
from certigraph.evaluation.anatomy.anatomy import NAME, Anatomy, told_of
from certigraph.evaluation.anatomy.panels import line_of
from certigraph.evaluation.anatomy.sections import methods_of
from certigraph.evaluation.report.html import counted

MAIN: dict[str, tuple[str, dict[str, str]]] = {
    "solved": ("solved", {}),
    "faults": ("faults", {}),
    "cascades": ("cascade_rate", {}),
    "retried": ("retried", {}),
    "certified by failed runs": ("certified_part", {}),
    "goal certified = solved": ("calibration", {"measure": "agreement"}),
    "goal precision": ("calibration", {"measure": "solved if certified"}),
    "solved if not": ("calibration", {"measure": "solved if not certified"}),
    "tokens per predicate": ("certified_costs", {"measure": "tokens"}),
}
"""The figures that are printed: which analysis has them, and in which of its lines."""


def print_anatomy(anatomy: Anatomy, out: Path, unbegun: Sequence[Path] = (), own: int = 0) -> None:
    """The main figures with intervals and n; runs without an ending; what was left out; where the files are."""
    console = Console(highlight=False, soft_wrap=True)
    table = Table("method", "", "value", "95 % interval", "n", box=None)
    for method in methods_of(anatomy.frames):
        for place, (name, cells) in enumerate(_lines(anatomy.tables, method)):
            table.add_row("" if place else escape(method), name, *cells)
    console.print(told_of(anatomy.frames), markup=False)
    console.print(table)
    for run in anatomy.interrupted:
        console.print(f"no ending on record, counted as interrupted: {run}", style="dim", markup=False)
    for path in unbegun:
        console.print(f"left out, stopped before it began: {path.parent}", style="dim", markup=False)
    if own:
        console.print(f"left out, nobody scores them: {counted(own, 'question')} of your own", style="dim")
    console.print(f"{counted(len(anatomy.frames.runs), 'run')}; {out / NAME}", markup=False)


def _lines(tables: Tables, method: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for name, (table, where) in MAIN.items():
        line = line_of(tables[table], method, **where)
        if line is not None:
            shown = [_figure(line[part], "tokens" in name) for part in ("value", "low", "high")]
            yield name, (shown[0], f"{shown[1]} to {shown[2]}", f"{line['n']:,}")


def _figure(value: float, amount: bool) -> str:
    return "?" if pd.isna(value) else f"{value:,.0f}" if amount else f"{value:.0%}"
