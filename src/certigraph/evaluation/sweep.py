"""Sweeps from a YAML file: graphs x operators x benchmarks.

A sweep is a loop over comparisons, one for each benchmark, with a limit for all runs together. It adds a page with
links to the comparisons, a table of their scores, and the effects of exchanged operators.
"""

import json
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

import typer
import yaml
from pydantic import BeforeValidator, Field, ValidationError
from rich.console import Console

from certigraph.adapters.benchmarks import is_own
from certigraph.adapters.extras import TABLE_PACKAGES, check_evaluation_packages
from certigraph.adapters.faults import Faults
from certigraph.adapters.files import replace_text
from certigraph.adapters.protocols import Budget
from certigraph.evaluation.compare import ComparisonJob, build_job, run_comparison
from certigraph.evaluation.comparison import (
    COMPARISON_PAGE,
    MODEL_SEPARATOR,
    PLAN_FILE,
    Choice,
    ComparedMethod,
    ComparisonCell,
    build_method,
    cells_of,
    lock_folder,
    read_cell_trajectory,
    read_plan,
    save_or_check_plan,
    unfinished_cells,
)
from certigraph.evaluation.comparison_report import flatten_record, plan_facts, write_comparison_report
from certigraph.evaluation.comparison_summary import (
    Comparison,
    Difference,
    add_faults,
    adjust_family,
    compute_difference,
    shared_rows,
)
from certigraph.evaluation.measures import MISSING_VALUE, values_by_task
from certigraph.evaluation.progress_display import format_work
from certigraph.evaluation.result_tables import DIFFERENCE_COLUMNS, format_model_note, print_comparison
from certigraph.evaluation.tables import (
    FittedTable,
    LinkedCell,
    TableCells,
    format_cell,
    format_estimate,
    print_report_path,
    table_console,
    table_of,
    write_csv,
    write_page,
)
from certigraph.evaluation.workers import HERE, WorkerOptions, run_slots
from certigraph.runtime.files import check_output_folder, find_trajectories
from certigraph.runtime.registry import GRAPHS, check_priced, create_context, graph_slots
from certigraph.runtime.texts import format_count
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record, Spent, Usage

# The file.

Name = Annotated[str, Field(min_length=1)]


class TaskSelection(Record):
    """Selection of a benchmark's tasks: by ids, or by a split and a number of tasks."""

    tasks: tuple[Name, ...] = ()
    split: str = ""
    limit: int = Field(default=0, ge=0)
    """Number of tasks, from the start of the split; 0: all."""
    stratify: bool = False
    """Choose the `limit` tasks evenly over difficulty and length, and not from the start of the split."""


class SweepBenchmark(TaskSelection):
    """One benchmark of a sweep. If it omits keys of the task selection, those at the top level of the file apply."""

    name: Name
    label: str = ""
    """Name of the benchmark in tables. With different labels a sweep can have the same benchmark twice."""

    @property
    def title(self) -> str:
        """The label of the benchmark, or its name if it has no label."""
        return self.label or self.name

    @property
    def folder(self) -> str:
        """Name of the folder that holds the comparison on the benchmark."""
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in self.title)
        return name[:80].strip("-") or "benchmark"


class TotalLimits(Record):
    """Total budget of a sweep.

    When a limit is reached no more runs are started; executing runs continue to their end.
    """

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars; an error if the price of a model is not known."""
    tokens: int | None = Field(default=None, gt=0)
    """Input and output tokens together."""
    calls: int | None = Field(default=None, gt=0)
    hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Wall-clock hours since the sweep was started or resumed; a resumed sweep has this number of hours again."""

    def __str__(self) -> str:
        """Format as `20 usd, 3 hours`, or `no limit`."""
        return ", ".join(f"{value:,.12g} {kind}" for kind, value in self.as_json().items()) or "no limit"


def _to_case(given: Any) -> Any:
    return {"name": given} if isinstance(given, str) else given


class Sweep(TaskSelection):
    """Content of a sweep file, which describes graphs and operator variants to run on benchmarks.

    When a sweep is resumed, only `most` and `at_once` may have changed, and benchmarks may have been added.

    Each of `operators` is a variant, slot -> operator; `{}` is the unchanged graph. `budget` has the limits of a run
    and of the graph's method, with the keys of `--budget`.
    """

    benchmarks: tuple[Annotated[SweepBenchmark, BeforeValidator(_to_case)], ...] = Field(min_length=1, max_length=100)
    graphs: tuple[Name, ...] = Field(min_length=1, max_length=100)
    operators: tuple[dict[str, Name], ...] = Field(default=({},), min_length=1, max_length=100)
    model: Name = "scripted:expert"
    roles: dict[str, Name] = Field(default_factory=dict)
    trials: int = Field(default=1, ge=1, le=1_000)
    budget: dict[str, float] = Field(default_factory=dict)
    most: TotalLimits = TotalLimits()
    at_once: int = Field(default=1, ge=1, le=1_000)
    """Number of concurrent runs."""
    data: Name | None = None
    """Data folder. Like `cache`, a relative path is relative to the folder of the file."""
    cache: Name | None = None
    window: int = Field(default=0, ge=0)
    faults: str = ""
    checkpoints: Literal["", "postgres"] = ""

    def choice_of(self, case: SweepBenchmark) -> Choice:
        """Return the tasks of a benchmark: by its own keys, and by the file's top-level keys for the others."""
        keys = {key: getattr(case if key in case.model_fields_set else self, key) for key in TaskSelection.model_fields}
        return Choice(ids=keys.pop("tasks"), trials=self.trials, **keys)


MAX_FILE_BYTES = 256 * 1024
"""Maximum size of a file in bytes."""

MAX_MISTAKES = 5
"""Maximum number of mistakes in one message."""


class SweepLoader(yaml.BaseLoader):
    """YAML loader that leaves scalars as texts: `4-0`, `1:30` and `no` are ids of tasks here.

    It refuses aliases, by which a small file can grow without bound, and keys that are given twice.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node, which may not be an alias."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not read", problem_mark=event.start_mark)  # type: ignore[arg-type]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Construct a dictionary, whose keys must differ."""
        keys = [str(key.value) for key, _ in node.value]
        if twice := next((key for n, key in enumerate(keys) if key in keys[:n]), None):
            raise yaml.MarkedYAMLError(problem=f"the key {twice!r} is given twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def read_sweep(file: Path) -> Sweep:
    """Read a sweep from a YAML file.

    Raises:
        Fault: the file is missing, too large, or not a sweep; the message has the place of each mistake.
    """
    if not file.is_file():
        lines = "graphs: [sdp] and benchmarks: [NAME]"
        raise Fault("data", f"there is no file {file}: certigraph sweep needs one with at least the lines {lines}")
    if (size := file.stat().st_size) > MAX_FILE_BYTES:
        raise Fault("data", f"{file} has {size:,} bytes; a sweep's file has at most {MAX_FILE_BYTES:,}")
    try:
        sweep = Sweep.model_validate(yaml.load(file.read_bytes(), SweepLoader) or {})
    except (yaml.YAMLError, RecursionError) as error:
        raise Fault("data", f"{file} cannot be read as YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        mistakes = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:MAX_MISTAKES]]
        raise Fault("data", f"{file}: {'; '.join(mistakes)}") from error
    named = {
        "benchmarks": [case.folder.lower() for case in sweep.benchmarks],
        "graphs": sweep.graphs,
        "operators": [str(sorted(variant.items())) for variant in sweep.operators],
    }
    for key, names in named.items():
        if len(set(names)) < len(names):
            raise Fault("data", f"{file}: one of `{key}` is given twice: keep one, or give a benchmark a `label`")
    return sweep


# Graphs x variants as methods, and a comparison for each benchmark.


def expand_sweep(sweep: Sweep, *, import_own: bool = True) -> tuple[list[ComparedMethod], list[str]]:
    """Combine every graph of a sweep with every variant whose slots the graph has.

    Args:
        sweep: content of the file.
        import_own: whether operators and graphs named `module:attribute` are imported; otherwise their names are not
            checked, and such a graph is assumed to have the slots of every variant.

    Returns:
        The methods, and messages about the combinations of graph and operators that are left out.

    Raises:
        UnknownName: a graph, slot or operator is unknown, or no graph has the slots of a variant.
    """
    every = [slot for variant in sweep.operators for slot in variant]
    slots = {graph: graph_slots(graph) if import_own or graph in GRAPHS else every for graph in sweep.graphs}
    methods: list[ComparedMethod] = []
    left_out: list[str] = []
    for variant in sweep.operators:
        label = "+".join(f"{slot}={operator}" for slot, operator in variant.items())
        missing = {graph: ", ".join(slot for slot in variant if slot not in slots[graph]) for graph in slots}
        if all(missing.values()):
            known = "; ".join(f"{graph}: {', '.join(names)}" for graph, names in slots.items())
            raise UnknownName(f"no graph of the sweep has the slots of {label}; {known}")
        if unfit := ", ".join(f"{graph} (no slot {names})" for graph, names in missing.items() if names):
            left_out.append(f"{label} is not run in {unfit}")
    for graph, variant in product(slots, sweep.operators):
        if not set(variant) <= set(slots[graph]):
            continue
        swaps = [f"{slot}={operator}" for slot, operator in variant.items()]
        name = " ".join(filter(None, (graph, "+".join(swaps))))
        method = build_method(name, graph, swaps, import_own=import_own)
        same = [m for m in methods if (m.graph, m.operators) == (method.graph, method.operators)]
        if same:
            left_out.append(f"{name} has the operators of {same[0].name}: run once")
        else:
            methods.append(method)
    return methods, left_out


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

    @property
    def cells(self) -> list[ComparisonCell]:
        """The cells of all comparisons."""
        return [cell for arm in self.arms for cell in arm.cells]


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
        UnknownName: a name in the file is unknown, or a benchmark is a user's own and `import_own` is false.
    """
    check_evaluation_packages("sweeps", *TABLE_PACKAGES)
    sweep = read_sweep(file)
    Faults.read(sweep.faults)
    if sweep.most.usd is not None:
        check_priced({sweep.model, *sweep.roles.values()}, Budget(usd=sweep.most.usd))
    methods, left_out = expand_sweep(sweep, import_own=import_own)
    out = out or Path(file.stem)
    check_output_folder(out)
    roles = [f"{role}={model}" for role, model in sweep.roles.items()]
    budget = [f"{key}={value:.12g}" for key, value in sweep.budget.items()]
    folder = file.resolve().parent
    data, cache = (str(folder / Path(path).expanduser()) if path else None for path in (sweep.data, sweep.cache))
    arms = []
    for case in sweep.benchmarks:
        if not import_own and is_own(case.name):
            reason = f"{case.name} is a benchmark of your own, whose tasks and limits are in code that is not imported"
            raise UnknownName(f"{reason}: start the sweep without --dry-run")
        context = create_context(sweep.model, roles, data, budget, case.name, cache, sweep.window)
        context = context.model_copy(update={"faults": sweep.faults, "checkpoints": sweep.checkpoints})
        order = build_job(methods, case.name, sweep.choice_of(case), context).with_prompts(keep_prompts)
        arms.append(SweepArm(case.title, order, out / case.folder))
    return PreparedSweep(file, sweep, tuple(arms), tuple(left_out), out, workers)


# The total budget of a sweep.


SPENT_KINDS = ("usd", "tokens", "calls")
"""What a sweep says about its cost, by fields of `Spent`."""


class TotalBudget:
    """Total budget of a sweep, to which the cost of each run is added when the run ends.

    Runs that are executing when the total budget is used up continue. It can be exceeded by at most their own budgets.

    Args:
        limits: the limits of the total budget.
        cells: all cells (runs) of the sweep; the cost of runs that were executed earlier is counted.
    """

    def __init__(self, limits: TotalLimits, cells: Iterable[ComparisonCell]) -> None:
        self.limits, self.started = limits, time.monotonic()
        runs = ((cell, read_cell_trajectory(cell)) for cell in cells)
        self.by_run = {cell.folder: trajectory.usage for cell, trajectory in runs if trajectory}

    def record(self, cell: ComparisonCell, used: Usage) -> None:
        """Record the cost of a cell's run, in place of the cost recorded earlier."""
        self.by_run[cell.folder] = used

    def spent(self) -> Spent:
        """Return the cost of all runs so far, including work that was repeated after a crash."""
        return sum((run.spent() for run in self.by_run.values()), Spent())

    def exhausted(self) -> str:
        """Return a message that names the limit that is reached; empty if no limit is reached."""
        spent = {**dict(self.spent()), "hours": (time.monotonic() - self.started) / 3_600}
        reached = (kind for kind, most in self.limits.as_json().items() if spent[kind] >= most)
        if kind := next(reached, ""):
            return f"{spent[kind]:,.6g} of {getattr(self.limits, kind):,.12g} {kind} are spent"
        return ""


# Execution, comparison by comparison. A sweep may be interrupted or killed at any time and started again.


def run_sweep(given: PreparedSweep, *, silent: bool = False) -> list[str]:
    """Execute the unfinished runs of a sweep, one benchmark after another.

    A benchmark whose first runs all fail in the same way does not prevent the execution of the others.

    Returns:
        The reasons why runs are unfinished; empty if all are finished.

    Raises:
        Fault: the folder was started with another file, another process is using it, or there is no such cluster.
        Interrupted: by Ctrl-C; the message has the command that resumes the sweep.
    """
    sweep, stopped = given.sweep, list[str]()
    with lock_folder(given.out):
        write_plans(given)
        budget = TotalBudget(sweep.most, given.cells if sweep.most != TotalLimits() else ())
        needed = given.waiting and not budget.exhausted()
        slots = run_slots(given.workers if needed else HERE, sweep.model, sweep.at_once if sweep.at_once > 1 else None)
        with slots as concurrent:
            for number, arm in enumerate(given.arms, 1):
                if budget.exhausted() or not unfinished_cells(arm.cells):
                    continue
                try:
                    run_comparison(
                        arm.order,
                        arm.folder,
                        at_once=concurrent or 1,
                        silent=silent,
                        resume=given.resume_command,
                        title=f"{arm.title} ({number} of {len(given.arms)})",
                        group=f"sweep {given.out.resolve().name}",
                        listener=lambda cell, row: budget.record(cell, row.footer.usage),
                        should_stop=lambda: bool(budget.exhausted()),
                    )
                except Fault as fault:
                    stopped.append(f"{arm.title}: {fault}")
        if (reason := budget.exhausted()) and (runs := given.waiting):
            fix = f"raise `most` in {given.file} and resume with: {given.resume_command}"
            stopped.insert(0, f"{reason}: {format_count(runs, 'run')} left; {fix}")
    return stopped


def comparison_folders(out: Path) -> set[Path]:
    """Return the folders of the comparisons that a sweep has started, one per benchmark."""
    return {path.parent for path in out.glob(f"*/{PLAN_FILE}")}


def write_plans(given: PreparedSweep) -> None:
    """Write the plan of every comparison, or check that the folder was started with the same plans.

    A benchmark may be added to a sweep; with any other change the runs of one table would not be comparable.

    Raises:
        Fault: ("data") the folder has runs of other plans.
    """
    started = {folder for folder in comparison_folders(given.out) if find_trajectories(folder)}
    if removed := sorted(path.name for path in started - {arm.folder for arm in given.arms}):
        fix = "restore the file, or start again with another --out"
        raise Fault("data", f"{given.out} has runs of {', '.join(removed)}, which are not in {given.file}: {fix}")
    for arm in given.arms:
        save_or_check_plan(arm.order.plan, arm.folder, given.resume_command)


# The findings of a sweep so far.


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
    spent: Spent
    out: Path

    @property
    def left(self) -> int:
        """Number of unfinished runs. If there are any, the statistics cover only part of the tasks."""
        return sum(found.left for found in self.benchmarks)

    @property
    def scope(self) -> str:
        """The number of methods and benchmarks, the model, and the number of unfinished runs, on one line."""
        runs, size = sum(found.runs for found in self.benchmarks), format_count(len(self.methods), "method")
        size += f" on {format_count(len(self.benchmarks), 'benchmark')}"
        part = f"; partial: {self.left} of {format_count(runs, 'run')} are still to be run" if self.left else ""
        return f"{size}, {self.model}{format_model_note(self.model.split(MODEL_SEPARATOR))}{part}"


def findings_of(given: PreparedSweep, stopped: Sequence[str] = ()) -> SweepFindings:
    """Compute the results of a sweep so far, and write the report of every comparison.

    `stopped` are the reasons why runs are unfinished, from `run_sweep`.
    """
    benchmarks, effects = [], list[SweepEffect]()
    for arm in given.arms:
        comparison = write_comparison_report(arm.order.plan, arm.folder).comparison
        folders = {run.name: os.path.relpath(run, given.out) for cell in arm.cells if (run := cell.run_folder)}
        page = os.path.relpath(arm.folder / COMPARISON_PAGE, given.out)
        benchmarks.append(BenchmarkFindings(arm.title, comparison, len(arm.cells), page, folders))
        plan = arm.order.plan
        scores = {name: values_by_task(rows) for name, rows in shared_rows(plan.outline, comparison.rows).items()}
        plain = {method.graph: method.name for method in plan.methods if not method.swaps}
        for variant in plan.methods:  # each variant of a graph that the sweep has unchanged too
            unchanged = plain.get(variant.graph, variant.name)
            if variant.name != unchanged:
                difference = compute_difference(variant.name, unchanged, scores[variant.name], scores[unchanged])
                effects.append(SweepEffect(arm.title, add_faults(difference, comparison.rows)))
    adjusted = adjust_family([effect.difference for effect in effects])
    plan = given.arms[0].order.plan
    return SweepFindings(
        model=plan.outline.model,
        methods=tuple(method.name for method in plan.methods),
        benchmarks=tuple(benchmarks),
        effects=tuple(one._replace(difference=found) for one, found in zip(effects, adjusted, strict=True)),
        left_out=given.left_out,
        stopped=tuple(stopped),
        spent=TotalBudget(given.sweep.most, given.cells).spent(),
        out=given.out,
    )


# What is printed and written.

SWEEP_PAGE = "sweep.html"

COSTS = {"calls": "calls", "prompt_tokens": "prompt tokens", "output_tokens": "output tokens"}
"""Costs of a method that the page sums up over the benchmarks, with their headings."""


def effect_table(effects: Sequence[SweepEffect]) -> TableCells:
    """Return the headings and rows of the table of effects."""
    heads, lines = table_of(DIFFERENCE_COLUMNS, [effect.difference for effect in effects])
    return ("benchmark", *heads), [(one.benchmark, *line) for one, line in zip(effects, lines, strict=True)]


def print_findings(findings: SweepFindings, *, as_json: bool) -> None:
    """Print the comparison on each benchmark and the effects of swapped operators, or one JSON object."""
    if as_json:
        typer.echo(json.dumps(to_json(findings), ensure_ascii=False))
        return
    console = table_console()
    console.print(findings.scope, markup=False)
    for found in findings.benchmarks:
        console.rule(found.title, align="left", style="dim")
        print_comparison(found.comparison)
    if findings.effects:
        console.print("", FittedTable(*effect_table(findings.effects)), sep="\n")
    for line in findings.stopped:
        console.print(f"\n{line}", style="yellow", markup=False, soft_wrap=True)
    print_report_path(findings.out / SWEEP_PAGE)


def to_json(findings: SweepFindings) -> dict[str, Any]:
    """Convert the results of a sweep to one JSON object; folders are relative to the sweep's folder."""
    return {
        "model": findings.model,
        "methods": list(findings.methods),
        "partial": bool(findings.left),
        "left": findings.left,
        "left_out": list(findings.left_out),
        "stopped": list(findings.stopped),
        "spent": {kind: getattr(findings.spent, kind) for kind in SPENT_KINDS},
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


def write_report(given: PreparedSweep, stopped: Sequence[str] = ()) -> SweepFindings:
    """Write the report of a sweep, which need not be finished, and return its results.

    Writes `sweep.html`, `sweep.json`, `sweep.csv` (a row per method and benchmark), `effects.csv` (a row per effect of
    swapped operators) and `rows.csv` (a row per run, with its folder), and the report of each comparison in its folder.
    """
    findings = findings_of(given, stopped)
    content = to_json(findings)
    replace_text(findings.out / "sweep.json", json.dumps(content, indent=1, ensure_ascii=False))
    for file, kind in (("sweep.csv", "methods"), ("rows.csv", "rows")):
        parts = [(part["name"], record) for part in content["benchmarks"] for record in part[kind]]
        write_csv(findings.out / file, [{"benchmark": name, **flatten_record(record)} for name, record in parts])
    write_csv(findings.out / "effects.csv", content["effects"])
    left = [f"Partial: {format_count(findings.left, 'run')} left."] if findings.left else []
    variants = format_count(len(given.sweep.operators), "variant")
    heads: list[str | LinkedCell] = ["method"]
    lines = [[method] for method in findings.methods]
    for found in findings.benchmarks:
        n, planned = found.comparison.n, found.comparison.planned
        size = f"n={n} of {planned}" if n < planned else f"n={n}"
        heads.append(LinkedCell(f"{found.title}, {size}", quote(found.page)))
        for line, one in zip(lines, found.comparison.methods, strict=True):
            line.append(format_estimate(one.score, one.low, one.high) if one.n else MISSING_VALUE)
    for line, *parts in zip(lines, *(found.comparison.methods for found in findings.benchmarks), strict=True):
        line += [format_cell(sum(getattr(one, name) for one in parts)) for name in COSTS]
    write_page(
        given.out / SWEEP_PAGE,
        "sweep.html",
        title=f"{' · '.join(given.sweep.graphs)}, in {variants}, on {' · '.join(arm.title for arm in given.arms)}",
        scope=findings.scope,
        notices=[*(findings.stopped or left), *findings.left_out],
        heads=[*heads, *COSTS.values()],
        lines=lines,
        effects=effect_table(findings.effects),
        facts=plan_facts(
            read_plan(given.arms[0].folder),
            **{"all runs together": str(given.sweep.most)},
            spent=", ".join(f"{format_cell(getattr(findings.spent, kind))} {kind}" for kind in SPENT_KINDS),
            faults=given.sweep.faults or "none",
        ),
    )
    return findings


def sweep(
    file: Path | str,
    out: Path | str | None = None,
    *,
    ray: str | None = None,
    workers: int | None = None,
    keep_prompts: bool = False,
    silent: bool = True,
) -> SweepFindings:
    """Run all combinations of graphs, operators and benchmarks that a YAML file names, and write the report.

    A sweep that was stopped resumes when it is started again; finished runs are not repeated.

    Args:
        file: the YAML file; `Sweep` describes its keys.
        out: the sweep's folder; None: the file's name without its suffix.
        ray: address of a Ray cluster whose workers execute the runs, as in `evaluate`.
        workers: number of processes that execute the runs, as in `evaluate`.
        keep_prompts: whether each run keeps its prompts and replies in its folder, as in `certigraph.run`.
        silent: do not show the progress on stderr.

    Returns:
        The results: `left` is the number of unfinished runs, and `stopped` has the reasons why they are unfinished.

    Raises:
        UnknownName: a name in the file is unknown; the message lists the known ones.
        Fault: the file is unusable, the folder was started with another file, or another process is using it.
        Interrupted: by Ctrl-C; the message has the command that resumes the sweep.
    """
    folder = Path(out) if out is not None else None
    given = prepare_sweep(Path(file), folder, WorkerOptions(workers, ray), keep_prompts=keep_prompts)
    return write_report(given, run_sweep(given, silent=silent))


def run_command(
    file: Path,
    out: Path | None,
    workers: WorkerOptions = HERE,
    *,
    keep_prompts: bool = False,
    report_only: bool,
    as_json: bool,
) -> int:
    """Execute the unfinished runs of a sweep (not with `report_only`), and write and print the report.

    Returns:
        The exit status: 1 while runs are left, else 0.
    """
    given = prepare_sweep(file, out, workers, keep_prompts=keep_prompts)
    if report_only and not comparison_folders(given.out):
        raise Fault("data", f"{given.out} holds no sweep: start it with {given.resume_command}")
    if report_only:
        write_plans(given)
    findings = write_report(given, [] if report_only else run_sweep(given, silent=as_json))
    print_findings(findings, as_json=as_json)
    return 1 if findings.left else 0


def print_forecast(file: Path, out: Path | None, *, as_json: bool) -> None:
    """Print what a sweep would run. Nothing is executed, and no user's code is imported."""
    given = prepare_sweep(file, out, import_own=False)
    methods, most = [method.name for method in given.arms[0].order.plan.methods], given.sweep.most.as_json()
    if as_json:
        benchmarks = [
            {
                "name": arm.title,
                "tasks": list(arm.order.plan.tasks),
                "runs": len(arm.cells),
                "left": len(unfinished_cells(arm.cells)),
            }
            for arm in given.arms
        ]
        forecast = {"methods": methods, "left_out": list(given.left_out), "benchmarks": benchmarks, "most": most}
        typer.echo(json.dumps(forecast, ensure_ascii=False))
        return
    work = []
    for arm in given.arms:
        plan, waiting = arm.order.plan, len(unfinished_cells(arm.cells))
        sizes = {"method": len(plan.methods), "task": len(plan.tasks), "trial": plan.trials}
        work.append(format_work(arm.title, plan.model, plan.roles, sizes, waiting, plan.budget.calls))
    lines = [f"methods: {', '.join(methods)}", *given.left_out, *work, f"all runs together: {given.sweep.most}"]
    Console(highlight=False, soft_wrap=True).print(*lines, sep="\n", markup=False)
