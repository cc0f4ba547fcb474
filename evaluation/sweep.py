"""Execution and figures of a sweep."""

import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from certigraph.adapters.faults import Faults
from certigraph.adapters.processes import TABLES, equipped
from certigraph.adapters.protocols import Budget
from certigraph.evaluation.compare import Order, carry_out
from certigraph.evaluation.comparison import (
    AND,
    FILE,
    Cell,
    Method,
    Part,
    Plan,
    Workers,
    alone,
    apart,
    cells_of,
    left,
    read_plan,
    recorded,
    settle,
    spread,
)
from certigraph.evaluation.comparison_report import (
    COMPARISON_PAGE,
    DIFFERENCES,
    answering,
    difference_cells,
    line_of,
    report,
    write_csv,
)
from certigraph.evaluation.comparison_summary import (
    Comparison,
    Difference,
    Summary,
    difference_of,
    scores_of,
    shared_rows,
    with_faults,
)
from certigraph.evaluation.measures import share_text
from certigraph.evaluation.statistics import holm
from certigraph.evaluation.sweep_file import Most, Sweep, expanded, folder_name, order_of, read_sweep
from certigraph.runtime.files import check_out
from certigraph.runtime.history import Row
from certigraph.runtime.html import compact, counted
from certigraph.runtime.registry import must_be_priced, swaps_of
from certigraph.state.records import GOAL, Fault, Record
from certigraph.state.trajectory import Trajectory

# What all runs of a sweep spend together, and when that is enough.

HOUR = 3_600


class Spending(Record):
    """What runs spent, finished or not, work that was done twice included."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0


def total(several: Iterable[Spending]) -> Spending:
    """The sum."""
    runs = list(several)
    return Spending(**{name: sum(getattr(run, name) for run in runs) for name in Spending.model_fields})


class Purse:
    """Counts what the runs spend as they end. Overspent by at most what the runs under way may spend."""

    def __init__(self, most: Most, cells: Iterable[Cell]) -> None:
        """`cells`: those of the whole sweep; what they spent before is counted."""
        self.most, self.began = most, time.monotonic()
        self.by_run: dict[Path, Spending] = {}
        for cell in cells:
            if trajectory := recorded(cell):
                self.note(cell, trajectory)

    def note(self, cell: Cell, trajectory: Trajectory) -> None:
        """Count a run, in place of what was known of it."""
        used = trajectory.usage
        tokens = used.input_tokens + used.output_tokens
        self.by_run[cell.folder] = Spending(usd=used.usd, tokens=tokens, calls=used.calls)

    def spent(self) -> Spending:
        """What all runs spent."""
        return total(self.by_run.values())

    def empty(self) -> str:
        """What is spent, in words; nothing while there is room."""
        spent, most = self.spent(), self.most
        hours = (time.monotonic() - self.began) / HOUR
        if most.usd and spent.usd >= most.usd:
            return f"{spent.usd:.4g} of {most.usd:g} usd are spent"
        if most.tokens and spent.tokens >= most.tokens:
            return f"{spent.tokens:,} of {most.tokens:,} tokens are spent"
        if most.calls and spent.calls >= most.calls:
            return f"{spent.calls:,} of {most.calls:,} calls are made"
        return f"{most.hours:g} hours are over" if most.hours and hours >= most.hours else ""


def must_have_prices(most: Most, models: Iterable[str]) -> None:
    """Refuse a limit in dollars where a model's price is unknown: it would never be reached. Raises Fault."""
    if most.usd is not None:
        must_be_priced(models, Budget(usd=most.usd))


# Carries a sweep out, comparison by comparison. It may be interrupted or killed at any moment and started again.

COMMAND = "certigraph sweep"

FIX = "benchmarks may be added, nothing else changed: put it back, or begin anew in another --out"


class Arm(NamedTuple):
    """One benchmark of a sweep: its comparison, and the folder of that."""

    title: str
    order: Order
    folder: Path

    @property
    def cells(self) -> list[Cell]:
        """Its runs."""
        return cells_of(self.order.plan, self.folder)


class Prepared(NamedTuple):
    """A sweep with what it takes to carry it out; `out` is its folder."""

    file: Path
    sweep: Sweep
    arms: tuple[Arm, ...]
    left_out: tuple[str, ...]
    out: Path
    workers: Workers | None = None
    """Those that carry the runs out, in place of this process."""

    @property
    def command(self) -> str:
        """What goes on with it, the folder aside."""
        ray = f" --ray {self.workers.address}" if self.workers else ""
        return f"{COMMAND} {shlex.quote(str(self.file))}{ray}"

    @property
    def go_on(self) -> str:
        """What goes on with it."""
        return f"{self.command} --out {shlex.quote(str(self.out))}"

    @property
    def cells(self) -> list[Cell]:
        """Its runs."""
        return [cell for arm in self.arms for cell in arm.cells]


def prepared(
    file: Path, out: Path | None = None, workers: Workers | None = None, *, import_own: bool = True
) -> Prepared:
    """Read a sweep's file and find everything that it names; nothing is run or written.

    Args:
        file: the sweep's.
        out: its folder; the file's name without its ending where none is given.
        workers: processes that carry the runs out.
        import_own: whether operators named `module:attribute` are imported, which runs the code of their module.

    Raises:
        Fault, UnknownName: the file or something that it names is unusable, or is not there.
    """
    equipped("sweeps", "yaml", *TABLES)
    sweep = read_sweep(file)
    Faults.read(sweep.faults)
    must_have_prices(sweep.most, {sweep.model, *sweep.roles.values()})
    methods, left_out = expanded(sweep, import_own=import_own)
    out = out or Path(file.stem)
    check_out(out)
    orders = [(case, order_of(sweep, case, methods, file.resolve().parent)) for case in sweep.benchmarks]
    arms = [Arm(case.title, order, out / folder_name(case)) for case, order in orders]
    return Prepared(file, sweep, tuple(arms), left_out, out, workers)


def carried_out(given: Prepared, *, silent: bool = False) -> list[str]:
    """Do what is left of a sweep, one benchmark after another, and say why anything is left after that.

    A benchmark whose first runs all fail alike does not keep the others from being run.

    Raises:
        Fault: the folder was begun with another file, or another process is at work in it.
        Interrupted: by Ctrl-C; the message has the command that goes on.
    """
    given.out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)
    with alone(given.out):
        held(given)
        purse = Purse(given.sweep.most, given.cells if given.sweep.most != Most() else ())
        failed = list(filter(None, (_carry_out(given, arm, purse, console) for arm in given.arms)))
        return [*_spent(given, purse), *failed]


def begun_in(out: Path) -> set[Path]:
    """The folders of a sweep's comparisons."""
    return {path.parent for path in out.glob(f"*/{FILE}")}


def held(given: Prepared) -> None:
    """Write every comparison's plan down, or make sure that the folder was begun with the same ones."""
    must_be_unchanged(given)
    for arm in given.arms:
        settle(arm.order.plan, arm.folder, given.command)


def must_be_unchanged(given: Prepared) -> None:
    """Make sure that the folder, if it was begun, was begun with the same plans. Raises Fault.

    A benchmark may be added to a sweep; anything else that changes would make one table of different things.
    """
    begun = begun_in(given.out)
    if gone := sorted(path.name for path in begun - {arm.folder for arm in given.arms}):
        raise Fault("data", f"{given.out} has runs of {', '.join(gone)}, which {given.file} lacks: {FIX}")
    for arm in given.arms:
        if arm.folder in begun and (told := apart(read_plan(arm.folder), arm.order.plan)):
            raise Fault("data", f"{arm.folder} was begun with another {given.file.name} ({told}): {FIX}")


def _carry_out(given: Prepared, arm: Arm, purse: Purse, console: Console) -> str:
    """Do what is left of one comparison; what keeps it from being finished, if anything does."""
    if purse.empty() or not left(arm.cells):
        return ""
    console.print(f"{arm.title} ({given.arms.index(arm) + 1} of {len(given.arms)})", markup=False)
    order = arm.order._replace(command=given.command)
    try:
        with spread(order.plan, given.workers, given.sweep.at_once) as (carry, at_once):
            part = Part(given.out, purse.note, lambda: bool(purse.empty()), carry)
            carry_out(order, arm.folder, at_once=at_once, silent=console.quiet, part=part)
    except Fault as fault:
        return f"{arm.title}: {fault}"
    return ""


def _spent(given: Prepared, purse: Purse) -> Sequence[str]:
    why, runs = purse.empty(), len(left(given.cells))
    if not (why and runs):
        return ()
    more = "" if why.endswith("over") else f"a larger `most` in {given.file} and "
    return (f"{why}: {counted(runs, 'run')} left; go on with {more}{given.go_on}",)


# Everything that a sweep's runs say so far, benchmark by benchmark; the report of each comparison is written too.


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
    page = os.path.relpath(arm.folder / COMPARISON_PAGE, given.out)
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


# A sweep's table as text, for the terminal and for a page: a line a method, a column a benchmark.

NONE = "-"
AMOUNTS = ("endings", "faults", "calls", "tokens", "usd")
"""The columns after the benchmarks', over all of them together."""
EFFECTS = ("benchmark", *DIFFERENCES)


def heads(findings: SweepFindings) -> tuple[str, ...]:
    """The columns of the table."""
    return ("method", *map(head, findings.found), *AMOUNTS)


def head(found: Found) -> str:
    """A benchmark and the number of tasks that its figures are over."""
    return f"{found.title}, n={found.comparison.n}"


def lines(findings: SweepFindings) -> Iterator[tuple[str, ...]]:
    """A line a method: scores with their intervals, then what the method cost over all benchmarks."""
    for method in findings.methods:
        summaries = findings.of(method)
        yield method, *map(score, summaries), *amounts(summaries)


def score(summary: Summary) -> str:
    """The mean score, 0 to 100, and its 95 % interval."""
    if not summary.n:
        return NONE
    within = f" ({summary.low:.1f} to {summary.high:.1f})" if summary.low is not None else ""
    return f"{summary.score:.1f}{within}"


def endings_of(summaries: Sequence[Summary]) -> Counter[str]:
    """How runs ended, the most frequent first."""
    found = sum((Counter(summary.endings) for summary in summaries), Counter[str]())
    return Counter(dict(found.most_common()))


def amounts(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """Endings, faults, calls, tokens and dollars of a method's runs, as many on every method's line."""
    confirmed = sum(summary.goals.confirmed for summary in summaries)
    notes = {GOAL: f" ({confirmed} confirmed)"}
    told = ", ".join(f"{ending} {count}{notes.get(ending, '')}" for ending, count in endings_of(summaries).items())
    faults = share_text(sum(summary.faults for summary in summaries), sum(summary.begun for summary in summaries))
    calls = sum(summary.calls for summary in summaries)
    tokens = sum(summary.prompt_tokens + summary.output_tokens for summary in summaries)
    spent = f"{calls:,}", compact(tokens), dollars(sum(summary.usd for summary in summaries))
    return told or NONE, faults, *spent


def dollars(amount: float) -> str:
    """US dollars, cents and less where it is less than one."""
    return "0" if not amount else f"{amount:.4f}" if amount < 1 else f"{amount:,.2f}"


def effect_cells(effect: Effect) -> tuple[str, ...]:
    """An effect as text, in the order of EFFECTS."""
    return effect.benchmark, *difference_cells(effect.difference)


def told(findings: SweepFindings) -> str:
    """What the table is over."""
    runs = sum(found.runs for found in findings.found)
    part = "" if not findings.left else f"; partial: {findings.left} of {counted(runs, 'run')} are still to be run"
    size = f"{counted(len(findings.methods), 'method')} on {counted(len(findings.found), 'benchmark')}"
    return f"{size}, {findings.model}{answering(findings.model.split(AND))}{part}"


def tables(findings: SweepFindings) -> Iterator[Table]:
    """The tables for a terminal."""
    yield _table(heads(findings), lines(findings))
    if findings.effects:
        yield _table(EFFECTS, map(effect_cells, findings.effects))


def _table(names: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Table:
    table = Table(*names, box=None)
    for row in rows:
        table.add_row(*row)
    return table


# What a sweep leaves for other programs: `sweep.json`, `sweep.csv`, `effects.csv` and `rows.csv`.


def plain(findings: SweepFindings) -> dict[str, Any]:
    """Everything as one JSON object; folders as seen from the sweep's."""
    return {
        "model": findings.model,
        "methods": list(findings.methods),
        "partial": bool(findings.left),
        "left": findings.left,
        "left_out": list(findings.left_out),
        "stopped": list(findings.stopped),
        "spent": findings.spent.model_dump(),
        "benchmarks": [_benchmark(found) for found in findings.found],
        "effects": [_effect(effect) for effect in findings.effects],
    }


def write_files(findings: SweepFindings) -> None:
    """`sweep.json` has everything; as CSV `sweep` a line a method and benchmark, `rows` one a run with its folder."""
    text = json.dumps(plain(findings), indent=1, ensure_ascii=False)
    (findings.out / "sweep.json").write_text(text, encoding="utf-8")
    write_csv(findings.out / "sweep.csv", [*_methods(findings)])
    write_csv(findings.out / "effects.csv", [_effect(effect) for effect in findings.effects])
    write_csv(findings.out / "rows.csv", [line for found in findings.found for line in _runs(found)])


def _benchmark(found: Found) -> dict[str, Any]:
    comparison = found.comparison.model_dump(mode="json", exclude={"rows"})
    runs = [{**row.model_dump(mode="json"), "folder": found.folders[row.run]} for row in found.comparison.rows]
    return {"name": found.title, "runs": found.runs, "left": found.left, "page": found.page, **comparison, "rows": runs}


def _effect(effect: Effect) -> dict[str, Any]:
    found = effect.difference
    return {"benchmark": effect.benchmark, **found.model_dump(mode="json"), "words": found.words}


def _methods(findings: SweepFindings) -> Iterator[dict[str, Any]]:
    for found in findings.found:
        for summary in found.comparison.methods:
            yield {"benchmark": found.title, **line_of(summary.model_dump(mode="json"))}


def _runs(found: Found) -> Iterator[dict[str, Any]]:
    for row in found.comparison.rows:
        yield {"benchmark": found.title, **line_of(row.model_dump(mode="json")), "folder": found.folders[row.run]}
