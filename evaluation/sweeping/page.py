"""A sweep as one self-contained HTML page: a tinted table, a picture, what exchanged operators change, and links."""

from collections.abc import Sequence
from string import Template

from certigraph.evaluation.comparing.keeping import read_plan
from certigraph.evaluation.comparing.page import FIGURES, budget_told
from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.report.html import Markup, counted, joined, table, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.report.parts import compact, figure
from certigraph.evaluation.sweeping.drawing import draw_scores
from certigraph.evaluation.sweeping.driving import Prepared
from certigraph.evaluation.sweeping.findings import SweepFindings
from certigraph.evaluation.sweeping.parts import LOOKS, endings_key, notices, tinted
from certigraph.evaluation.sweeping.table import EFFECTS, dollars, effect_cells, told

FILE = "sweep.html"

NOTE = (
    "Scores are 0 to 100 over the tasks that every method has finished, with 95 % intervals, trials of a task taken "
    "together. Endings, calls, tokens and US dollars are over the same runs of all benchmarks."
)
EFFECTS_NOTE = (
    "Each variant beside its graph as it is, paired over tasks, trials of a task averaged first; p (Holm) is corrected "
    "for all differences of this table."
)
PICTURE_NOTE = "A filled dot is a graph as it is, a hollow one a variant of it."


def write_page(given: Prepared, findings: SweepFindings) -> None:
    """Write the page. Nothing is loaded, no script runs, everything from outside is escaped."""
    methods = given.arms[0].order.plan.methods
    title = joined(_title(given))
    body = _body(given, findings, methods, title)
    text = Template(PAGE).substitute(title=title, style=STYLE + FIGURES + LOOKS, body=body)
    (given.out / FILE).write_text(text, encoding="utf-8")


def _title(given: Prepared) -> str:
    sweep = given.sweep
    graphs, variants = " · ".join(sweep.graphs), counted(len(sweep.operators), "variant")
    return f"{graphs}, in {variants}, on {' · '.join(arm.title for arm in given.arms)}"


def _body(given: Prepared, findings: SweepFindings, methods: Sequence[Method], title: Markup) -> Markup:
    scores = joined(tinted(findings, methods), tag("p", endings_key(findings), class_="key"), _note(NOTE))
    drawing = tag("div", draw_scores(findings, methods), class_="drawing wide")
    changes = table(EFFECTS, map(effect_cells, findings.effects), looks="comparison worded effects")
    return joined(
        tag("header", tag("p", told(findings), class_="overline"), tag("h1", title), notices(findings)),
        _figures(findings),
        _section("Scores", scores),
        _section("At a glance", joined(drawing, _note(PICTURE_NOTE))),
        *([_section("What exchanged operators change", joined(changes, _note(EFFECTS_NOTE)))] * bool(findings.effects)),
        _section("What was run", _facts(given)),
    )


def _figures(findings: SweepFindings) -> Markup:
    runs, spent = sum(found.runs for found in findings.found), findings.spent
    return tag(
        "dl",
        figure("runs", f"{runs - findings.left:,}", f"of {runs:,}"),
        figure("model calls", f"{spent.calls:,}", "of all runs"),
        figure("tokens", compact(spent.tokens), "input and output"),
        figure("model cost", f"${dollars(spent.usd)}", "US dollars"),
        class_="figures",
    )


def _facts(given: Prepared) -> Markup:
    plan = read_plan(given.arms[0].folder)
    most = given.sweep.most.as_json().items()
    facts = {
        "model": ", ".join([plan.model, *(f"{role}: {model}" for role, model in plan.roles.items())]),
        "budget a run": budget_told(plan),
        "all runs together": ", ".join(f"{value:,.12g} {kind}" for kind, value in most) or "no limit",
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
