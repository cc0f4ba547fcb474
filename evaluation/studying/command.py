"""What `certigraph study cgdp` does between its options and its tables."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import typer
from rich.console import Console

from certigraph.evaluation.comparing.cells import cells_of, left
from certigraph.evaluation.comparing.command import Order, carry_out, show
from certigraph.evaluation.comparing.files import plain as plain_comparison
from certigraph.evaluation.comparing.findings import Findings
from certigraph.evaluation.comparing.plan import Method, methods_from
from certigraph.evaluation.comparing.report import PAGE as COMPARISON
from certigraph.evaluation.comparing.report import report as report_comparison
from certigraph.evaluation.settings import parse_swap
from certigraph.evaluation.shipped import must_take_answers
from certigraph.evaluation.studying.arms import GATE, HARNESSES, MEMORIES, SHADOW, ablated, arms_of, is_arm, method_of
from certigraph.evaluation.studying.printing import plain, print_study
from certigraph.evaluation.studying.report import PAGE, report
from certigraph.evaluation.studying.tables import Tables
from certigraph.evaluation.studying.variants import ABLATIONS
from certigraph.state.endings import UnknownName

COMMAND = "certigraph study cgdp"


class Asked(NamedTuple):
    """Which arms a study has; of harnesses and conditions all, or an ablation's own, where none is named."""

    harnesses: Sequence[str] = ()
    memories: Sequence[str] = ()
    gates: Sequence[str] = (SHADOW,)
    ablate: str = ""
    beside: Sequence[str] = ()
    """Other graphs to run on the same tasks, such as sdp; the comparison's page has them, the study's tables do not."""
    gate: str = GATE
    """The gate that a shadow watches or that stops runs, as `--swap` writes operators."""


def methods_of(asked: Asked) -> tuple[Method, ...]:
    """The study's arms as methods of one comparison.

    Raises:
        UnknownName: a harness, condition, gate, operator or ablation is unknown; the message lists the known ones.
    """
    ablation = ABLATIONS.get(asked.ablate)
    if asked.ablate and not ablation:
        raise UnknownName(f"unknown ablation {asked.ablate!r}; known: {', '.join(ABLATIONS)}")
    harnesses, memories = (ablation.harnesses, ablation.memories) if ablation else ((), ())
    arms = arms_of(asked.harnesses or harnesses or HARNESSES, asked.memories or memories or MEMORIES, asked.gates)
    _, gate = parse_swap(f"gate={asked.gate}")
    made = (method_of(arm, gate) for arm in (ablated(arms, ablation) if ablation else arms))
    return (*made, *methods_from(asked.beside))


def worked_off(given: Order, folder: Path, *, at_once: int, report_only: bool, as_json: bool) -> int:
    """Do what is left of a study unless only its report is wanted, and print it; exit status 1 while runs are left.

    As JSON it is one object: the tables by name, and under `comparison` the one with the graphs beside, if any.

    Raises:
        UnknownName: the benchmark takes no answers.
        Interrupted: by Ctrl-C; the message is the command that goes on.
        Fault: as `compare` does.
    """
    must_take_answers("study cgdp", given.benchmark)
    if not report_only:
        carry_out(given._replace(command=COMMAND), folder, at_once=at_once, silent=as_json)
    tables = report(given.plan, folder, given.benchmark).tables
    beside = None if all(map(is_arm, given.plan.methods)) else report_comparison(given.plan, folder)
    if as_json:
        compared = {"comparison": plain_comparison(beside.comparison, beside.estimates)} if beside else {}
        typer.echo(json.dumps({**plain(tables), **compared}, ensure_ascii=False))
    else:
        _print(tables, beside, folder)
    return 1 if left(cells_of(given.plan, folder)) else 0


def _print(tables: Tables, beside: Findings | None, folder: Path) -> None:
    print_study(tables)
    pages = [PAGE]
    if beside:
        show(beside.comparison, beside.estimates, as_json=False)
        pages.append(COMPARISON)
    for page in pages:
        Console(highlight=False, soft_wrap=True).print(f"report: {folder / page}", style="dim", markup=False)
