"""Report of a sweep, which runs graphs with variants of their operators on several benchmarks.

`sweep` executes a sweep from Python; `run_command` and `print_forecast` implement the command `certigraph sweep`.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple
from urllib.parse import quote

import matplotlib as mpl
import typer
from matplotlib.figure import Figure
from rich.console import Console

from certigraph.adapters.models.chat_models import is_scripted
from certigraph.evaluation.compare import PIPED_WIDTH
from certigraph.evaluation.comparison import ClusterWorkers, ComparedMethod, read_plan, unfinished_cells
from certigraph.evaluation.comparison_report import COMPARISON_STYLE, format_budget
from certigraph.evaluation.comparison_summary import MethodSummary
from certigraph.evaluation.plots import CHART_STYLE, GREY, SERIES_COLOURS, save_drawing
from certigraph.evaluation.sweep import (
    EFFECT_COLUMNS,
    MISSING,
    BenchmarkFindings,
    PreparedSweep,
    SweepFindings,
    check_unchanged,
    comparison_folders,
    effect_cells,
    endings_of,
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
from certigraph.runtime.html import PAGE_STYLE, PAGE_TEMPLATE, Markup, html_table, join_markup, tag, total_cell
from certigraph.runtime.registry import swaps_of
from certigraph.runtime.texts import clip_text, format_compact, format_count
from certigraph.state.records import Fault

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
    with mpl.rc_context(CHART_STYLE):
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
                SERIES_COLOURS[number % len(SERIES_COLOURS)],
                own,
            )
        )
    return rows


def _figure(benchmarks: Sequence[BenchmarkFindings], lines: Sequence[PlotRow]) -> Figure:
    columns = min(len(benchmarks), MAX_COLUMNS)
    rows = -(-len(benchmarks) // columns)
    height = rows * (ROW_HEIGHT * (lines[-1].y + 1) + PANEL_MARGIN)
    figure = Figure(figsize=(FIGURE_WIDTH, height), layout="constrained")
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for panel, findings in zip(panels, benchmarks, strict=False):
        _draw_panel(panel, findings, lines)
    for spare in panels[len(benchmarks) :]:
        spare.remove()
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
    panel.spines[["top", "right", "left"]].set_visible(False)
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


# Parts of the page: the tinted table, the bars of endings, links to the benchmarks' pages.

SWEEP_STYLE = """
.sweep th, .sweep td { padding: 7px 12px; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
.sweep thead th { border-top: none; vertical-align: bottom; }
.sweep thead th:has(a) { text-align: center; }
.sweep thead a { color: var(--blue); font-size: 13.5px; font-weight: 600; text-decoration: none; }
.sweep thead a:hover { text-decoration: underline; }
.sweep small { display: block; color: var(--soft); font-size: 11.5px; font-weight: 400; }
.sweep tbody th { text-align: left; padding-left: 0; color: var(--ink); font-weight: 600; }
.sweep .variant th { padding-left: 16px; font-weight: 400; border-top-style: dotted; white-space: normal;
  overflow-wrap: anywhere; min-width: 13em; }
.sweep .variant td { border-top-style: dotted; }
.sweep .score { font-size: 15px; font-weight: 550; text-align: center; min-width: 8.5em;
  background: color-mix(in srgb, var(--good) calc(var(--share) * .42), transparent); }
.sweep .none { color: var(--faint); font-weight: 400; background: none; }
.endings { display: flex; width: 116px; height: 9px; border-radius: 5px; overflow: hidden; background: var(--line); }
.endings i { flex: var(--runs); background: var(--faint); }
.endings .good, .key .good { background: var(--good); } .endings .warn, .key .warn { background: var(--warn); }
.endings .bad, .key .bad { background: var(--bad); } .endings .idle, .key .idle { background: var(--faint); }
.key .dot { align-self: center; margin-right: -9px; }
.sweep th:has(+ th + th + th + th:last-child), .sweep td:has(.endings) { text-align: left; padding-left: 22px; }
.effects td:nth-child(2), .effects th:nth-child(2) { text-align: left; }
.notice.quiet { border-color: var(--line); color: var(--soft); font-size: 13px; }
"""

ENDING_CLASSES = (("goal", "good"), ("limit:", "warn"), ("gave_up", "bad"), ("error:", "bad"))
"""CSS class of the ending of a run, by prefix of the ending; other endings have the class `idle`."""


def score_table(findings: SweepFindings, methods: Sequence[ComparedMethod]) -> Markup:
    """Build the HTML table of scores, with a row for each method; a higher score has a darker background."""
    benchmarks = (
        tag("th", tag("a", benchmark.title, href=_page_link(benchmark)), tag("small", _format_size(benchmark)))
        for benchmark in findings.benchmarks
    )
    costs = (tag("th", name) for name in ("endings", "faults", "calls", "tokens", "usd"))
    head = tag("thead", tag("tr", tag("th", ""), *benchmarks, *costs))
    body = tag("tbody", *(_table_row(findings, method) for method in methods))
    return tag("div", tag("table", head, body, class_="sweep"), class_="wide")


def format_notices(findings: SweepFindings) -> Markup:
    """Build the notices of the page: why runs are unfinished, warnings, and combinations that were left out."""
    stopped = [tag("p", reason, class_="notice") for reason in findings.stopped]
    if findings.left and not stopped:
        stopped = [tag("p", f"Partial: {format_count(findings.left, 'run')} left.", class_="notice")]
    warnings = (
        f"{benchmark.title}: {warning}"
        for benchmark in findings.benchmarks
        for warning in benchmark.comparison.warnings
    )
    stopped += [tag("p", warning, class_="notice") for warning in warnings]
    left_out = [tag("p", "; ".join(findings.left_out), class_="notice quiet")] if findings.left_out else []
    return join_markup(*stopped, *left_out)


def endings_legend(findings: SweepFindings) -> Markup:
    """Build the legend for the colours of the bars that show how runs ended."""
    endings = endings_of([summary for benchmark in findings.benchmarks for summary in benchmark.comparison.methods])
    return join_markup(
        *(join_markup(tag("i", class_=f"dot {_ending_class(ending)}"), tag("span", ending)) for ending in endings)
    )


def _table_row(findings: SweepFindings, method: ComparedMethod) -> Markup:
    summaries = findings.of(method.name)
    own = not swaps_of(method.graph, method.operators)
    name = method.name if own else method.name.removeprefix(f"{method.graph} ")
    _, *costs = format_costs(summaries)
    cells = (*map(_score_cell, summaries), tag("td", _endings_bar(summaries)), *(tag("td", cost) for cost in costs))
    return tag("tr", tag("th", name, title=method.name), *cells, **({} if own else {"class_": "variant"}))


def _score_cell(summary: MethodSummary) -> Markup:
    if not summary.n:
        return tag("td", MISSING, class_="score none")
    within = f"{summary.low:.1f} to {summary.high:.1f}" if summary.low is not None else "no interval"
    return tag(
        "td", f"{summary.score:.1f}", tag("small", within), class_="score", style=f"--share: {summary.score:.0f}%"
    )


def _endings_bar(summaries: Sequence[MethodSummary]) -> Markup:
    counts = endings_of(summaries)
    title = ", ".join(f"{ending} {count}" for ending, count in counts.items())
    return tag("div", *_bar_segments(counts), class_="endings", title=title)


def _bar_segments(counts: dict[str, int]) -> Iterator[Markup]:
    ranks = {kind: rank for rank, kind in enumerate(("good", "idle", "warn", "bad"))}
    for ending in sorted(counts, key=lambda ending: ranks[_ending_class(ending)]):
        yield tag("i", class_=_ending_class(ending), style=f"--runs: {counts[ending]}")


def _ending_class(ending: str) -> str:
    return next((kind for prefix, kind in ENDING_CLASSES if ending.startswith(prefix)), "idle")


def _format_size(findings: BenchmarkFindings) -> str:
    n, planned, trials = findings.comparison.n, findings.comparison.planned, findings.comparison.trials
    tasks = f"{n} of {format_count(planned, 'task')}" if n < planned else format_count(n, "task")
    return tasks + (f" x {trials} trials" if trials > 1 else "")


def _page_link(findings: BenchmarkFindings) -> str:
    return quote(findings.page)


# The page: one self-contained HTML file.

SWEEP_PAGE = "sweep.html"

SCORES_NOTE = (
    "Scores are 0 to 100 over the tasks that every method has finished, with 95 % intervals, trials of a task taken "
    "together. Endings, calls, tokens and US dollars are over the same runs of all benchmarks."
)
EFFECTS_NOTE = (
    "Each variant beside its graph as it is, paired over tasks, trials of a task averaged first; p (Holm) is corrected "
    "for all differences of this table."
)
PICTURE_NOTE = "A filled dot is a graph as it is, a hollow one a variant of it."


def write_page(given: PreparedSweep, findings: SweepFindings) -> None:
    """Write the HTML page of a sweep. It loads no other files and has no scripts; text from runs is escaped."""
    methods = given.arms[0].order.plan.methods
    title = join_markup(_title(given))
    body = _body(given, findings, methods, title)
    text = Template(PAGE_TEMPLATE).substitute(title=title, style=PAGE_STYLE + COMPARISON_STYLE + SWEEP_STYLE, body=body)
    (given.out / SWEEP_PAGE).write_text(text, encoding="utf-8")


def _title(given: PreparedSweep) -> str:
    sweep = given.sweep
    graphs, variants = " · ".join(sweep.graphs), format_count(len(sweep.operators), "variant")
    return f"{graphs}, in {variants}, on {' · '.join(arm.title for arm in given.arms)}"


def _body(given: PreparedSweep, findings: SweepFindings, methods: Sequence[ComparedMethod], title: Markup) -> Markup:
    scores = join_markup(
        score_table(findings, methods), tag("p", endings_legend(findings), class_="key"), _note(SCORES_NOTE)
    )
    drawing = tag("div", draw_scores(findings, methods), class_="drawing wide")
    changes = html_table(EFFECT_COLUMNS, map(effect_cells, findings.effects), looks="comparison worded effects")
    return join_markup(
        tag("header", tag("p", format_scope(findings), class_="overline"), tag("h1", title), format_notices(findings)),
        _key_figures(findings),
        _section("Scores", scores),
        _section("At a glance", join_markup(drawing, _note(PICTURE_NOTE))),
        *(
            [_section("What exchanged operators change", join_markup(changes, _note(EFFECTS_NOTE)))]
            * bool(findings.effects)
        ),
        _section("What was run", _sweep_facts(given)),
    )


def _key_figures(findings: SweepFindings) -> Markup:
    runs, spent = sum(benchmark.runs for benchmark in findings.benchmarks), findings.spent
    return tag(
        "dl",
        total_cell("runs", f"{runs - findings.left:,}", f"of {runs:,}"),
        total_cell("model calls", f"{spent.calls:,}", "of all runs"),
        total_cell("tokens", format_compact(spent.tokens), "input and output"),
        total_cell("model cost", f"${format_dollars(spent.usd)}", "US dollars"),
        class_="figures",
    )


def _sweep_facts(given: PreparedSweep) -> Markup:
    plan = read_plan(given.arms[0].folder)
    limits = given.sweep.most.as_json().items()
    facts = {
        "model": ", ".join([plan.model, *(f"{role}: {model}" for role, model in plan.roles.items())]),
        "budget a run": format_budget(plan),
        "all runs together": ", ".join(f"{value:,.12g} {kind}" for kind, value in limits) or "no limit",
        "faults": plan.faults or "none",
        "begun": plan.created.replace("T", " "),
        "machine": plan.machine,
        "versions": ", ".join(f"{name} {number}" for name, number in plan.versions.items()),
    }
    return tag("p", *(tag("span", tag("b", name), f" {text}") for name, text in facts.items()), class_="facts")


def _note(text: str) -> Markup:
    return tag("p", text, class_="key")


def _section(title: str, inside: Markup) -> Markup:
    return tag("section", tag("h2", title), inside)


# The function for Python programs.


def sweep(
    file: Path | str, out: Path | str | None = None, *, workers: ClusterWorkers | None = None, silent: bool = True
) -> SweepFindings:
    """Run all combinations of graphs, operators and benchmarks that a YAML file names, and write the report.

    A sweep that was stopped resumes when it is started again; finished runs are not repeated.

    Args:
        file: the YAML file; `evaluation/sweep_file.py` describes its keys.
        out: the sweep's folder; None: the file's name without its suffix.
        workers: processes of a Ray cluster that execute the runs; None: this process.
        silent: do not show the progress on stderr.

    Returns:
        The results: `left` is the number of unfinished runs, and `stopped` has the reasons why they are unfinished.

    Raises:
        UnknownName: a name in the file is unknown; the message lists the known ones.
        Fault: the file is unusable, the folder was started with another file, or another process is using it.
        Interrupted: by Ctrl-C; the message has the command that resumes the sweep.
    """
    given = prepare_sweep(Path(file), Path(out) if out is not None else None, workers)
    return write_report(given, run_sweep(given, silent=silent))


def write_report(given: PreparedSweep, stopped: Sequence[str] = ()) -> SweepFindings:
    """Write the report of a sweep, which need not be finished, and return its results.

    Writes `sweep.html`, `sweep.json`, `sweep.csv`, `effects.csv`, `rows.csv`, `scores.png` and `scores.svg`, and in
    each benchmark's folder the report of its comparison.
    """

    findings = findings_of(given, stopped)
    write_files(findings)
    write_page(given, findings)
    return findings


# The command `certigraph sweep`.


def run_command(
    file: Path, out: Path | None, workers: ClusterWorkers | None = None, *, report_only: bool, as_json: bool
) -> int:
    """Execute the unfinished runs of a sweep (not with `report_only`), and write and print the report.

    Returns:
        The exit status: 1 while runs are left, else 0.
    """
    given = prepare_sweep(file, out, workers)
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
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)
    console.print(format_scope(findings), *terminal_tables(findings), sep="\n\n", markup=False)
    for benchmark in findings.benchmarks:
        for warning in benchmark.comparison.warnings:
            console.print(f"\nwarning: {benchmark.title}: {warning}", markup=False, soft_wrap=True)
    last = Console(highlight=False, soft_wrap=True)
    for line in findings.stopped:
        last.print(f"\n{line}", style="yellow", markup=False)
    last.print(f"report: {findings.out / SWEEP_PAGE}", style="dim", markup=False)


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
