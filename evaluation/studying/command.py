"""What `certigraph study cgdp` does between its options and its tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from certigraph.evaluation.comparing.cells import cells_of, left
from certigraph.evaluation.comparing.command import Order, carry_out, print_comparison
from certigraph.evaluation.comparing.plan import Method, methods_from
from certigraph.evaluation.settings import parse_swap
from certigraph.evaluation.studying.arms import GATE, HARNESSES, MEMORIES, SHADOW, ablated, arms_of, is_arm, method_of
from certigraph.evaluation.studying.printing import print_study
from certigraph.evaluation.studying.report import PAGE, report
from certigraph.evaluation.studying.variants import ABLATIONS
from certigraph.state.endings import Interrupted, UnknownName


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

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on.
        Fault: as `compare` does.
    """
    if not report_only:
        try:
            carry_out(given, folder, at_once=at_once, silent=as_json)
        except Interrupted:
            raise Interrupted(f"interrupted; go on with: certigraph study cgdp --out {folder}") from None
    study = report(given.plan, folder, given.benchmark)
    print_study(study.tables, as_json=as_json)
    if not as_json:
        Console(highlight=False, soft_wrap=True).print(f"report: {folder / PAGE}", style="dim", markup=False)
    if any(not is_arm(method) for method in given.plan.methods):
        print_comparison(given, folder, as_json=as_json)
    return 1 if left(cells_of(given.plan, folder)) else 0
