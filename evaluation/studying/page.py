"""The study as one self-contained HTML page: its tables, how to read them, and the files that they are in."""

from collections.abc import Mapping
from string import Template
from typing import NamedTuple

import pandas as pd

from certigraph.evaluation.comparing.page import FIGURES
from certigraph.evaluation.comparing.plan import AND, Plan
from certigraph.evaluation.comparing.table import answering
from certigraph.evaluation.report.html import Markup, counted, joined, table, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.studying.arms import is_arm
from certigraph.evaluation.studying.gap_rules import CORRECT
from certigraph.evaluation.studying.gaps import GAPS
from certigraph.evaluation.studying.shown import readable
from certigraph.evaluation.studying.tables import Tables, cell


class Part(NamedTuple):
    """A section: how to read it, the tables it shows, and the name of its figure if it has one."""

    title: str
    caption: str
    tables: tuple[str, ...]
    figure: str = ""


PARTS = (
    Part(
        "Scores and tokens",
        "Means a run with 95 % intervals over tasks, methods as harness/memory; score is the benchmark's own, 0 to "
        "100. Natural runs: what a shadow gate asked is left out.",
        ("scores",),
    ),
    Part(
        "Runs that an error ended",
        "They are in no other table, and the next call tries them again. Where arms differ in them, the others are "
        "over easier tasks: what fails under an arm may be its hardest.",
        ("errors",),
    ),
    Part(
        "Differences",
        "Left minus right, paired over tasks: bootstrap interval, paired t-test, Holm-Bonferroni over each family and "
        "measure, and the least difference that so many tasks would show four times in five.",
        ("differences",),
    ),
    Part(
        "Quality against tokens",
        "Filled: natural runs; hollow: with the gate. A line joins the conditions that no other one of the harness "
        "beats, dashed with the gate.",
        ("pareto",),
        "quality",
    ),
    Part(
        "Exhaustion gate",
        "The blended counterfactual: the gate's own answer where it fired, else the natural one, both of the same run. "
        "Savings are net: the final answer that the gate asks for is counted, and what the gate itself asks.",
        ("gate", "gate_by_memory", "fire_rounds"),
    ),
    Part(
        "Other settings of the gate: a replay without answers",
        "When each setting would have fired on the recorded rounds. A replay knows no scores, and its savings leave "
        "out the final answer, which would still have to be paid for.",
        ("gate_replay",),
    ),
    Part(
        "Prompts by round",
        "Prompt tokens of the agent's own question, over the runs that came so far; memory's own calls are left out.",
        ("prompts",),
        "growth",
    ),
    Part(
        "What belief states take",
        "Reorganisation curates a belief that has grown beyond its trigger. Artefacts: runs in which an open question "
        "of a structured belief says that nothing is known.",
        ("reorganisation", "artefacts"),
    ),
    Part(
        "By number of hops",
        "Hops are the gold passages of a question; those of which the benchmark names none are left out. Families "
        "of tests are those of one number of hops.",
        ("hops", "differences_by_hops"),
    ),
    Part(
        "Gaps",
        f"Wrong: a score below {CORRECT:g} of 1. " + " ".join(f"{gap.name}, {gap.definition}." for gap in GAPS),
        ("gaps",),
    ),
)


LONG = 16
"""Lines of a table beyond which it is folded."""


def page_of(plan: Plan, tables: Tables, drawings: Mapping[str, Markup], done: int) -> str:
    """The page's text. Nothing is loaded, no script runs, everything from outside is escaped."""
    runs = sum(map(is_arm, plan.methods)) * len(plan.tasks) * plan.trials
    model = plan.outline.model
    lacking = f"; {counted(runs - done, 'run')} not finished" if done < runs else ""
    told = f"{plan.benchmark}, {model}, {counted(done, 'run')}{lacking}{answering(model.split(AND))}"
    title = joined(f"CGDP's study on {plan.benchmark}")
    header = tag("header", tag("p", told, class_="overline"), tag("h1", title))
    always = {"errors"} if done else set()
    parts = [p for p in PARTS if always & {*p.tables} or any(not tables[name].empty for name in p.tables)]
    sections = [_section(part, tables, drawings) for part in parts] or [tag("section", tag("p", "nothing to tell yet"))]
    body = joined(header, *sections)
    return Template(PAGE).substitute(title=title, style=STYLE + FIGURES, body=body)


def _section(part: Part, tables: Tables, drawings: Mapping[str, Markup]) -> Markup:
    drawing = [tag("div", drawings[part.figure], class_="drawing wide")] if part.figure else []
    shown = (
        joined(tag("p", f"{name}.csv", class_="quiet"), _table(readable(name, tables[name]))) for name in part.tables
    )
    return tag("section", tag("h2", part.title), *drawing, tag("p", part.caption, class_="key"), *shown)


def _table(frame: pd.DataFrame) -> Markup:
    if frame.empty:
        return tag("p", "nothing to tell", class_="quiet")
    heads = (str(name).replace("_", " ") for name in frame.columns)
    shown = table(heads, (map(cell, line) for line in frame.itertuples(index=False, name=None)))
    return tag("details", tag("summary", counted(len(frame), "line")), shown) if len(frame) > LONG else shown
