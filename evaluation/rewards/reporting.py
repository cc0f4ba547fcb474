"""Everything that is written and printed of a measurement, at any time."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from certigraph.adapters.caching import whole_file
from certigraph.adapters.rows import read_json
from certigraph.evaluation.comparing.drawing import STYLE, written
from certigraph.evaluation.comparing.files import write_csv
from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.report.html import Markup, counted
from certigraph.evaluation.rewardheads.transfer import Transfer
from certigraph.evaluation.rewards.drawing import bars, curves, heat
from certigraph.evaluation.rewards.findings import told as findings
from certigraph.evaluation.rewards.keeping import read_counts
from certigraph.evaluation.rewards.page import Told, by_domain, page_of
from certigraph.evaluation.rewards.probing import Probed
from certigraph.evaluation.rewards.probing import told as encoders
from certigraph.evaluation.rewards.rating import Failed, Rated
from certigraph.evaluation.rewards.speed import Speed
from certigraph.evaluation.rewards.summary import Line, lines_of
from certigraph.state.endings import Fault

TRANSFER, PAGE = "transfer.json", "rewards.html"

ENDS = ("", "_low", "_high")
"""Of the names of columns, for a mean and its bounds."""

WIDTH = 200
"""Columns of a table that goes to a file."""


def report(
    methods: Sequence[Method],
    benchmark: Any,
    rows: Sequence[Rated],
    failed: Sequence[Failed],
    speeds: Sequence[Speed],
    probes: Sequence[Probed],
    out: Path,
) -> Told:
    """Write `table.csv`, the figures and `rewards.html`, and return what they say.

    Raises:
        Fault: ("data") no predictor has rated any pair.
    """
    names = [method.name for method in methods if any(row.predictor == method.name for row in rows)]
    if not names:
        raise Fault("data", f"no pair could be rated: {failed[0].reason if failed else 'there are none'}")
    lines = lines_of(rows, names)
    counts = list(read_counts(benchmark.data).values()) if benchmark.data else []
    notes = [f"{counted(n, 'task')} of {domain} left out: no pair" for domain, n in benchmark.unpaired.items()]
    sentences = [*findings(methods, lines, rows), *encoders(methods, lines, probes)]
    told = Told(lines, sentences, speeds, failed, counts, notes)
    write_csv(out / "table.csv", [_flat(line) for line in lines])
    with mpl.rc_context(STYLE):
        drawings = _drawings(lines, rows, benchmark, names, out)
    with whole_file(out / PAGE) as draft:
        draft.write_text(page_of(told, drawings), encoding="utf-8")
    return told


def _drawings(
    lines: Sequence[Line], rows: Sequence[Rated], benchmark: Any, names: Sequence[str], out: Path
) -> dict[str, Markup]:
    drawn = {"bars": bars(lines), "curves": curves(rows, benchmark.pairs, names)}
    if (out / TRANSFER).is_file():
        drawn["heat"] = heat(Transfer.model_validate(read_json(out / TRANSFER)))
    return {name: written(figure, out / name) for name, figure in drawn.items()}


def write_transfer(done: Transfer, out: Path) -> None:
    """Write the transfer matrix and its drawing to a measurement's folder, whose page has it from then on."""
    out.mkdir(parents=True, exist_ok=True)
    with whole_file(out / TRANSFER) as draft:
        draft.write_text(done.model_dump_json(indent=1) + "\n", encoding="utf-8")
    with mpl.rc_context(STYLE):
        written(heat(done), out / "heat")


def _flat(line: Line) -> dict[str, Any]:
    means = {**line.figures, **({"difference": line.difference} if line.difference else {})}
    parts = {f"{name}{end}": value for name, m in means.items() for end, value in zip(ENDS, m, strict=True)}
    return {"predictor": line.predictor, "domain": line.domain, "n": line.n, **parts}


def print_told(told: Told, out: Path, *, as_json: bool) -> None:
    """Print the pooled distances and the findings, or one JSON object."""
    if as_json:
        speeds = [one.model_dump() for one in told.speeds]
        typer.echo(json.dumps({"lines": list(map(_flat, told.lines)), "findings": told.findings, "speeds": speeds}))
        return
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=WIDTH)
    heads, cells = by_domain(told.lines)
    table = Table(*heads, box=None)
    for line in cells:
        table.add_row(*map(escape, line))
    console.print("EPIC distance, pooled, with 95 % intervals", style="bold")
    console.print(table)
    fast = [f"{one.predictor}: {one.cold:g} trajectories/s cold, {one.warm:g} warm" for one in told.speeds]
    for sentence in (*told.findings, *told.notes, *fast):
        console.print(sentence, markup=False)
    console.print(f"report: {out / PAGE}", style="dim", markup=False)
