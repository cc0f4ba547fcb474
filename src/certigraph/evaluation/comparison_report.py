"""Report of a comparison: its results, CSV and JSON files, curves and an HTML page."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.files import replace_text
from certigraph.adapters.models.chat_models import describe_error_rates
from certigraph.adapters.trajectories import TRAJECTORY_FILE, read_trajectory
from certigraph.evaluation.anatomy import AnalysisTables, analyse, anatomy_view, draw_anatomy, methods_of
from certigraph.evaluation.comparison import (
    COMPARISON_PAGE,
    DATA_FILES,
    ComparedMethod,
    ComparisonPlan,
    cells_of,
    ended_cells,
    recorded_run_of,
)
from certigraph.evaluation.comparison_summary import (
    Comparison,
    FigureEstimate,
    adapt_to_methods,
    add_published,
    comparison_of,
    comparison_rows,
    estimate_figures,
    shared_rows,
    shared_tasks,
)
from certigraph.evaluation.frames import Frames, RecordedRun, frames_of, select_runs, without_faults
from certigraph.evaluation.measures import COMPARISON_METHODS, ComparisonRow, RoleUsage
from certigraph.evaluation.plots import BudgetCurves, curve_rows, curves_of, draw_curves
from certigraph.evaluation.published_matches import PUBLISHED_TITLE
from certigraph.evaluation.replays import ReplayEstimate, estimates_of, replays_of
from certigraph.evaluation.result_tables import (
    DIFFERENCE_COLUMNS,
    ESTIMATE_COLUMNS,
    MAX_NAMED_METHODS,
    call_bars,
    call_table,
    comparison_line,
    figure_table,
    format_verdict,
    method_table,
    need_table,
    published_view,
)
from certigraph.evaluation.tables import table_of, write_csv, write_page
from certigraph.graphs.operator_names import benchmark_operators
from certigraph.runtime.files import REPORT_FILE
from certigraph.runtime.report import write_report
from certigraph.runtime.texts import format_count, format_duration, format_parts
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.trajectory import Footer

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
    differences = {one["method"]: one for one in results["differences"]}
    methods = []
    for summary in results["methods"]:
        compared = differences.get(summary["method"], {}).items()
        more = {f"difference_{key}": value for key, value in compared if key not in ("method", "n")}
        methods.append({**flatten_record(summary), **more})
    write_csv(folder / "table.csv", methods)
    write_csv(folder / "needs.csv", results["needs"])
    rows = [{**flatten_record(row), "folder": runs.get(row["run"], "")} for row in results["rows"]]
    write_csv(folder / "rows.csv", rows)
    replays = []
    for one in estimates:
        for row, estimate in one.runs:
            where = {"variant": one.method, "task": row.task, "trial": row.trial}
            replays.append({**where, "estimate": estimate, "folder": runs.get(row.run, "")})
    if replays:
        write_csv(folder / "replays.csv", replays)


def flatten_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a record with nested values into one line of a CSV file.

    Goal precision, calls and the share of cached tokens by role, empty calls by reason with their share, and the number
    of runs by ending get columns of their own.
    """
    flat = {key: value for key, value in record.items() if not isinstance(value, dict)}
    goals = {f"goal_precision_{key}": value for key, value in record.get("goals", {}).items()}
    roles = {role: RoleUsage.model_validate(used) for role, used in record["roles"].items()}
    by_role = {f"calls_{role}": used.calls for role, used in roles.items()}
    shares = {f"cached_share_{role}": round(used.share, 4) for role, used in roles.items()}
    empty = {f"empty_{reason}": count for reason, count in record.get("empty", {}).items()}
    of_all = {f"{name}_share": round(count / record["calls"], 4) for name, count in empty.items()}
    endings = {f"ended_{ending}": count for ending, count in record.get("endings", {}).items()}
    parts = {label.replace(" ", "_"): value for label, value in record.get("shown", {}).items()}
    return {**flat, **parts, **goals, **by_role, **shares, **empty, **of_all, **endings}


# Results of a comparison, from one pass over its trajectories.


class ComparisonResults(NamedTuple):
    """Results of a comparison: statistics, replayed ablations, score curves, data frames, and their analyses.

    `page` has the texts and the cells of tables on the page, by the variables of its template.
    """

    comparison: Comparison
    estimates: list[ReplayEstimate]
    curves: BudgetCurves
    frames: Frames
    analyses: AnalysisTables
    page: Mapping[str, Any]


def compute_results(plan: ComparisonPlan, folder: Path) -> ComparisonResults:
    """Compute the results of a comparison so far. Only one trajectory is in memory at a time."""
    footers: dict[str, Footer] = {}
    own: dict[str, None] = {}
    certifying = set[str]()

    def runs() -> Iterator[RecordedRun]:
        for cell, trajectory in ended_cells(plan, folder):
            if trajectory.footer:
                footers[trajectory.header.run_id] = trajectory.footer
            if any((event.update or {}).get("certificates") for event in trajectory.events):
                certifying.add(cell.method.name)
            own.update(dict.fromkeys(benchmark_operators(trajectory.header.operators, plan.benchmark).values()))
            yield recorded_run_of(cell, trajectory)

    frames = frames_of(runs())
    rows = comparison_rows(frames)
    certifying |= {*frames.runs.loc[frames.runs["planned"].notna(), "method"]}
    comparison = adapt_to_methods(comparison_of(plan.outline, rows, certifying=certifying), plan)
    figures = tuple(_official_figures(plan, shared_rows(plan.outline, rows), footers))
    comparison = add_published(comparison.model_copy(update={"figures": figures}), plan.settings)
    shared = frames.runs["task"].isin(shared_tasks(plan.outline, rows))
    first = plan.methods[0]
    replays = replays_of(frames, first.name) if first.graph == "sdp" else {}
    curves = curves_of(without_faults(select_runs(frames, shared)))
    estimates = estimates_of(plan, rows, replays)
    page = lay_out_page(plan, comparison, estimates, tuple(own), folder)
    return ComparisonResults(comparison, estimates, curves, frames, analyse(frames), page)


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


class RunCell(NamedTuple):
    """Cell of a run in the page's table: a text, and a link to the run's report, empty if there is none.

    `score` is 0 to 100; None if the run is not finished, or if its world or data failed.
    """

    text: str
    link: str
    score: float | None


class ScoreChanges(NamedTuple):
    """Runs of a method whose scores differ from those of the first method on the same task and trial.

    `pairs` are rows of the task and the cells of both runs; `hidden` is the number of pairs that are left out.
    """

    method: str
    summary: str
    pairs: Sequence[tuple[str, RunCell, RunCell]]
    hidden: int


MAX_SHOWN_CHANGES = 20
"""Maximum number of pairs of runs with different scores that are shown of a method."""


def find_score_changes(names: Sequence[str], runs: Collection[tuple[str, Sequence[RunCell]]]) -> Iterator[ScoreChanges]:
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


def lay_out_page(
    plan: ComparisonPlan,
    comparison: Comparison,
    estimates: Sequence[ReplayEstimate],
    own_operators: Sequence[str],
    folder: Path,
) -> dict[str, Any]:
    """Return the texts and tables of a comparison's page, by the variables of its template.

    `own_operators` are operators of the benchmark that ran in place of generic ones, as in the headers of the runs.
    Links lead to the reports of runs that are there already.
    """
    names, runs = [method.name for method in plan.methods], _run_rows(plan, comparison.rows, folder)
    return {
        "title": f"{_page_title(plan.methods)} on {plan.benchmark}",
        "scope": comparison_line(comparison),
        "verdict": format_verdict(comparison),
        "facts": plan_facts(plan, own_operators, swapped="; ".join(_format_swaps(plan)) or "nothing"),
        "warnings": [f"Warning: {warning}" for warning in comparison.warnings],
        "methods": method_table(comparison.methods),
        "calls": call_table(comparison.methods),
        "call_bars": call_bars(comparison.methods),
        "variants": comparison.variants,
        "differences": table_of(DIFFERENCE_COLUMNS, comparison.differences),
        "figures": figure_table(comparison.figures),
        "published": published_view(comparison),
        "published_title": PUBLISHED_TITLE.capitalize(),
        "needs": need_table([] if all(need.difference is None for need in comparison.needs) else comparison.needs),
        "estimates": table_of(ESTIMATE_COLUMNS, estimates),
        "names": names,
        "runs": [[task, *cells] for task, cells in runs.items()],
        "data_files": DATA_FILES | (REPLAY_FILE if estimates else {}),
        "changes": list(find_score_changes(names, runs.items())),
    }


def write_comparison_page(found: ComparisonResults, path: Path) -> None:
    """Draw the figures of a comparison, and write its HTML page, with `curves.png` and `curves.svg` next to it."""
    drawings = draw_anatomy(found.analyses, methods_of(found.frames))
    anatomy = anatomy_view(found.frames, found.analyses, drawings)
    drawing = draw_curves(found.curves, path.parent)
    write_page(path, "comparison.html", **found.page, drawing=drawing, anatomy=anatomy)


def _page_title(methods: Sequence[ComparedMethod]) -> str:
    first, *others = methods
    swapped = [bool(method.swaps) for method in methods]
    if others and {method.graph for method in methods} == {first.graph} and not swapped[0] and all(swapped[1:]):
        return f"{first.name} and {format_count(len(others), 'variant')}"
    more = [f"and {len(methods) - MAX_NAMED_METHODS} more"] if len(methods) > MAX_NAMED_METHODS else []
    return " · ".join([*(method.name for method in methods[:MAX_NAMED_METHODS]), *more])


VERSION_LABELS = {"matching": "actions matched by"}
"""What a page calls those of a plan's versions that are not packages."""


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


def _run_rows(plan: ComparisonPlan, rows: Sequence[ComparisonRow], folder: Path) -> dict[str, list[RunCell]]:
    by_cell = {(row.task, row.trial, row.method): row for row in rows}
    shown: dict[str, list[RunCell]] = {}
    for cell in cells_of(plan, folder):
        name = cell.task if plan.trials == 1 else f"{cell.task} trial {cell.trial}"
        row = by_cell.get((cell.task, cell.trial, cell.method.name))
        score = None if row is None or row.fault else row.score
        report = run / REPORT_FILE if (run := cell.run_folder) else None
        link = quote(report.relative_to(folder).as_posix()) if report and report.is_file() else ""
        shown.setdefault(name, []).append(RunCell(_format_run(row), link, score))
    return shown


def _format_run(row: ComparisonRow | None) -> str:
    if row is None:
        return "not finished"
    work = format_count(row.steps, "step"), format_count(row.calls, "call"), format_duration(row.seconds)
    halves = f"{format_parts(row.shown) or f'{row.score:.4g}'} · {row.ending_words} ·", " · ".join(work)
    return " ".join(half.replace(" ", "\N{NO-BREAK SPACE}") for half in halves)  # on two lines in a narrow column


# The complete report.


def write_comparison_report(plan: ComparisonPlan, folder: Path) -> ComparisonResults:
    """Write the report of a comparison, which need not be finished, and return its results.

    Writes the files in DATA_FILES, and in REPLAY_FILE where runs were replayed, `curves.png`, `curves.svg`,
    `comparison.html`, and the report of each run, to which that page links.
    """
    runs = _write_run_reports(plan, folder)
    found = compute_results(plan, folder)
    write_tables(found.comparison, found.estimates, runs, folder)
    write_csv(folder / "curves.csv", list(curve_rows(found.curves)))
    write_comparison_page(found, folder / COMPARISON_PAGE)
    return found


def _write_run_reports(plan: ComparisonPlan, folder: Path) -> dict[str, str]:
    runs = [run for cell in cells_of(plan, folder) if (run := cell.run_folder)]
    # A report that is newer than its trajectory is left as it is: `--report-only` may be called again and again.
    for run in runs:
        trajectory, report = run / TRAJECTORY_FILE, run / REPORT_FILE
        if not report.is_file() or report.stat().st_mtime_ns < trajectory.stat().st_mtime_ns:
            write_report(read_trajectory(run), report, whole=folder / COMPARISON_PAGE)
    return {run.name: run.relative_to(folder).as_posix() for run in runs}
