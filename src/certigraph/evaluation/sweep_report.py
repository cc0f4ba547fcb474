"""Report of a sweep, which runs graphs with variants of their operators on several benchmarks.

`sweep` executes a sweep from Python; `run_command` and `print_forecast` implement the command `certigraph sweep`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import typer
from markupsafe import Markup
from matplotlib.figure import Figure
from rich.console import Console

from certigraph.adapters.models.chat_models import is_scripted
from certigraph.evaluation.comparison import ComparedMethod, read_plan, unfinished_cells
from certigraph.evaluation.comparison_report import plan_facts
from certigraph.evaluation.comparison_summary import MethodSummary
from certigraph.evaluation.measures import MISSING_VALUE, ComparisonRow
from certigraph.evaluation.plots import GREY, add_panels, chart_style, save_drawing, series_colour
from certigraph.evaluation.sweep import (
    EFFECT_COLUMNS,
    BenchmarkFindings,
    PreparedSweep,
    SweepFindings,
    check_unchanged,
    comparison_folders,
    effect_cells,
    findings_of,
    format_costs,
    format_dollars,
    format_scope,
    prepare_sweep,
    run_sweep,
    terminal_tables,
    to_json,
    write_files,
    write_plans,
)
from certigraph.evaluation.tables import print_report_path, table_console, write_page
from certigraph.evaluation.workers import HERE, WorkerOptions
from certigraph.runtime.pages import Total
from certigraph.runtime.registry import swaps_of
from certigraph.runtime.result import is_goal_denied
from certigraph.runtime.texts import clip_text, format_compact, format_count
from certigraph.state.endings import EXHAUSTED, GAVE_UP, GOAL, WORLD_ENDED, Fault

# The figure: a panel per benchmark, a dot with its interval per method, the methods of one graph together.

MAX_COLUMNS = 4
FIGURE_WIDTH, ROW_HEIGHT, PANEL_MARGIN = 12.0, 0.25, 0.95
"""Sizes in inches: width of the figure, height of a method's row, height of a panel without its rows."""

GRAPH_GAP = 0.6
"""Gap between the methods of two graphs, in rows."""

MAX_LABEL_CHARACTERS = 44
"""Maximum number of characters of a label; the table has the complete name."""


class PlotRow(NamedTuple):
    """Row of a method in every panel: its position `y`, colour `ink`, and whether it is the unchanged graph (`own`)."""

    name: str
    graph: str
    label: str
    y: float
    ink: str
    own: bool


def draw_scores(findings: SweepFindings, methods: Sequence[ComparedMethod]) -> Markup:
    """Draw the scores of all methods, write `scores.png` and `scores.svg`, and return the SVG element for the page."""
    with chart_style():
        return save_drawing(_figure(findings.benchmarks, plot_rows(methods)), findings.out / "scores")


def plot_rows(methods: Sequence[ComparedMethod]) -> list[PlotRow]:
    """Compute the row of each method in the figure, from top to bottom, with gaps between graphs."""
    graphs = list(dict.fromkeys(method.graph for method in methods))
    rows = []
    for index, method in enumerate(methods):
        number = graphs.index(method.graph)
        own = not swaps_of(method.graph, method.operators)
        label = clip_text(method.name if own else method.name.removeprefix(f"{method.graph} "), MAX_LABEL_CHARACTERS)
        rows.append(
            PlotRow(
                method.name,
                method.graph,
                label,
                index + GRAPH_GAP * number,
                series_colour(number),
                own,
            )
        )
    return rows


def _figure(benchmarks: Sequence[BenchmarkFindings], lines: Sequence[PlotRow]) -> Figure:
    columns = min(len(benchmarks), MAX_COLUMNS)
    rows = -(-len(benchmarks) // columns)
    height = rows * (ROW_HEIGHT * (lines[-1].y + 1) + PANEL_MARGIN)
    figure = Figure(figsize=(FIGURE_WIDTH, height), layout="constrained")
    for panel, findings in zip(add_panels(figure, len(benchmarks), columns, sharex=True), benchmarks, strict=True):
        _draw_panel(panel, findings, lines)
    return figure


def _draw_panel(panel: Any, findings: BenchmarkFindings, lines: Sequence[PlotRow]) -> None:
    by_name = {summary.method: summary for summary in findings.comparison.methods}
    for line in lines:
        _draw_dot(panel, by_name[line.name], line)
        _draw_reference(panel, by_name[line.name], line, lines)
    n = findings.comparison.n
    panel.set_title(f"{findings.title}, n={n}", loc="left", fontsize=9.5, color=GREY)
    panel.set_xlim(-3, 103)
    panel.set_ylim(lines[-1].y + 0.7, -0.7)
    panel.set_yticks([line.y for line in lines], [line.label for line in lines])
    panel.set_xlabel("score, 95 % interval")
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_visible(False)
    panel.grid(axis="x", color=GREY, alpha=0.18, linewidth=0.6)
    panel.set_axisbelow(True)


def _draw_reference(panel: Any, summary: MethodSummary, line: PlotRow, lines: Sequence[PlotRow]) -> None:
    # a dotted line from the unchanged graph down to its variants, to compare them with it
    last = max(other.y for other in lines if other.graph == line.graph)
    if line.own and summary.n and last > line.y:
        panel.plot([summary.score] * 2, [line.y, last], color=line.ink, linewidth=0.9, linestyle=":", zorder=2)


def _draw_dot(panel: Any, summary: MethodSummary, line: PlotRow) -> None:
    """Draw the score of a method: a filled dot for an unchanged graph, a hollow one for a variant.

    Nothing is drawn if no task is finished.
    """
    if not summary.n:
        return
    if summary.low is not None and summary.high is not None:
        panel.plot([summary.low, summary.high], [line.y] * 2, color=line.ink, alpha=0.45, linewidth=4)
    face = line.ink if line.own else "white"
    panel.plot(summary.score, line.y, "o", markersize=6.5, markerfacecolor=face, markeredgecolor=line.ink, zorder=3)


# The page: one self-contained HTML file.

SWEEP_PAGE = "sweep.html"

LOOKS = ("good", "idle", "bad")
"""CSS classes of runs, in the order in which a bar shows them; they have the colours of a run's page."""

FAILED_PREFIXES = (WORLD_ENDED, GAVE_UP, EXHAUSTED, "error:")
"""Beginnings of the endings of runs that failed, unless the score says that the task is solved."""


class RunLook(NamedTuple):
    """How a run is shown: its CSS class, and its ending with what the score says if that is something else."""

    look: str
    text: str


class SweepColumn(NamedTuple):
    """Column of a benchmark in the table of scores: its title, the link to its comparison, and its number of tasks."""

    title: str
    page: str
    size: str


class SweepRow(NamedTuple):
    """Row of a method in the table of scores."""

    method: str
    label: str
    own: bool
    """Whether the method is a graph as it is, and not a variant of it."""
    scores: Sequence[MethodSummary]
    endings: Mapping["RunLook", int]
    """Number of the runs that ended alike."""
    costs: Sequence[str]


def _write_sweep_page(given: PreparedSweep, findings: SweepFindings) -> None:
    methods = given.arms[0].order.plan.methods
    rows = [_sweep_row(findings, method) for method in methods]
    write_page(
        given.out / SWEEP_PAGE,
        "sweep.html",
        title=_title(given),
        scope=format_scope(findings),
        verdict=_verdict(findings),
        notices=_notices(findings),
        left_out="; ".join(findings.left_out),
        totals=_sweep_totals(findings),
        columns=[SweepColumn(one.title, quote(one.page), _format_size(one)) for one in findings.benchmarks],
        rows=rows,
        missing=MISSING_VALUE,
        endings=_in_order(chain.from_iterable(row.endings for row in rows)),
        drawing=draw_scores(findings, methods),
        effects=(EFFECT_COLUMNS, [effect_cells(effect) for effect in findings.effects]),
        facts=_sweep_facts(given),
    )


def _verdict(findings: SweepFindings) -> str:
    # the best methods of each benchmark
    parts = []
    for benchmark in findings.benchmarks:
        scored = [summary for summary in benchmark.comparison.methods if summary.n]
        if scored:
            best = max(summary.score for summary in scored)
            names = ", ".join(summary.method for summary in scored if summary.score == best)
            parts.append(f"{names} with {best:.1f} of 100 on {benchmark.title} ({format_count(scored[0].n, 'task')})")
    return f"Highest mean score: {'; '.join(parts)}." if parts else ""


def look_of_run(row: ComparisonRow) -> RunLook:
    """Return how a run is shown: green if its task is solved, whatever ended it, as on the page of the run."""
    denied = is_goal_denied(row.ending, row.verdict)
    if row.solved or (row.ending == GOAL and not denied):
        return RunLook("good", row.ending_words)
    return RunLook("bad" if denied or row.ending.startswith(FAILED_PREFIXES) else "idle", row.ending_words)


def _in_order(looks: Iterable[RunLook]) -> list[RunLook]:
    return sorted(dict.fromkeys(looks), key=lambda one: LOOKS.index(one.look))


def _title(given: PreparedSweep) -> str:
    sweep = given.sweep
    graphs, variants = " · ".join(sweep.graphs), format_count(len(sweep.operators), "variant")
    return f"{graphs}, in {variants}, on {' · '.join(arm.title for arm in given.arms)}"


def _notices(findings: SweepFindings) -> list[str]:
    # Why runs are unfinished, and warnings.
    left = [f"Partial: {format_count(findings.left, 'run')} left."] if findings.left else []
    warnings = [
        f"{benchmark.title}: {warning}"
        for benchmark in findings.benchmarks
        for warning in benchmark.comparison.warnings
    ]
    return [*(findings.stopped or left), *warnings]


def _sweep_row(findings: SweepFindings, method: ComparedMethod) -> SweepRow:
    summaries = findings.of(method.name)
    own = not swaps_of(method.graph, method.operators)
    label = method.name if own else method.name.removeprefix(f"{method.graph} ")
    _, *costs = format_costs(summaries)
    counts = Counter(look_of_run(row) for one in findings.benchmarks for row in one.counted[method.name])
    endings = {look: counts[look] for look in _in_order(look for look, _ in counts.most_common())}
    return SweepRow(method.name, label, own, summaries, endings, costs)


def _format_size(findings: BenchmarkFindings) -> str:
    n, planned, trials = findings.comparison.n, findings.comparison.planned, findings.comparison.trials
    tasks = f"{n} of {format_count(planned, 'task')}" if n < planned else format_count(n, "task")
    return tasks + (f" x {trials} trials" if trials > 1 else "")


def _sweep_totals(findings: SweepFindings) -> list[Total]:
    runs, spent = sum(benchmark.runs for benchmark in findings.benchmarks), findings.spent
    return [
        Total("runs", f"{runs - findings.left:,}", f"of {runs:,}"),
        Total("model calls", f"{spent.calls:,}", "of all runs"),
        Total("tokens", format_compact(spent.tokens), "input and output"),
        Total("model cost", f"${format_dollars(spent.usd)}", "US dollars"),
    ]


def _sweep_facts(given: PreparedSweep) -> dict[str, str]:
    plan = read_plan(given.arms[0].folder)
    limits = given.sweep.most.as_json().items()
    together = ", ".join(f"{value:,.12g} {kind}" for kind, value in limits) or "no limit"
    return plan_facts(plan, **{"all runs together": together}, faults=plan.faults or "none")


# The function for Python programs.


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
        file: the YAML file; `evaluation/sweep_file.py` describes its keys.
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


def write_report(given: PreparedSweep, stopped: Sequence[str] = ()) -> SweepFindings:
    """Write the report of a sweep, which need not be finished, and return its results.

    Writes `sweep.html`, `sweep.json`, `sweep.csv`, `effects.csv`, `rows.csv`, `scores.png` and `scores.svg`, and in
    each benchmark's folder the report of its comparison.
    """

    findings = findings_of(given, stopped)
    write_files(findings)
    _write_sweep_page(given, findings)
    return findings


# The command `certigraph sweep`.


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

    With `keep_prompts` the runs keep their prompts and replies.

    Returns:
        The exit status: 1 while runs are left, else 0.
    """
    given = prepare_sweep(file, out, workers, keep_prompts=keep_prompts)
    if report_only and not comparison_folders(given.out):
        raise Fault("data", f"{given.out} holds no sweep: start it with {given.resume_command}")
    if report_only:
        write_plans(given)
    stopped = [] if report_only else run_sweep(given, silent=as_json)
    findings = write_report(given, stopped)
    _print_findings(findings, as_json=as_json)
    return 1 if findings.left else 0


def print_forecast(file: Path, out: Path | None, *, as_json: bool) -> int:
    """Print the number of runs of a sweep and their maximum cost. Nothing is executed, and no user's code is imported.

    Returns:
        The exit status 0.
    """
    given = prepare_sweep(file, out, import_own=False)
    check_unchanged(given)
    if as_json:
        typer.echo(json.dumps(_forecast_to_json(given), ensure_ascii=False))
    else:
        Console(highlight=False, soft_wrap=True).print(*_forecast_lines(given), sep="\n", markup=False)
    return 0


def _print_findings(findings: SweepFindings, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(to_json(findings), ensure_ascii=False))
        return
    console = table_console()
    console.print(format_scope(findings), *terminal_tables(findings), sep="\n\n", markup=False)
    for benchmark in findings.benchmarks:
        for warning in benchmark.comparison.warnings:
            console.print(f"\nwarning: {benchmark.title}: {warning}", markup=False, soft_wrap=True)
    for line in findings.stopped:
        console.print(f"\n{line}", style="yellow", markup=False, soft_wrap=True)
    print_report_path(findings.out / SWEEP_PAGE)


def _forecast_lines(given: PreparedSweep) -> Iterator[str]:
    plan = given.arms[0].order.plan
    yield f"{format_count(len(plan.methods), 'method')}: {', '.join(method.name for method in plan.methods)}"
    yield from given.left_out
    for arm in given.arms:
        tasks, trials = len(arm.order.plan.tasks), f" x {plan.trials} trials" if plan.trials > 1 else ""
        done = len(arm.cells) - len(unfinished_cells(arm.cells))
        factors = f"{len(plan.methods)} methods x {format_count(tasks, 'task')}{trials}"
        yield f"{arm.title}: {format_count(len(arm.cells), 'run')} ({factors}), {done} done"
    waiting, budget = given.waiting, plan.budget
    line = f"{format_count(waiting, 'run')} to go"
    if not is_scripted(given.sweep.model):
        shared = ", ".join(f"{value:,.12g} {kind}" for kind, value in given.sweep.most.as_json().items())
        line += f", at most {format_count(waiting * budget.calls, 'call')}, {waiting * budget.tokens:,} tokens"
        line += f" and {waiting * budget.usd:,.2f} usd" + (f"; together no more than {shared}" if shared else "")
    yield line


def _forecast_to_json(given: PreparedSweep) -> dict[str, object]:
    plan = given.arms[0].order.plan
    left = [len(unfinished_cells(arm.cells)) for arm in given.arms]
    return {
        "methods": [method.name for method in plan.methods],
        "left_out": list(given.left_out),
        "benchmarks": [
            {"name": arm.title, "tasks": list(arm.order.plan.tasks), "runs": len(arm.cells), "left": waiting}
            for arm, waiting in zip(given.arms, left, strict=True)
        ],
        "runs_left": sum(left),
        "calls_at_most": sum(left) * plan.budget.calls,
        "usd_at_most": sum(left) * plan.budget.usd,
        "most": given.sweep.most.as_json(),
    }
