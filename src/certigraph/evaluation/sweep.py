"""Execution and results of a sweep: graphs x operators x benchmarks, as one comparison per benchmark.

`prepare_sweep` reads the sweep's file, and `run_sweep` executes the unfinished runs. `findings_of` computes scores and
the effects of swapped operators, and `write_files` writes them as JSON and CSV.
"""

import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from certigraph.adapters.extras import TABLE_PACKAGES, check_evaluation_packages
from certigraph.adapters.faults import Faults
from certigraph.adapters.files import replace_text
from certigraph.adapters.protocols import Budget
from certigraph.evaluation.compare import ComparisonJob, run_comparison
from certigraph.evaluation.comparison import (
    COMPARISON_PAGE,
    MODEL_SEPARATOR,
    PLAN_FILE,
    ComparisonCell,
    cells_of,
    format_differences,
    lock_folder,
    read_cell_trajectory,
    read_plan,
    save_or_check_plan,
    unfinished_cells,
)
from certigraph.evaluation.comparison_report import (
    DIFFERENCE_COLUMNS,
    difference_cells,
    flatten_record,
    format_model_note,
    write_comparison_report,
)
from certigraph.evaluation.comparison_summary import (
    Comparison,
    Difference,
    MethodSummary,
    add_faults,
    adjust_family,
    compute_difference,
    scores_of,
    shared_rows,
)
from certigraph.evaluation.measures import MISSING_VALUE, ComparisonRow, format_fault_share
from certigraph.evaluation.sweep_file import Sweep, TotalLimits, expand_sweep, folder_name, order_of, read_sweep
from certigraph.evaluation.tables import format_estimate, terminal_table, write_csv
from certigraph.evaluation.workers import HERE, WorkerOptions, run_slots
from certigraph.runtime.files import check_output_folder, find_trajectories
from certigraph.runtime.registry import check_priced, swaps_of
from certigraph.runtime.texts import format_compact, format_count
from certigraph.state.endings import GOAL, Fault
from certigraph.state.records import Record, Usage

# The total budget of a sweep.


class SweepUsage(Record):
    """Cost of runs, finished or not, including work that was repeated after a crash."""

    usd: float = 0.0
    tokens: int = 0
    calls: int = 0


class TotalBudget:
    """Total budget of a sweep, to which the cost of each run is added when the run ends.

    Runs that are executing when the total budget is used up continue. It can be exceeded by at most their own budgets.

    Args:
        limits: the limits of the total budget.
        cells: all cells (runs) of the sweep; the cost of runs that were executed earlier is counted.
    """

    def __init__(self, limits: TotalLimits, cells: Iterable[ComparisonCell]) -> None:
        self.limits, self.started = limits, time.monotonic()
        self.by_run: dict[Path, SweepUsage] = {}
        for cell in cells:
            if trajectory := read_cell_trajectory(cell):
                self.record(cell, trajectory.usage)

    def record(self, cell: ComparisonCell, used: Usage) -> None:
        """Record the cost of a cell's run, in place of the cost recorded earlier."""
        tokens = used.input_tokens + used.output_tokens
        self.by_run[cell.folder] = SweepUsage(usd=used.usd, tokens=tokens, calls=used.calls)

    def spent(self) -> SweepUsage:
        """Return the cost of all runs so far."""
        runs = self.by_run.values()
        return SweepUsage(**{name: sum(getattr(run, name) for run in runs) for name in SweepUsage.model_fields})

    def exhausted(self) -> str:
        """Return a message that names the limit that is reached; empty if no limit is reached."""
        spent, limits = self.spent(), self.limits
        if limits.usd and spent.usd >= limits.usd:
            return f"{spent.usd:.4g} of {limits.usd:g} usd are spent"
        if limits.tokens and spent.tokens >= limits.tokens:
            return f"{spent.tokens:,} of {limits.tokens:,} tokens are spent"
        if limits.calls and spent.calls >= limits.calls:
            return f"{spent.calls:,} of {limits.calls:,} calls are made"
        hours = (time.monotonic() - self.started) / 3_600
        return f"{limits.hours:g} hours are over" if limits.hours and hours >= limits.hours else ""


# Execution of a sweep, comparison by comparison. It may be interrupted or killed at any time and started again.

PLAN_FIX = "benchmarks may be added, nothing else changed: restore the file, or start again with another --out"


class SweepArm(NamedTuple):
    """One benchmark of a sweep: its title, the comparison of the methods on it, and the comparison's folder."""

    title: str
    order: ComparisonJob
    folder: Path

    @property
    def cells(self) -> list[ComparisonCell]:
        """The cells of the comparison on the benchmark, one per run (method, task and trial)."""
        return cells_of(self.order.plan, self.folder)


class PreparedSweep(NamedTuple):
    """A sweep that is ready to be executed; `out` is its folder."""

    file: Path
    sweep: Sweep
    arms: tuple[SweepArm, ...]
    left_out: tuple[str, ...]
    out: Path
    workers: WorkerOptions = HERE
    """Processes that execute the runs."""

    @property
    def resume_command(self) -> str:
        """The shell command that resumes the sweep."""
        return f"certigraph sweep {shlex.quote(str(self.file))}{self.workers.flags} --out {shlex.quote(str(self.out))}"

    @property
    def waiting(self) -> int:
        """Number of unfinished runs."""
        return sum(len(unfinished_cells(arm.cells)) for arm in self.arms)


def prepare_sweep(
    file: Path,
    out: Path | None = None,
    workers: WorkerOptions = HERE,
    *,
    import_own: bool = True,
    keep_prompts: bool = False,
) -> PreparedSweep:
    """Read a sweep's file and resolve all names in it; nothing is executed or written.

    Args:
        file: the sweep's file.
        out: the sweep's folder; None: the file's name without its suffix.
        workers: processes that execute the runs.
        import_own: whether a user's own operators, graphs and benchmarks are imported, which executes their code.
        keep_prompts: whether the runs keep their prompts and replies, as in `certigraph.run`.

    Raises:
        Fault: the file, or something that it names, is missing or unusable; or `most` limits dollars and the price of a
            model is not known, so that the limit would never be reached.
        UnknownName: a name in the file is unknown.
    """
    check_evaluation_packages("sweeps", *TABLE_PACKAGES)
    sweep = read_sweep(file)
    Faults.read(sweep.faults)
    if sweep.most.usd is not None:
        check_priced({sweep.model, *sweep.roles.values()}, Budget(usd=sweep.most.usd))
    methods, left_out = expand_sweep(sweep, import_own=import_own)
    out = out or Path(file.stem)
    check_output_folder(out)
    folder = file.resolve().parent
    orders = [(case, order_of(sweep, case, methods, folder, import_own=import_own)) for case in sweep.benchmarks]
    arms = [SweepArm(case.title, order.with_prompts(keep_prompts), out / folder_name(case)) for case, order in orders]
    return PreparedSweep(file, sweep, tuple(arms), tuple(left_out), out, workers)


def run_sweep(given: PreparedSweep, *, silent: bool = False) -> list[str]:
    """Execute the unfinished runs of a sweep, one benchmark after another.

    A benchmark whose first runs all fail in the same way does not prevent the execution of the others.

    Returns:
        The reasons why runs are unfinished; empty if all are finished.

    Raises:
        Fault: the folder was started with another file, another process is using it, or there is no such cluster.
        Interrupted: by Ctrl-C; the message has the command that resumes the sweep.
    """
    sweep = given.sweep
    at_once = sweep.at_once if sweep.at_once > 1 else None
    with lock_folder(given.out):
        write_plans(given)
        cells = [cell for arm in given.arms for cell in arm.cells]
        budget = TotalBudget(sweep.most, cells if sweep.most != TotalLimits() else ())
        needed = given.waiting and not budget.exhausted()
        with run_slots(given.workers if needed else HERE, sweep.model, at_once) as concurrent:
            failed = [_run_arm(given, arm, budget, concurrent or 1, silent) for arm in given.arms]
        reason, runs = budget.exhausted(), given.waiting
        stopped = [_explain_stop(given, reason, runs)] if reason and runs else []
        return [*stopped, *filter(None, failed)]


def comparison_folders(out: Path) -> set[Path]:
    """Return the folders of the comparisons that a sweep has started, one per benchmark."""
    return {path.parent for path in out.glob(f"*/{PLAN_FILE}")}


def write_plans(given: PreparedSweep) -> None:
    """Write the plan of every comparison, or check that the folder was started with the same plans."""
    check_unchanged(given)
    for arm in given.arms:
        save_or_check_plan(arm.order.plan, arm.folder, given.resume_command)


def check_unchanged(given: PreparedSweep) -> None:
    """Check that the folder of a sweep that was started earlier holds the same plans.

    A benchmark may be added to a sweep; with any other change the runs of one table would not be comparable. A plan of
    which nothing has been run may be changed.

    Raises:
        Fault: ("data") the plans differ.
    """
    started = {folder for folder in comparison_folders(given.out) if find_trajectories(folder)}
    if removed := sorted(path.name for path in started - {arm.folder for arm in given.arms}):
        raise Fault("data", f"{given.out} has runs of {', '.join(removed)}, which are not in {given.file}: {PLAN_FIX}")
    for arm in given.arms:
        if arm.folder in started and (difference := format_differences(read_plan(arm.folder), arm.order.plan)):
            raise Fault("data", f"{arm.folder} was started with another {given.file.name} ({difference}): {PLAN_FIX}")


def _run_arm(given: PreparedSweep, arm: SweepArm, budget: TotalBudget, at_once: int, silent: bool) -> str:
    """Execute the unfinished runs of one comparison; return the error that stopped it, or an empty string."""
    if budget.exhausted() or not unfinished_cells(arm.cells):
        return ""
    try:
        run_comparison(
            arm.order,
            arm.folder,
            at_once=at_once,
            silent=silent,
            resume=given.resume_command,
            title=f"{arm.title} ({given.arms.index(arm) + 1} of {len(given.arms)})",
            group=f"sweep {given.out.resolve().name}",
            listener=lambda cell, row: budget.record(cell, row.footer.usage),
            should_stop=lambda: bool(budget.exhausted()),
        )
    except Fault as fault:
        return f"{arm.title}: {fault}"
    return ""


def _explain_stop(given: PreparedSweep, reason: str, runs: int) -> str:
    condition = "" if reason.endswith("over") else f"give a larger `most` in {given.file} and "
    return f"{reason}: {format_count(runs, 'run')} left; {condition}resume with: {given.resume_command}"


# The findings of a sweep so far, by benchmark.


class BenchmarkFindings(NamedTuple):
    """Results on one benchmark: the comparison so far, the planned number of runs, and the path of the HTML page.

    Paths are relative to the sweep's folder.
    """

    title: str
    comparison: Comparison
    runs: int
    page: str
    folders: dict[str, str]
    """Folders of the runs, by run id."""
    counted: dict[str, list[ComparisonRow]]
    """The runs that the statistics are about, by method."""

    @property
    def left(self) -> int:
        """Number of runs that have no ending yet or ended in an error."""
        return self.comparison.left


class SweepEffect(NamedTuple):
    """Effect of swapped operators on one benchmark: score of the variant minus score of the unchanged graph."""

    benchmark: str
    difference: Difference


class SweepFindings(NamedTuple):
    """Results of a sweep: statistics by benchmark, effects of swapped operators, cost, and what is missing.

    `left_out` has messages about combinations of graph and operators that are not run, `stopped` the reasons why runs
    are unfinished, and `spent` the cost of all runs, including failed ones.
    """

    model: str
    methods: tuple[str, ...]
    benchmarks: tuple[BenchmarkFindings, ...]
    effects: tuple[SweepEffect, ...]
    left_out: tuple[str, ...]
    stopped: tuple[str, ...]
    spent: SweepUsage
    out: Path

    @property
    def left(self) -> int:
        """Number of unfinished runs. If there are any, the statistics cover only part of the tasks."""
        return sum(found.left for found in self.benchmarks)

    def of(self, method: str) -> list[MethodSummary]:
        """Return the statistics of a method, one summary per benchmark."""
        summaries = (summary for findings in self.benchmarks for summary in findings.comparison.methods)
        return [summary for summary in summaries if summary.method == method]


def findings_of(given: PreparedSweep, stopped: Sequence[str] = ()) -> SweepFindings:
    """Compute the results of a sweep so far, and write the report of every comparison.

    `stopped` are the reasons why runs are unfinished, from `run_sweep`.
    """
    budget = TotalBudget(given.sweep.most, ())
    by_benchmark = tuple(_findings_of_arm(given, arm, budget) for arm in given.arms)
    effects = [
        effect
        for arm, findings in zip(given.arms, by_benchmark, strict=True)
        for effect in _effects_on_benchmark(arm, findings)
    ]
    adjusted = adjust_family([effect.difference for effect in effects])
    plan = given.arms[0].order.plan
    return SweepFindings(
        model=plan.outline.model,
        methods=tuple(method.name for method in plan.methods),
        benchmarks=by_benchmark,
        effects=tuple(one._replace(difference=found) for one, found in zip(effects, adjusted, strict=True)),
        left_out=given.left_out,
        stopped=tuple(stopped),
        spent=budget.spent(),
        out=given.out,
    )


def _findings_of_arm(given: PreparedSweep, arm: SweepArm, budget: TotalBudget) -> BenchmarkFindings:
    comparison = write_comparison_report(arm.order.plan, arm.folder).comparison
    ended = {row.run: row for row in comparison.rows}
    folders: dict[str, str] = {}
    for cell in arm.cells:
        if run := cell.run_folder:
            folders[run.name] = os.path.relpath(run, given.out)
            if row := ended.get(run.name):
                tokens = row.prompt_tokens + row.output_tokens
                budget.by_run[cell.folder] = SweepUsage(usd=row.usd, tokens=tokens, calls=row.calls)
            elif trajectory := read_cell_trajectory(cell):  # cut off
                budget.record(cell, trajectory.usage)
    page = os.path.relpath(arm.folder / COMPARISON_PAGE, given.out)
    counted = shared_rows(arm.order.plan.outline, comparison.rows)
    return BenchmarkFindings(arm.title, comparison, len(arm.cells), page, folders, counted)


def _effects_on_benchmark(arm: SweepArm, findings: BenchmarkFindings) -> Iterator[SweepEffect]:
    """Compute the effect of each variant of a graph that the sweep has unchanged too, over the tasks that all share."""
    plan = arm.order.plan
    scores = {name: scores_of(rows) for name, rows in findings.counted.items()}
    plain = {method.graph: method for method in plan.methods if not swaps_of(method.graph, method.operators)}
    for variant in plan.methods:
        unchanged = plain.get(variant.graph, variant)
        if variant is not unchanged:
            names = variant.name, unchanged.name
            difference = compute_difference(*names, scores[variant.name], scores[unchanged.name])
            yield SweepEffect(arm.title, add_faults(difference, findings.comparison.rows))


# The table of a sweep as text, for the terminal and the page: one row per method, one column per benchmark.

COST_COLUMNS = ("endings", "faults", "calls", "tokens", "usd")
"""Columns of the table that follow those of the benchmarks; they are over all benchmarks together."""
EFFECT_COLUMNS = ("benchmark", *DIFFERENCE_COLUMNS)


def terminal_tables(findings: SweepFindings) -> Iterator[Table]:
    """Yield the tables of a sweep for a terminal: scores, and effects of swapped operators."""
    headings = (f"{found.title}, n={found.comparison.n}" for found in findings.benchmarks)
    by_method = {method: findings.of(method) for method in findings.methods}
    scores = {
        method: [format_estimate(s.score, s.low, s.high) if s.n else MISSING_VALUE for s in found]
        for method, found in by_method.items()
    }
    lines = [(method, *scores[method], *format_costs(found)) for method, found in by_method.items()]
    yield terminal_table(("method", *headings, *COST_COLUMNS), lines)
    if findings.effects:
        yield terminal_table(EFFECT_COLUMNS, map(effect_cells, findings.effects))


def endings_of(summaries: Sequence[MethodSummary]) -> Counter[str]:
    """Count the runs of several summaries by ending, the most frequent first."""
    counts = sum((Counter(summary.endings) for summary in summaries), Counter[str]())
    return Counter(dict(counts.most_common()))


def format_costs(summaries: Sequence[MethodSummary]) -> tuple[str, ...]:
    """Format endings, faults, calls, tokens and dollars of a method's runs, in the order of COST_COLUMNS."""
    confirmed = sum(summary.goals.confirmed for summary in summaries)
    notes = {GOAL: f" ({confirmed} confirmed)"}
    endings = ", ".join(f"{ending} {count}{notes.get(ending, '')}" for ending, count in endings_of(summaries).items())
    faults = format_fault_share(
        sum(summary.faults for summary in summaries), sum(summary.begun for summary in summaries)
    )
    calls = sum(summary.calls for summary in summaries)
    tokens = sum(summary.prompt_tokens + summary.output_tokens for summary in summaries)
    usage = f"{calls:,}", format_compact(tokens), format_dollars(sum(summary.usd for summary in summaries))
    return endings or MISSING_VALUE, faults, *usage


def format_dollars(amount: float) -> str:
    """Format an amount of US dollars: two decimals, or four below 1."""
    return "0" if not amount else f"{amount:.4f}" if amount < 1 else f"{amount:,.2f}"


def effect_cells(effect: SweepEffect) -> tuple[str, ...]:
    """Format an effect of swapped operators as table cells, in the order of EFFECT_COLUMNS."""
    return effect.benchmark, *difference_cells(effect.difference)


def format_scope(findings: SweepFindings) -> str:
    """Format the scope of a sweep: number of methods and benchmarks, model, and number of unfinished runs."""
    runs = sum(found.runs for found in findings.benchmarks)
    part = "" if not findings.left else f"; partial: {findings.left} of {format_count(runs, 'run')} are still to be run"
    size = f"{format_count(len(findings.methods), 'method')} on {format_count(len(findings.benchmarks), 'benchmark')}"
    return f"{size}, {findings.model}{format_model_note(findings.model.split(MODEL_SEPARATOR))}{part}"


# The files for other programs: `sweep.json`, `sweep.csv`, `effects.csv` and `rows.csv`.


def to_json(findings: SweepFindings) -> dict[str, Any]:
    """Convert the results of a sweep to one JSON object; folders are relative to the sweep's folder."""
    return {
        "model": findings.model,
        "methods": list(findings.methods),
        "partial": bool(findings.left),
        "left": findings.left,
        "left_out": list(findings.left_out),
        "stopped": list(findings.stopped),
        "spent": findings.spent.model_dump(),
        "benchmarks": [
            {
                "name": found.title,
                "runs": found.runs,
                "left": found.left,
                "page": found.page,
                **found.comparison.model_dump(mode="json", exclude={"rows"}),
                "rows": [
                    {**row.model_dump(mode="json"), "folder": found.folders[row.run]} for row in found.comparison.rows
                ],
            }
            for found in findings.benchmarks
        ],
        "effects": [
            {"benchmark": benchmark, **difference.model_dump(mode="json"), "words": difference.words}
            for benchmark, difference in findings.effects
        ],
    }


def write_files(findings: SweepFindings) -> None:
    """Write `sweep.json` with all results of a sweep, and CSV files.

    `sweep.csv` has a row per method and benchmark, `effects.csv` a row per effect of swapped operators, and `rows.csv`
    a row per run with its folder.
    """
    content = to_json(findings)
    replace_text(findings.out / "sweep.json", json.dumps(content, indent=1, ensure_ascii=False))
    methods = (
        {"benchmark": found.title, **flatten_record(summary.model_dump(mode="json"))}
        for found in findings.benchmarks
        for summary in found.comparison.methods
    )
    runs = (
        {"benchmark": found.title, **flatten_record(row.model_dump(mode="json")), "folder": found.folders[row.run]}
        for found in findings.benchmarks
        for row in found.comparison.rows
    )
    write_csv(findings.out / "sweep.csv", [*methods])
    write_csv(findings.out / "effects.csv", content["effects"])
    write_csv(findings.out / "rows.csv", [*runs])
