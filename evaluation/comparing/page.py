"""A comparison as one self-contained HTML page: tables, curves and a line for every run."""

from collections.abc import Sequence
from pathlib import Path
from string import Template

from certigraph.evaluation.ablating.estimates import Estimate
from certigraph.evaluation.anatomy.sections import anatomy_sections
from certigraph.evaluation.comparing.cost_table import need_table
from certigraph.evaluation.comparing.costs import Need
from certigraph.evaluation.comparing.findings import Findings
from certigraph.evaluation.comparing.plan import Method, Plan
from certigraph.evaluation.comparing.rows import Row
from certigraph.evaluation.comparing.table import (
    DIFFERENCES,
    ESTIMATES,
    difference_cells,
    estimate_cells,
    method_table,
    told,
)
from certigraph.evaluation.report.graded import is_denied
from certigraph.evaluation.report.html import Markup, counted, joined, table, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.report.parts import clock
from certigraph.evaluation.settings import swaps_of

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
MOST_NAMED = 6
"""Methods that a title names."""

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
    """Write the page. Nothing is loaded, no script runs, everything from outside is escaped."""
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
    methods = table(*method_table(comparison.methods), looks="comparison worded")
    differences = [difference_cells(found) for found in comparison.differences]
    return joined(
        tag("header", overline, tag("h1", title), _facts(plan), *(tag("p", w, class_="notice") for w in warnings)),
        _section("Methods", joined(methods, tag("p", NOTE, class_="key"))),
        *([_section("Differences", table(DIFFERENCES, differences, looks="comparison worded"))] if differences else []),
        *_needed(comparison.needs),
        *_replayed(findings.estimates),
        _section("Score by budget", tag("div", drawing, class_="drawing wide")),
        anatomy_sections(findings.frames),
        _section("Runs", _runs(plan, comparison.rows)),
    )


def _needed(needs: Sequence[Need]) -> list[Markup]:
    if all(need.difference is None for need in needs):
        return []
    told = table(*need_table(needs), looks="comparison")
    return [_section("Tokens, calls and steps", joined(told, tag("p", NEEDS_NOTE, class_="key")))]


def _replayed(estimates: Sequence[Estimate]) -> list[Markup]:
    if not estimates:
        return []
    told = table(ESTIMATES, [estimate_cells(estimate) for estimate in estimates], looks="comparison worded")
    return [_section("Replayed ablations beside re-executed ones", joined(told, tag("p", REPLAY_NOTE, class_="key")))]


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
    """What a run may spend, in words."""
    return ", ".join(f"{value:,.12g} {kind}" for kind, value in plan.budget.model_dump(exclude={"priced"}).items())


def _swapped(plan: Plan) -> list[str]:
    swaps = [(m.name, slot, spec) for m in plan.methods for slot, spec in swaps_of(m.graph, m.operators).items()]
    return [f"{name}: {slot} = {spec}" for name, slot, spec in swaps]


def _runs(plan: Plan, rows: Sequence[Row]) -> Markup:
    """Scores and endings of each task's trials, a column a method."""
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
    return table(("task", *names), lines, looks="comparison runs")


def _outcome(row: Row | None) -> str:
    if row is None:
        return "not finished"
    ending = f"{row.ending}, denied by the scorer" if is_denied(row.ending, row.verdict) else row.ending
    halves = f"{row.score:.4g} · {ending} ·", f"{counted(row.calls, 'call')} · {clock(row.seconds)}"
    return " ".join(half.replace(" ", "\N{NO-BREAK SPACE}") for half in halves)  # on two lines in a narrow column


def _section(title: str, inside: Markup) -> Markup:
    return tag("section", tag("h2", title), inside)
