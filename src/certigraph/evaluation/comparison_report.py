"""Report of a comparison: tables for the terminal, CSV and JSON files, curves and an HTML page."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.files import replace_text
from certigraph.adapters.models.chat_models import describe_error_rates, is_scripted, is_simulated
from certigraph.adapters.trajectories import TRAJECTORY_FILE, read_trajectory
from certigraph.evaluation.anatomy import anatomy_view
from certigraph.evaluation.comparison import (
    COMPARISON_PAGE,
    DATA_FILES,
    MODEL_SEPARATOR,
    ComparedMethod,
    ComparisonCell,
    ComparisonPlan,
    cells_of,
    ended_cells,
    recorded_run_of,
)
from certigraph.evaluation.comparison_summary import (
    AMOUNT_LABELS,
    AmountNeed,
    Comparison,
    Difference,
    FigureEstimate,
    MethodSummary,
    adapt_to_methods,
    add_published,
    comparison_of,
    comparison_rows,
    estimate_figures,
    shared_rows,
    shared_tasks,
)
from certigraph.evaluation.frames import Frames, RecordedRun, frames_of, select_runs, without_faults
from certigraph.evaluation.measures import (
    COMPARISON_METHODS,
    MISSING_VALUE,
    ComparisonRow,
    PromptTokens,
    format_fault_share,
)
from certigraph.evaluation.plots import BudgetCurves, curve_rows, curves_of, draw_curves
from certigraph.evaluation.published_matches import (
    PUBLISHED_TITLE,
    FigureRow,
    PublishedView,
    view_matches,
)
from certigraph.evaluation.replays import ReplayEstimate, estimates_of, replays_of
from certigraph.evaluation.tables import FittedTable, format_interval, table_console, write_csv, write_page
from certigraph.graphs.operator_names import benchmark_operators
from certigraph.runtime.files import REPORT_FILE
from certigraph.runtime.report import write_report
from certigraph.runtime.texts import format_compact, format_count, format_duration
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.trajectory import Footer

# The tables of evaluations and comparisons, for the terminal and the page.

MAX_DIFFERENCE = 100
"""The largest possible difference of scores."""

METHOD_COLUMNS = (
    "method",
    "n",
    "score",
    "95 % interval",
    "successes",
    "goal precision",
    "faults",
    "calls",
    "prompt",
    "cached",
    "output",
    "steps",
    "time",
    "cached by role",
)
"""Column headings of the table of methods."""

METHOD_ORDER = (
    *("method", "score", "95 % interval", "goal precision", "n", "faults", "calls", "time", "successes", "steps"),
    *("prompt", "output", "cached", "cached by role"),
)
"""METHOD_COLUMNS by importance, for a narrow terminal."""

CACHE_COLUMNS = ("cached", "cached by role")
"""Columns that are left out if no model had cached a prompt."""

DIFFERENCE_COLUMNS = ("method", "n", "difference", "95 % interval", "p", "p (Holm)", "detectable", "in words")
ESTIMATE_COLUMNS = (
    "variant",
    "rule",
    "n",
    "full",
    "re-executed",
    "replayed",
    "replayed - re-executed",
    "95 % interval",
    "in words",
)

DIFFERENCE_ORDER, NEED_ORDER = (0, 2, 3, 5, 1, 4, 6, 7), (0, 1, 2, 5, 6, 3, 4)
"""Indices of the columns of the other tables by importance; a change comes before its interval."""

FIGURE_COLUMNS = ("figure", "method", "value", "95 % interval")
"""Column headings of the table of official figures."""

REPLAY_NOTE = (
    "A replay runs nothing: it scales the scores of the first method's own runs (“full”) by a rule of the SDP paper's "
    "appendix C, as if the rest of each run would have gone as it did; re-executed is the score of the variant that "
    "was run. Rules: action fidelity is the share of certified steps whose first attempt was certified; certified "
    "prefix is the share of the plan before the first predicate whose attempts were used up; cascade cap is the share "
    "of the run that fits into the limit of steps if an action certifies at most so many predicates."
)
"""Explanation of replayed ablations."""


def method_table(summaries: Sequence[MethodSummary]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the column headings and rows of the table of methods.

    The columns about the model's prompt cache are left out if nothing was cached.
    """
    lines = [
        (
            summary.method,
            str(summary.n),
            f"{summary.score:.1f}" if summary.n else MISSING_VALUE,
            format_interval(summary.low, summary.high),
            _format_successes(summary),
            str(summary.goals),
            format_fault_share(summary.faults, summary.begun),
            f"{summary.calls:,}",
            format_compact(summary.prompt_tokens),
            format_compact(summary.cached_tokens),
            format_compact(summary.output_tokens),
            f"{summary.steps:,}",
            format_duration(summary.seconds),
            _format_cached_shares(summary.roles),
        )
        for summary in summaries
    ]
    cached = any(summary.cached_tokens for summary in summaries)
    used = [n for n, head in enumerate(METHOD_COLUMNS) if cached or head not in CACHE_COLUMNS]
    return tuple(METHOD_COLUMNS[n] for n in used), [tuple(line[n] for n in used) for line in lines]


def figure_lines(figures: Sequence[FigureEstimate]) -> list[tuple[str, ...]]:
    """Return the rows of the table of official figures, the methods of a figure together, under FIGURE_COLUMNS."""
    names = list(dict.fromkeys(one.figure for one in figures))
    return [
        (
            one.figure,
            one.method,
            MISSING_VALUE if one.value is None else f"{one.value:.1%}",
            format_interval(one.low, one.high, ".1%"),
        )
        for one in sorted(figures, key=lambda one: names.index(one.figure))
    ]


def need_table(needs: Sequence[AmountNeed]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the column headings and rows of the table of tokens, calls and steps that a run takes.

    A difference is the mean amount of the row's method minus that of the first method.
    """
    first = needs[0].against if needs else "the first"
    heads = (f"difference from {first}", "95 % interval", f"change from {first}", "95 % interval")
    lines = []
    for need in needs:
        percents = format_interval(need.percent_low, need.percent_high, _format_percent, missing="")
        lines.append(
            (
                AMOUNT_LABELS[need.amount],
                need.method,
                format_compact(round(need.mean, 1)) if need.n else MISSING_VALUE,
                MISSING_VALUE if need.difference is None else _format_signed(need.difference),
                format_interval(need.low, need.high, _format_signed),
                MISSING_VALUE if need.percent is None else f"{_format_percent(need.percent)} %",
                f"{percents} %" if percents else MISSING_VALUE,
            )
        )
    return ("a run", "method", "mean", *heads), lines


def _format_percent(percent: float) -> str:
    return f"{round(percent):+d}" if round(percent) else "0"


def _format_signed(amount: float) -> str:
    return f"{'-' if round(amount, 1) < 0 else '+'}{format_compact(round(abs(amount), 1))}"


def difference_cells(difference: Difference) -> tuple[str, ...]:
    """Return the table cells of a paired difference between two methods, in the order of DIFFERENCE_COLUMNS."""
    interval = format_interval(difference.low, difference.high, "+.1f")
    least = difference.detectable
    detectable = MISSING_VALUE if least is None else f"{least:.1f}" if least < MAX_DIFFERENCE else "> 100"
    name, n = f"{difference.method} - {difference.against}", str(difference.n)
    mean = f"{difference.mean:+.1f}" if difference.n else MISSING_VALUE
    return (
        name,
        n,
        mean,
        interval,
        _format_p(difference.p),
        _format_p(difference.p_adjusted),
        detectable,
        difference.words,
    )


def estimate_cells(estimate: ReplayEstimate) -> tuple[str, ...]:
    """Return the table cells of an ablation that was replayed and re-executed, in the order of ESTIMATE_COLUMNS."""
    optimism = estimate.optimism
    scores = (f"{score:.1f}" for score in (estimate.full, estimate.measured, estimate.replayed))
    interval = format_interval(optimism.low, optimism.high, "+.1f")
    return estimate.method, estimate.rule, str(optimism.n), *scores, f"{optimism.mean:+.1f}", interval, estimate.words


def terminal_tables(comparison: Comparison, estimates: Sequence[ReplayEstimate] = ()) -> Iterator[FittedTable | str]:
    """Yield the tables of a comparison for a terminal, with what explains them."""
    heads, lines = method_table(comparison.methods)
    yield FittedTable(heads, lines, sorted(range(len(heads)), key=lambda n: METHOD_ORDER.index(heads[n])))
    if comparison.variants:
        yield "\n".join(f" {name}: {text}" for name, text in comparison.variants.items())
    if comparison.figures:
        yield FittedTable(FIGURE_COLUMNS, figure_lines(comparison.figures), range(len(FIGURE_COLUMNS)))
    if comparison.differences:
        cells = [difference_cells(difference) for difference in comparison.differences]
        yield FittedTable(DIFFERENCE_COLUMNS, cells, DIFFERENCE_ORDER)
        yield FittedTable(*need_table(comparison.needs), NEED_ORDER)
    if estimates:
        first = comparison.methods[0].method
        yield f" The page also estimates the variants from the runs of {first} alone (SDP paper, appendix C)."


def print_comparison(comparison: Comparison, estimates: Sequence[ReplayEstimate] = ()) -> None:
    """Print an evaluation, comparison, ablation, or one benchmark of a sweep.

    The finding comes last, since long tables would push it off a screen if it were first.
    """
    console = table_console()
    console.print(comparison_line(comparison), markup=False)
    for table in terminal_tables(comparison, estimates):
        console.print("", table, sep="\n", markup=False)
    if view := published_view(comparison):
        console.print(f"\n{PUBLISHED_TITLE}:")
        console.print(*view.terminal_tables(), sep="\n")
    console.print()
    for summary in comparison.methods:
        endings = Counter(row.ending for row in comparison.rows if row.method == summary.method)
        ended = ", ".join(f"{count} {ending}" for ending, count in endings.most_common())
        console.print(f"{summary.method} ended: {ended or 'no run'}", markup=False)
    for warning in comparison.warnings:
        console.print(f"\nwarning: {warning}", markup=False, soft_wrap=True)
    console.print(f"\n{format_verdict(comparison)}", markup=False)


def published_view(comparison: Comparison) -> PublishedView | None:
    """Lay out the published figures of the methods next to theirs; None if there are none."""
    alone, rows = len(comparison.methods) == 1, []
    for figure in comparison.figures:
        matches = [one for one in comparison.published.get(figure.method, ()) if one.figure.metric == figure.figure]
        label = figure.figure if alone else f"{figure.method}, {figure.figure}"
        rows.append(FigureRow(label, MISSING_VALUE if figure.value is None else f"{100 * figure.value:.1f}", matches))
    return view_matches(rows, "figure")


def comparison_line(comparison: Comparison) -> str:
    """Format the line above the tables: benchmark, models, number of tasks and trials, and tasks that are left out."""
    missing = comparison.planned - comparison.n
    unfinished = missing - comparison.faults
    lacking = f"; {unfinished} of {comparison.planned} tasks are not finished by every method and left out"
    lacking = lacking if unfinished else ""
    lacking += f"; {format_count(comparison.faults, 'task')} with a fault left out" if comparison.faults else ""
    notes = f"{lacking}{format_model_note(comparison.model.split(MODEL_SEPARATOR))}"
    trials = f" x {comparison.trials} trials" if comparison.trials > 1 else ""
    return f"{comparison.benchmark}, {comparison.model}, n={comparison.n}{trials}{notes}"


def format_model_note(models: Sequence[str]) -> str:
    """Format a note about models that are not language models; empty if all are."""
    scripted = [model for model in models if is_scripted(model)]
    if not scripted:
        return ""
    part = "" if len(scripted) == len(models) else f" ({', '.join(scripted)})"
    if any(map(is_simulated, scripted)):
        return f"; a simulated agent answers{part}: the figures are about mechanisms, not about a language model"
    return f"; a script answers for the model{part}: nothing here is about the methods' quality"


def _format_cached_shares(roles: Mapping[str, PromptTokens]) -> str:
    cached = (f"{role} {tokens.share:.0%}" for role, tokens in sorted(roles.items()) if tokens.cached_tokens)
    return ", ".join(cached) or MISSING_VALUE


def _format_successes(summary: MethodSummary) -> str:
    share = f"{summary.successes}/{summary.runs}"
    return share if summary.pass_all is None else f"{share}, every trial {summary.pass_all:.0f} %"


def _format_p(value: float | None) -> str:
    return MISSING_VALUE if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


# Files for other programs.

REPLAY_FILE = {"replays.csv": "the estimate from each replayed run, with the folder of that run"}
"""Content of the file that there is where runs were replayed, as in DATA_FILES."""


def comparison_to_json(comparison: Comparison, estimates: Sequence[ReplayEstimate] = ()) -> dict[str, Any]:
    """Convert a comparison to one JSON object: statistics, a row for each run, and replayed ablations."""
    replayed = [estimate.model_dump(mode="json") for estimate in estimates]
    without = set() if comparison.published else {"published"}
    return {
        **comparison.model_dump(mode="json", exclude=without),
        "replayed": replayed,
        "statistics": COMPARISON_METHODS,
    }


def write_tables(
    comparison: Comparison, estimates: Sequence[ReplayEstimate], runs: Mapping[str, str], folder: Path
) -> None:
    """Write a comparison to its files of data, except its curves; `runs` has the folder of each run by its id."""
    results = comparison_to_json(comparison, estimates)
    replace_text(folder / "table.json", json.dumps(results, indent=1, ensure_ascii=False))
    differences, left_out = {difference["method"]: difference for difference in results["differences"]}, ("method", "n")
    methods = [
        {
            **flatten_record(summary),
            **{
                f"difference_{key}": v
                for key, v in differences.get(summary["method"], {}).items()
                if key not in left_out
            },
        }
        for summary in results["methods"]
    ]
    write_csv(folder / "table.csv", methods)
    write_csv(folder / "needs.csv", results["needs"])
    rows = [{**flatten_record(row), "folder": runs.get(row["run"], "")} for row in results["rows"]]
    write_csv(folder / "rows.csv", rows)
    replays = [
        {
            "variant": one.method,
            "task": row.task,
            "trial": row.trial,
            "estimate": estimate,
            "folder": runs.get(row.run, ""),
        }
        for one in estimates
        for row, estimate in one.runs
    ]
    if replays:
        write_csv(folder / "replays.csv", replays)


def flatten_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a record with nested values into one line of a CSV file.

    Goal precision, the share of cached tokens by role and the number of runs by ending get columns of their own.
    """
    flat = {key: value for key, value in record.items() if not isinstance(value, dict)}
    goals = {f"goal_precision_{key}": value for key, value in record.get("goals", {}).items()}
    shares = {f"cached_share_{r}": round(PromptTokens.model_validate(p).share, 4) for r, p in record["roles"].items()}
    endings = {f"ended_{ending}": count for ending, count in record.get("endings", {}).items()}
    return {**flat, **goals, **shares, **endings}


# Results of a comparison, from one pass over its trajectories.


class ComparisonResults(NamedTuple):
    """Results of a comparison: statistics, replayed ablations, score curves, and the data frames for all analyses."""

    comparison: Comparison
    estimates: list[ReplayEstimate]
    curves: BudgetCurves
    frames: Frames
    own_operators: tuple[str, ...] = ()
    """Operators of the benchmark that ran in place of generic ones, as in the headers of the runs."""


def compute_results(plan: ComparisonPlan, folder: Path) -> ComparisonResults:
    """Compute the results of a comparison so far. Only one trajectory is in memory at a time."""
    footers: dict[str, Footer] = {}
    own: dict[str, None] = {}

    def runs() -> Iterator[RecordedRun]:
        for cell, trajectory in ended_cells(plan, folder):
            if trajectory.footer:
                footers[trajectory.header.run_id] = trajectory.footer
            own.update(dict.fromkeys(benchmark_operators(trajectory.header.operators, plan.benchmark).values()))
            yield recorded_run_of(cell, trajectory)

    frames = frames_of(runs())
    rows = comparison_rows(frames)
    certifying = {*frames.runs.loc[frames.runs["planned"].notna(), "method"]}
    comparison = adapt_to_methods(comparison_of(plan.outline, rows), plan, certifying)
    figures = tuple(_official_figures(plan, shared_rows(plan.outline, rows), footers))
    comparison = add_published(comparison.model_copy(update={"figures": figures}), plan.settings)
    shared = frames.runs["task"].isin(shared_tasks(plan.outline, rows))
    first = plan.methods[0]
    replays = replays_of(frames, first.name) if first.graph == "sdp" else {}
    curves = curves_of(without_faults(select_runs(frames, shared)))
    return ComparisonResults(comparison, estimates_of(plan, rows, replays), curves, frames, tuple(own))


def _official_figures(
    plan: ComparisonPlan, rows: Mapping[str, Sequence[ComparisonRow]], footers: Mapping[str, Footer]
) -> Iterator[FigureEstimate]:
    try:  # the plan may come from another machine, so that no code which it names is imported
        benchmark = load_benchmark(plan.benchmark, plan.data or None, import_own=False)
    except (Fault, UnknownName):
        return
    for method, method_rows in rows.items():
        yield from estimate_figures(method, [(row.task, footers[row.run]) for row in method_rows], benchmark.figures)


# The page: self-contained, with tables, curves and a line for every task.

MAX_TITLE_METHODS = 6
"""Maximum number of methods in a title, and of those named together in the sentence below it."""


class RunCell(NamedTuple):
    """Cell of a run in the page's table: a text, and the path of the run's report, empty if there is none.

    `score` is 0 to 100; None if the run is not finished, or if its world or data failed.
    """

    text: str
    report: str
    score: float | None


class ScoreChanges(NamedTuple):
    """Runs of a method whose scores differ from those of the first method on the same task and trial.

    `pairs` has the task and the cells of both runs; `hidden` is the number of pairs that are left out.
    """

    method: str
    summary: str
    pairs: Sequence[tuple[str, RunCell, RunCell]]
    hidden: int


MAX_SHOWN_CHANGES = 20
"""Maximum number of pairs of runs with different scores that are shown of a method."""


def find_score_changes(names: Sequence[str], runs: Sequence[tuple[str, Sequence[RunCell]]]) -> Iterator[ScoreChanges]:
    """Yield the score changes of each method that has any.

    Args:
        names: the names of the methods.
        runs: name of a task and trial, and a cell for each method.
    """
    for number, name in enumerate(names[1:], 1):
        pairs, gains = [], []
        for task, cells in runs:
            first, other = cells[0], cells[number]
            if first.score is not None and other.score is not None:
                gains.append(other.score - first.score)
                pairs += [(task, first, other)] if gains[-1] else []
        if pairs:
            higher, lower = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
            summary = f"{name}: scores higher than {names[0]} in {higher} of {len(gains)} runs, lower in {lower}"
            yield ScoreChanges(name, summary, pairs[:MAX_SHOWN_CHANGES], len(pairs[MAX_SHOWN_CHANGES:]))


def write_comparison_page(plan: ComparisonPlan, findings: ComparisonResults, drawing: Markup, path: Path) -> None:
    """Write the HTML page of a comparison."""
    comparison = findings.comparison
    published, names = published_view(comparison), [method.name for method in plan.methods]
    runs = _run_rows(plan, comparison.rows, path.parent)
    write_page(
        path,
        "comparison.html",
        title=f"{_page_title(plan.methods)} on {plan.benchmark}",
        scope=comparison_line(comparison),
        verdict=format_verdict(comparison),
        facts=plan_facts(plan, findings.own_operators, swapped="; ".join(_format_swaps(plan)) or "nothing"),
        warnings=comparison.warnings,
        methods=method_table(comparison.methods),
        variants=comparison.variants,
        differences=(DIFFERENCE_COLUMNS, [difference_cells(difference) for difference in comparison.differences]),
        figures=(FIGURE_COLUMNS, figure_lines(comparison.figures)),
        published=published,
        published_title=PUBLISHED_TITLE.capitalize(),
        needs=need_table([] if all(need.difference is None for need in comparison.needs) else comparison.needs),
        estimates=(ESTIMATE_COLUMNS, [estimate_cells(estimate) for estimate in findings.estimates]),
        replay_note=REPLAY_NOTE,
        drawing=drawing,
        anatomy=anatomy_view(findings.frames),
        names=names,
        runs=runs,
        data_files=DATA_FILES | (REPLAY_FILE if findings.estimates else {}),
        changes=list(find_score_changes(names, runs)),
    )


def _page_title(methods: Sequence[ComparedMethod]) -> str:
    first, *others = methods
    swapped = [bool(method.swaps) for method in methods]
    if others and {method.graph for method in methods} == {first.graph} and not swapped[0] and all(swapped[1:]):
        return f"{first.name} and {format_count(len(others), 'variant')}"
    more = [f"and {len(methods) - MAX_TITLE_METHODS} more"] if len(methods) > MAX_TITLE_METHODS else []
    return " · ".join([*(method.name for method in methods[:MAX_TITLE_METHODS]), *more])


def format_verdict(comparison: Comparison) -> str:
    """Format in one sentence what a comparison found: the scores, and what the differences from the first one mean."""
    first = comparison.methods[0]
    if not first.n:
        return "No task is finished by every method."
    scores = {summary.method: f"{summary.method} {summary.score:.1f}" for summary in comparison.methods if summary.n}
    by_words: dict[str, list[str]] = {}
    for difference in comparison.differences:
        by_words.setdefault(difference.words, []).append(scores.get(difference.method, difference.method))
    found = [f"{_join_names(names)}: {words}" for words, names in by_words.items()]
    tasks = format_count(first.n, "task")
    return "; ".join([f"{scores[first.method]} of 100 over {tasks}", *found]) + "."


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - MAX_TITLE_METHODS
    return ", ".join([*names[:MAX_TITLE_METHODS], *([f"{more} more"] if more > 0 else [])])


VERSION_LABELS = {"matching": "actions matched by"}
"""What a page calls those of a plan's versions that are no packages."""


def plan_facts(plan: ComparisonPlan, own_operators: Sequence[str] = (), **more: str) -> dict[str, str]:
    """Return facts about the runs of a comparison by name, for the head or the foot of a page, with `more` facts."""
    limits = plan.budget.model_dump(exclude={"priced"}).items()
    kind, _, rates = describe_error_rates(plan.model, plan.roles).partition(": ")
    return {
        "model": ", ".join([plan.model, *(f"{role}: {model}" for role, model in plan.roles.items())]),
        **({kind: rates} if rates else {}),
        **({"operators of the benchmark": ", ".join(own_operators)} if own_operators else {}),
        "budget a run": ", ".join(f"{value:,.12g} {kind}" for kind, value in limits),
        **more,
        "begun": plan.created.replace("T", " "),
        "machine": plan.machine,
        "versions": ", ".join(f"{VERSION_LABELS.get(name, name)} {value}" for name, value in plan.versions.items()),
    }


def _format_swaps(plan: ComparisonPlan) -> list[str]:
    # Variants of an ablation are named after their swaps.
    texts = []
    for method in plan.methods:
        swaps = [f"{slot}={spec}" for slot, spec in method.swaps.items()]
        named = set(swaps) == set(method.name.split("+"))
        texts += [method.name] if named else [f"{method.name}: {', '.join(swaps)}"] if swaps else []
    return texts


def _run_rows(plan: ComparisonPlan, rows: Sequence[ComparisonRow], folder: Path) -> list[tuple[str, list[RunCell]]]:
    by_cell = {(row.task, row.trial, row.method): row for row in rows}
    shown: dict[str, list[RunCell]] = {}
    for cell in cells_of(plan, folder):
        name = cell.task if plan.trials == 1 else f"{cell.task} trial {cell.trial}"
        row = by_cell.get((cell.task, cell.trial, cell.method.name))
        score = None if row is None or row.fault else row.score
        shown.setdefault(name, []).append(RunCell(_format_run(row), _report_link(cell, folder), score))
    return list(shown.items())


def _report_link(cell: ComparisonCell, folder: Path) -> str:
    run = cell.run_folder
    report = run / REPORT_FILE if run else None
    return quote(report.relative_to(folder).as_posix()) if report and report.is_file() else ""


def _format_run(row: ComparisonRow | None) -> str:
    if row is None:
        return "not finished"
    work = format_count(row.steps, "step"), format_count(row.calls, "call"), format_duration(row.seconds)
    halves = f"{row.score:.4g} · {row.ending_words} ·", " · ".join(work)
    return " ".join(half.replace(" ", "\N{NO-BREAK SPACE}") for half in halves)  # on two lines in a narrow column


# The complete report.


def write_comparison_report(plan: ComparisonPlan, folder: Path) -> ComparisonResults:
    """Write the report of a comparison, which need not be finished, and return its results.

    Writes the files in DATA_FILES, and in REPLAY_FILE where runs were replayed, `curves.png`, `curves.svg`,
    `comparison.html`, and the report of each run, to which that page links.
    """
    findings = compute_results(plan, folder)
    runs = _write_run_reports(plan, folder)
    write_tables(findings.comparison, findings.estimates, runs, folder)
    write_csv(folder / "curves.csv", list(curve_rows(findings.curves)))
    write_comparison_page(plan, findings, draw_curves(findings.curves, folder), folder / COMPARISON_PAGE)
    return findings


def _write_run_reports(plan: ComparisonPlan, folder: Path) -> dict[str, str]:
    runs = [run for cell in cells_of(plan, folder) if (run := cell.run_folder)]
    # A report that is newer than its trajectory is left as it is: `--report-only` may be called again and again.
    for run in runs:
        trajectory, report = run / TRAJECTORY_FILE, run / REPORT_FILE
        if not report.is_file() or report.stat().st_mtime_ns < trajectory.stat().st_mtime_ns:
            write_report(read_trajectory(run), report, whole=folder / COMPARISON_PAGE)
    return {run.name: run.relative_to(folder).as_posix() for run in runs}
