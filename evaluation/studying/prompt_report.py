"""Everything that is written of the study of TDP's prompts: sizes and slopes as CSV, a figure, and a page."""

from pathlib import Path
from string import Template
from typing import NamedTuple

import matplotlib as mpl

from certigraph.adapters.caching import whole_file
from certigraph.evaluation.comparing.drawing import STYLE as INK
from certigraph.evaluation.comparing.drawing import written
from certigraph.evaluation.comparing.files import write_csv
from certigraph.evaluation.comparing.page import FIGURES
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.table import answering
from certigraph.evaluation.report.html import Markup, counted, joined, table, tag
from certigraph.evaluation.report.page import PAGE as LAYOUT
from certigraph.evaluation.report.page import STYLE
from certigraph.evaluation.studying.corridor_mind import STRETCH
from certigraph.evaluation.studying.prompt_drawing import growing_prompts
from certigraph.evaluation.studying.prompt_sizes import Size, sizes_in
from certigraph.evaluation.studying.prompt_totals import TOTAL_HEADS, Total, total_cells, totals_of
from certigraph.evaluation.studying.slopes import LITTLE, Slope, slopes_of

PAGE = "study.html"
TITLE = "Prompts of TDP and of others as episodes grow"
HEADS = ("task", "method", "prompts about", "operator", "shortest", "longest", "slope", "95 % interval", "in words")

KEY = (
    "A line is the largest prompt of an episode against the world steps that its task takes, over episodes of "
    "different lengths: shortest and longest in characters, the slope in characters a step. Growing: the whole "
    f"interval of the slope is above 0; bounded: it holds 0 or less and stays below {LITTLE:g}. Deep tasks are one "
    f"sub-task of all steps, wide ones sub-tasks of {STRETCH}, each of which needs the one before; to the other "
    "methods both are the same task. No prompt holds more than `limits.context` characters of earlier rounds, which "
    "these episodes stay below."
)

TOTAL_KEY = (
    "What all calls of an episode read and wrote together. TDP pays for a decomposition, a plan and a revision a "
    "sub-task, and a judgement an action; Plan-and-Act for a plan of all that is left after every action."
)


class Study(NamedTuple):
    """What the study has come to so far."""

    sizes: list[Size]
    slopes: list[Slope]
    totals: list[Total]


def report(plan: Plan, folder: Path) -> Study:
    """Write the report as far as the study has come, and return what was found.

    Writes `study.html`, `prompts.csv` with a line a prompt, `slopes.csv`, `totals.csv` with a line an episode,
    `prompts.png` and `prompts.svg`.
    """
    sizes = sizes_in(plan, folder)
    study = Study(sizes, slopes_of(sizes), totals_of(sizes))
    for name, lines in (("prompts", study.sizes), ("slopes", study.slopes), ("totals", study.totals)):
        with whole_file(folder / f"{name}.csv") as draft:
            write_csv(draft, [line._asdict() for line in lines])
    with mpl.rc_context(INK):
        drawing = written(growing_prompts(sizes), folder / "prompts")
    with whole_file(folder / PAGE) as draft:
        draft.write_text(_page(plan, study, drawing), encoding="utf-8")
    return study


def slope_cells(slope: Slope) -> tuple[str, ...]:
    """A slope as text, in the order of HEADS."""
    told = "-" if slope.slope is None else f"{slope.slope:+.1f}"
    between = "-" if slope.low is None or slope.high is None else f"{slope.low:+.1f} to {slope.high:+.1f}"
    sizes = f"{slope.shortest:,}", f"{slope.longest:,}"
    return slope.kind, slope.method, slope.about, slope.operator, *sizes, told, between, slope.words


def _page(plan: Plan, study: Study, drawing: Markup) -> str:
    """Nothing is loaded, no script runs, everything from outside is escaped."""
    planned = len(plan.methods) * len(plan.tasks)
    done = len({(size.method, size.kind, size.rooms) for size in study.sizes})
    lacking = f"; {counted(planned - done, 'run')} not finished" if done < planned else ""
    told = f"{counted(done, 'scripted run')}{lacking}{answering([plan.model])}"
    lines = table(HEADS, map(slope_cells, study.slopes), looks="comparison worded")
    totals = table(TOTAL_HEADS, map(total_cells, study.totals), looks="comparison worded")
    body = joined(
        tag("header", tag("p", told, class_="overline"), tag("h1", TITLE)),
        tag("section", tag("h2", "Longest episodes"), tag("div", drawing, class_="drawing wide")),
        tag("section", tag("h2", "Slopes"), lines, tag("p", KEY, class_="key")),
        tag("section", tag("h2", "Tokens of whole episodes"), totals, tag("p", TOTAL_KEY, class_="key")),
    )
    return Template(LAYOUT).substitute(title=TITLE, style=STYLE + FIGURES, body=body)
