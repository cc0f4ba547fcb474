"""Report of a comparison: tables for the terminal, CSV and JSON files, curves and an HTML page."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from rich.table import Table

from certigraph.adapters.models.chat_models import is_scripted
from certigraph.adapters.models.scripted import SIMULATED
from certigraph.evaluation.anatomy import anatomy_sections
from certigraph.evaluation.comparison import AND, Cell, Method, Plan, ended_cells
from certigraph.evaluation.comparison_summary import (
    AMOUNTS,
    Comparison,
    Difference,
    Estimate,
    Need,
    Replay,
    Summary,
    comparison_of,
    estimates_of,
    replay_of,
    shared_tasks,
)
from certigraph.evaluation.frames import Frames, Recorded, frames_of
from certigraph.evaluation.measures import COMPARISON, share_text
from certigraph.evaluation.plots import Curves, Point, curve_lines, curves_of, draw_curves, points_of
from certigraph.runtime.history import Prompted, Row, row_of
from certigraph.runtime.html import PAGE, STYLE, Markup, clock, compact, counted, html_table, joined, tag
from certigraph.runtime.registry import swaps_of
from certigraph.runtime.result import is_denied
from certigraph.state.trajectory import Trajectory

# CSV files: texts that begin like a formula are escaped, since a spreadsheet would run them.

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that a spreadsheet runs as formulas."""


def inert(value: Any) -> Any:
    """Escape a value for a cell: a text that would be a formula gets an apostrophe; numbers are unchanged."""
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def write_rows(path: Path, names: Sequence[str], lines: Iterable[Mapping[str, Any]], *, ends: str = "\r\n") -> None:
    """Write a CSV file with a header and escaped cells; a cell that a line lacks is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator=ends)
        writer.writeheader()
        writer.writerows({name: inert(value) for name, value in line.items()} for line in lines)


# The table of needs, for the terminal and the page.

NONE = "-"
"""Cell without a value."""


def need_table(needs: Sequence[Need]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and lines; a difference is the method's amount minus that of the first method."""
    first = needs[0].against if needs else "the first"
    heads = (f"difference from {first}", "95 % interval", f"change from {first}", "95 % interval")
    return ("a run", "method", "mean", *heads), [_cells(need) for need in needs]


def _cells(need: Need) -> tuple[str, ...]:
    mean = compact(round(need.mean, 1)) if need.n else NONE
    difference = NONE if need.difference is None else _signed(need.difference)
    change = NONE if need.percent is None else f"{need.percent:+.0f} %"
    return AMOUNTS[need.amount], need.method, mean, difference, _apart(need), change, _changed(need)


def _apart(need: Need) -> str:
    return NONE if need.low is None or need.high is None else f"{_signed(need.low)} to {_signed(need.high)}"


def _changed(need: Need) -> str:
    low, high = need.percent_low, need.percent_high
    return NONE if low is None or high is None else f"{low:+.0f} to {high:+.0f} %"


def _signed(amount: float) -> str:
    return f"{'-' if amount < 0 else '+'}{compact(round(abs(amount), 1))}"


# The other tables, for the terminal and the page.

MOST = 100
"""The largest possible difference of scores."""

METHODS = (
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
"""Columns of the table of methods."""

CACHED = ("cached", "cached by role")
"""Columns that are left out if no model cached anything."""

DIFFERENCES = ("method", "n", "difference", "95 % interval", "p", "p (Holm)", "detectable", "in words")
ESTIMATES = (
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


def method_cells(summary: Summary) -> tuple[str, ...]:
    """Return the cells of a method, in the order of METHODS."""
    return (
        summary.method,
        str(summary.n),
        f"{summary.score:.1f}" if summary.n else "-",
        _between(summary.low, summary.high, ".1f"),
        _successes(summary),
        str(summary.goals),
        share_text(summary.faults, summary.begun),
        f"{summary.calls:,}",
        compact(summary.prompt_tokens),
        compact(summary.cached_tokens),
        compact(summary.output_tokens),
        f"{summary.steps:,}",
        clock(summary.seconds),
        _shares(summary.roles),
    )


def method_table(summaries: Sequence[Summary]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and lines; without the columns about the model's cache if it cached nothing."""
    lines = [method_cells(summary) for summary in summaries]
    used = [n for n, head in enumerate(METHODS) if head not in CACHED or any(line[n] not in "0-" for line in lines)]
    return tuple(METHODS[n] for n in used), [tuple(line[n] for n in used) for line in lines]


def difference_cells(difference: Difference) -> tuple[str, ...]:
    """Return the cells of a paired difference, in the order of DIFFERENCES."""
    interval = _between(difference.low, difference.high, "+.1f")
    least = difference.detectable
    detectable = "-" if least is None else f"{least:.1f}" if least < MOST else "> 100"
    name, n = f"{difference.method} - {difference.against}", str(difference.n)
    mean = f"{difference.mean:+.1f}" if difference.n else "-"
    return name, n, mean, interval, _p(difference.p), _p(difference.p_adjusted), detectable, difference.words


def estimate_cells(estimate: Estimate) -> tuple[str, ...]:
    """Return the cells of a replayed and re-executed ablation, in the order of ESTIMATES."""
    optimism = estimate.optimism
    scores = (f"{score:.1f}" for score in (estimate.full, estimate.measured, estimate.replayed))
    interval = _between(optimism.low, optimism.high, "+.1f")
    return estimate.method, estimate.rule, str(optimism.n), *scores, f"{optimism.mean:+.1f}", interval, estimate.words


def tables(comparison: Comparison, estimates: Sequence[Estimate] = ()) -> Iterator[Table]:
    """Yield the tables for a terminal."""
    yield _table(*method_table(comparison.methods))
    if comparison.differences:
        yield _table(DIFFERENCES, [difference_cells(difference) for difference in comparison.differences])
        yield _table(*need_table(comparison.needs))
    if estimates:
        yield _table(ESTIMATES, [estimate_cells(estimate) for estimate in estimates])


def told(comparison: Comparison) -> str:
    """Format the line above the tables: benchmark, models, number of tasks and trials, and what is left out."""
    missing = comparison.planned - comparison.n
    unfinished = missing - comparison.faults
    lacking = f"; {unfinished} of {comparison.planned} tasks are not finished by every method and left out"
    lacking = lacking if unfinished else ""
    lacking += f"; {counted(comparison.faults, 'task')} with a fault left out" if comparison.faults else ""
    notes = f"{lacking}{answering(comparison.model.split(AND))}"
    trials = f" x {comparison.trials} trials" if comparison.trials > 1 else ""
    return f"{comparison.benchmark}, {comparison.model}, n={comparison.n}{trials}{notes}"


def answering(models: Sequence[str]) -> str:
    """Format a note about models that are not language models; empty if all are."""
    scripted = [model for model in models if is_scripted(model)]
    if not scripted:
        return ""
    part = "" if len(scripted) == len(models) else f" ({', '.join(scripted)})"
    if any(model.startswith(SIMULATED) for model in scripted):
        return f"; a simulated agent answers{part}: the figures are about mechanisms, not about a language model"
    return f"; a script answers for the model{part}: nothing here is about the methods' quality"


def _shares(roles: Mapping[str, Prompted]) -> str:
    cached = (f"{role} {tokens.share:.0%}" for role, tokens in sorted(roles.items()) if tokens.cached_tokens)
    return ", ".join(cached) or "-"


def _between(low: float | None, high: float | None, form: str) -> str:
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"


def _successes(summary: Summary) -> str:
    share = f"{summary.successes}/{summary.runs}"
    return share if summary.pass_all is None else f"{share}, every trial {summary.pass_all:.0f} %"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _table(heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> Table:
    table = Table(*heads, box=None)
    for line in lines:
        table.add_row(*line)
    return table


# Files for other programs: `table.json`, `table.csv`, `needs.csv`, `rows.csv`.


def plain(comparison: Comparison, estimates: Sequence[Estimate] = ()) -> dict[str, Any]:
    """Return statistics, rows and replayed ablations as one JSON object."""
    replayed = [estimate.model_dump(mode="json") for estimate in estimates]
    return {**comparison.model_dump(mode="json"), "replayed": replayed, "statistics": COMPARISON}


def write_tables(comparison: Comparison, estimates: Sequence[Estimate], folder: Path) -> None:
    """Write `table.json` with everything, and CSV files.

    `table.csv` has a line for each method, `needs.csv` one for each amount of a method, `rows.csv` one for each run.
    """
    results = plain(comparison, estimates)
    (folder / "table.json").write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    differences = {difference["method"]: difference for difference in results["differences"]}
    methods = [{**line_of(summary), **_beside(differences.get(summary["method"]))} for summary in results["methods"]]
    write_csv(folder / "table.csv", methods)
    write_csv(folder / "needs.csv", results["needs"])
    write_csv(folder / "rows.csv", [line_of(row) for row in results["rows"]])


def write_csv(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write lines as CSV; the columns are the keys of all lines."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    write_rows(path, names, lines)


def line_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a record into one line: goal precision, share of cached tokens by role, number of runs by ending."""
    flat = {key: value for key, value in record.items() if not isinstance(value, dict)}
    goals = {f"goal_precision_{key}": value for key, value in record.get("goals", {}).items()}
    shares = {f"cached_share_{r}": round(Prompted.model_validate(p).share, 4) for r, p in record["roles"].items()}
    endings = {f"ended_{ending}": count for ending, count in record.get("endings", {}).items()}
    return {**flat, **goals, **shares, **endings}


def _beside(difference: Mapping[str, Any] | None) -> dict[str, Any]:
    return {f"difference_{key}": value for key, value in (difference or {}).items() if key not in ("method", "n")}


# Results of a comparison, from one pass over its trajectories.


class Findings(NamedTuple):
    """Results of a comparison: statistics, replayed ablations, curves, and the frames for all analyses."""

    comparison: Comparison
    estimates: list[Estimate]
    curves: Curves
    frames: Frames


def findings_of(plan: Plan, folder: Path) -> Findings:
    """Compute the results of a comparison so far; one trajectory is in memory at a time."""
    gathering = _Gathering(plan)
    frames = frames_of(gathering.passing(ended_cells(plan, folder)))
    comparison, shared = comparison_of(plan.outline, gathering.rows), shared_tasks(plan.outline, gathering.rows)
    trials = [(task, trial) for task in shared for trial in range(plan.trials)]
    curves = curves_of({m.name: gathering.of(m.name, trials) for m in plan.methods})
    return Findings(comparison, estimates_of(plan, gathering.rows, gathering.replays), curves, frames)


class _Gathering:
    def __init__(self, plan: Plan) -> None:
        self.first = plan.methods[0]
        self.rows: list[Row] = []
        self.points: dict[tuple[str, str, int], list[Point]] = {}
        self.replays: dict[tuple[str, int], Replay] = {}

    def of(self, method: str, trials: Sequence[tuple[str, int]]) -> list[list[Point]]:
        # A method whose runs all failed has no points.
        return [self.points[method, *trial] for trial in trials if (method, *trial) in self.points]

    def passing(self, done: Iterator[tuple[Cell, Trajectory]]) -> Iterator[Recorded]:
        for cell, trajectory in done:
            name = cell.method.name
            row = row_of(name, cell.task, trajectory, cell.trial)
            self.rows.append(row)
            if not row.fault:
                self.points[name, cell.task, cell.trial] = points_of(trajectory)
            if cell.method is self.first and self.first.graph == "sdp":
                self.replays[cell.task, cell.trial] = replay_of(trajectory)
            yield Recorded(name, cell.task, cell.trial, trajectory)


# The page: self-contained, with tables, curves and a line for every task.

FIGURES = """
.comparison td, .comparison th { text-align: right; padding: 6px 14px 6px 0; white-space: nowrap; }
.comparison td { border-top: 1px solid var(--line); }
.comparison td:first-child, .comparison th:first-child { text-align: left; }
.worded td:last-child, .worded th:last-child { white-space: normal; text-align: left; min-width: 7em; }
.runs td, .runs th { white-space: normal; overflow-wrap: normal; }
.comparison td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 13em; max-width: 30em; }
section > details { margin-top: 6px; }
section > details > summary { list-style-position: inside; }
header + section { margin-top: 20px; }
.drawing svg text { fill: var(--soft); }
.notice { border-left: 3px solid var(--warn); padding: 3px 0 3px 14px; margin-top: 14px; color: var(--warn);
  font-size: 14px; }
"""
"""Style of tables and drawings, in addition to the style of reports."""

MOST_NAMED = 6
"""Maximum number of methods in a title."""

NOTE = (
    "Scores are 0 to 100, over runs without a fault of the world or its data. Differences are paired over tasks, "
    "trials of a task averaged first: the interval is a bootstrap's, p a paired t-test's, and `detectable` the least "
    "difference that so many tasks would show four times in five. Goal precision is the share of the runs ending "
    "`goal` that the scorer confirms, with its 95 % interval."
)
NEEDS_NOTE = (
    "What a run needs, and how that differs from the first method on the same tasks: paired, in its own unit and in "
    "percent of the first method's sum, both with bootstrap intervals over tasks; below 0 it needs less. World "
    "steps are those that were taken, in copies of the world too."
)
REPLAY_NOTE = (
    "Re-executed: the variant was run. Replayed: the first method's own runs, their scores scaled by the rule of the "
    "SDP paper's appendix C, which takes for granted that the rest of a run would have gone as it did."
)


def write_page(plan: Plan, findings: Findings, drawing: Markup, path: Path) -> None:
    """Write the page. It loads nothing and runs no script, and texts of runs are escaped."""
    title = joined(f"{_compared(plan.methods)} on {plan.benchmark}")
    body = _body(plan, findings, drawing, title)
    path.write_text(Template(PAGE).substitute(title=title, style=STYLE + FIGURES, body=body), encoding="utf-8")


def _compared(methods: Sequence[Method]) -> str:
    first, *others = methods
    swapped = [bool(swaps_of(method.graph, method.operators)) for method in methods]
    if others and {method.graph for method in methods} == {first.graph} and not swapped[0] and all(swapped[1:]):
        return f"{first.name} and {counted(len(others), 'variant')}"
    more = [f"and {len(methods) - MOST_NAMED} more"] if len(methods) > MOST_NAMED else []
    return " · ".join([*(method.name for method in methods[:MOST_NAMED]), *more])


def _body(plan: Plan, findings: Findings, drawing: Markup, title: Markup) -> Markup:
    comparison, warnings = findings.comparison, [f"Warning: {warning}" for warning in findings.comparison.warnings]
    overline = tag("p", told(comparison), class_="overline")
    methods = html_table(*method_table(comparison.methods), looks="comparison worded")
    differences = [difference_cells(difference) for difference in comparison.differences]
    return joined(
        tag("header", overline, tag("h1", title), _facts(plan), *(tag("p", w, class_="notice") for w in warnings)),
        _section("Methods", joined(methods, tag("p", NOTE, class_="key"))),
        *(
            [_section("Differences", html_table(DIFFERENCES, differences, looks="comparison worded"))]
            if differences
            else []
        ),
        *_needed(comparison.needs),
        *_replayed(findings.estimates),
        _section("Score by budget", tag("div", drawing, class_="drawing wide")),
        anatomy_sections(findings.frames),
        _section("Runs", _runs(plan, comparison.rows)),
    )


def _needed(needs: Sequence[Need]) -> list[Markup]:
    if all(need.difference is None for need in needs):
        return []
    table = html_table(*need_table(needs), looks="comparison")
    return [_section("Tokens, calls and steps", joined(table, tag("p", NEEDS_NOTE, class_="key")))]


def _replayed(estimates: Sequence[Estimate]) -> list[Markup]:
    if not estimates:
        return []
    table = html_table(ESTIMATES, [estimate_cells(estimate) for estimate in estimates], looks="comparison worded")
    return [_section("Replayed ablations beside re-executed ones", joined(table, tag("p", REPLAY_NOTE, class_="key")))]


def _facts(plan: Plan) -> Markup:
    facts = {
        "model": ", ".join([plan.model, *(f"{role}: {model}" for role, model in plan.roles.items())]),
        "budget a run": budget_told(plan),
        "swapped": "; ".join(_swapped(plan)) or "nothing",
        "begun": plan.created.replace("T", " "),
        "machine": plan.machine,
        "versions": ", ".join(f"{name} {number}" for name, number in plan.versions.items()),
    }
    return tag("p", *(tag("span", tag("b", name), f" {text}") for name, text in facts.items()), class_="facts")


def budget_told(plan: Plan) -> str:
    """Format the budget of a run."""
    return ", ".join(f"{value:,.12g} {kind}" for kind, value in plan.budget.model_dump(exclude={"priced"}).items())


def _swapped(plan: Plan) -> list[str]:
    swaps = [(m.name, slot, spec) for m in plan.methods for slot, spec in swaps_of(m.graph, m.operators).items()]
    return [f"{name}: {slot} = {spec}" for name, slot, spec in swaps]


def _runs(plan: Plan, rows: Sequence[Row]) -> Markup:
    by_cell = {(row.task, row.trial, row.method): row for row in rows}
    names = [method.name for method in plan.methods]
    lines = [
        (
            task if plan.trials == 1 else f"{task} trial {trial}",
            *(_outcome(by_cell.get((task, trial, n))) for n in names),
        )
        for task in plan.tasks
        for trial in range(plan.trials)
    ]
    return html_table(("task", *names), lines, looks="comparison runs")


def _outcome(row: Row | None) -> str:
    if row is None:
        return "not finished"
    ending = f"{row.ending}, denied by the scorer" if is_denied(row.ending, row.verdict) else row.ending
    halves = f"{row.score:.4g} · {ending} ·", f"{counted(row.calls, 'call')} · {clock(row.seconds)}"
    return " ".join(half.replace(" ", "\N{NO-BREAK SPACE}") for half in halves)  # on two lines in a narrow column


def _section(title: str, inside: Markup) -> Markup:
    return tag("section", tag("h2", title), inside)


# The complete report.

COMPARISON_PAGE = "comparison.html"
"""Name of the file with the page."""


def report(plan: Plan, folder: Path) -> Findings:
    """Write the report of a comparison, which need not be finished, and return its results.

    Writes `table.json`, `table.csv`, `needs.csv`, `rows.csv`, `curves.csv`, `curves.png`, `curves.svg` and
    `comparison.html`.
    """
    findings = findings_of(plan, folder)
    write_tables(findings.comparison, findings.estimates, folder)
    write_csv(folder / "curves.csv", list(curve_lines(findings.curves)))
    write_page(plan, findings, draw_curves(findings.curves, folder), folder / COMPARISON_PAGE)
    return findings
