"""Graphs, operators and benchmarks from one file."""

from pathlib import Path
from typing import Annotated

import typer

from certigraph.cli.comparing import ReportOnly
from certigraph.cli.options import AsJson
from certigraph.evaluation.extras import TABLES, equipped
from certigraph.state.endings import UnknownName


def sweep_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="Benchmarks, graphs, operators, model, budget.")],
    out: Annotated[
        Path | None, typer.Option(help="The sweep's folder; one begun there goes on. Else FILE without its ending.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run; run, import nothing.")] = False,
    report_only: ReportOnly = False,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: local, auto, HOST:PORT.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes on it; else one a processor.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run graphs x operators x benchmarks from one file; started again, it goes on where it stopped."""
    if workers and not ray:
        raise UnknownName("--workers are a cluster's: add --ray local, or --ray ADDRESS")
    equipped("sweeps", "yaml", *TABLES)
    from certigraph.evaluation.comparing.spreading import Workers
    from certigraph.evaluation.sweeping.command import forecast, worked_off

    if dry_run:
        raise typer.Exit(forecast(file, out, as_json=as_json))
    hired = Workers(ray, workers) if ray else None
    raise typer.Exit(worked_off(file, out, hired, report_only=report_only, as_json=as_json))
