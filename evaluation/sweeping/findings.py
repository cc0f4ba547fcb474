"""Everything that a sweep's runs say so far, benchmark by benchmark; the report of each comparison is written too."""

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from certigraph.evaluation.comparing.cells import recorded
from certigraph.evaluation.comparing.plan import Method, Plan
from certigraph.evaluation.comparing.report import PAGE, report
from certigraph.evaluation.comparing.rows import Row
from certigraph.evaluation.comparing.summary import (
    Comparison,
    Difference,
    Summary,
    difference_of,
    scores_of,
    shared_rows,
    with_faults,
)
from certigraph.evaluation.settings import swaps_of
from certigraph.evaluation.statistics import holm
from certigraph.evaluation.sweeping.driving import Arm, Prepared
from certigraph.evaluation.sweeping.purse import Purse, Spending


class Found(NamedTuple):
    """One benchmark: its comparison so far, the number of its runs, and its page as seen from the sweep's."""

    title: str
    comparison: Comparison
    runs: int
    page: str
    folders: dict[str, str]
    """Run -> its folder, as seen from the sweep's."""

    @property
    def left(self) -> int:
        """Runs without an ending, and those that an error ended."""
        return self.comparison.left


class Effect(NamedTuple):
    """A variant's score minus its own graph's on one benchmark."""

    benchmark: str
    difference: Difference


class SweepFindings(NamedTuple):
    """The benchmarks, what exchanged operators change, what was spent, and what is not there.

    `left_out`: combinations that are none. `stopped`: why runs are left; `spent` is of all runs, failed ones included.
    """

    model: str
    methods: tuple[str, ...]
    found: tuple[Found, ...]
    effects: tuple[Effect, ...]
    left_out: tuple[str, ...]
    stopped: tuple[str, ...]
    spent: Spending
    out: Path

    @property
    def left(self) -> int:
        """Runs still to be carried out: while there are any, the figures are over part of the tasks."""
        return sum(found.left for found in self.found)

    def of(self, method: str) -> list[Summary]:
        """A method's figures, one a benchmark."""
        return [summary for one in self.found for summary in one.comparison.methods if summary.method == method]


def findings_of(given: Prepared, stopped: Sequence[str] = ()) -> SweepFindings:
    """What a sweep has come to so far; writes the report of every comparison."""
    purse = Purse(given.sweep.most, ())
    found = [_found(given, arm, purse) for arm in given.arms]
    effects = [
        _effects(arm.title, arm.order.plan, one.comparison.rows) for arm, one in zip(given.arms, found, strict=True)
    ]
    plan = given.arms[0].order.plan
    return SweepFindings(
        model=plan.outline.model,
        methods=tuple(method.name for method in plan.methods),
        found=tuple(found),
        effects=tuple(_adjusted(list(chain.from_iterable(effects)))),
        left_out=given.left_out,
        stopped=tuple(stopped),
        spent=purse.spent(),
        out=given.out,
    )


def _found(given: Prepared, arm: Arm, purse: Purse) -> Found:
    comparison = report(arm.order.plan, arm.folder).comparison
    page = os.path.relpath(arm.folder / PAGE, given.out)
    return Found(arm.title, comparison, len(arm.cells), page, _folders(given, arm, purse))


def _folders(given: Prepared, arm: Arm, purse: Purse) -> dict[str, str]:
    """Where each run is kept; what it spent goes into the purse."""
    folders: dict[str, str] = {}
    for cell in arm.cells:
        if trajectory := recorded(cell):
            purse.note(cell, trajectory)
            run = trajectory.header.run_id
            folders[run] = os.path.relpath(cell.folder / run, given.out)
    return folders


def _pairs(methods: Sequence[Method]) -> Iterator[tuple[Method, Method]]:
    """Every variant with the method that is its graph as it is, where the sweep has that."""
    plain = {method.graph: method for method in methods if not swaps_of(method.graph, method.operators)}
    return ((m, plain[m.graph]) for m in methods if m.graph in plain and m is not plain[m.graph])


def _effects(title: str, plan: Plan, rows: Sequence[Row]) -> list[Effect]:
    """The effects on one benchmark, over the tasks that every method has finished."""
    by_method = {name: scores_of(mine) for name, mine in shared_rows(plan.outline, rows).items()}
    found = [
        with_faults(difference_of(variant.name, own.name, by_method[variant.name], by_method[own.name]), rows)
        for variant, own in _pairs(plan.methods)
    ]
    return [Effect(title, difference) for difference in found]


def _adjusted(effects: Sequence[Effect]) -> list[Effect]:
    """The same with Holm's p over all of them: a sweep of many variants finds some by chance."""
    corrected = holm([effect.difference.p for effect in effects])
    return [
        effect._replace(difference=effect.difference.model_copy(update={"p_adjusted": p}))
        for effect, p in zip(effects, corrected, strict=True)
    ]
