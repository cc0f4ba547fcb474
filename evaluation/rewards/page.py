"""A measurement as one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from string import Template
from typing import NamedTuple

from certigraph.adapters.rewardprediction.benchmark import FIGURES
from certigraph.evaluation.comparing.page import FIGURES as LOOKS
from certigraph.evaluation.report.html import Markup, counted, joined, table, tag
from certigraph.evaluation.report.page import PAGE, STYLE
from certigraph.evaluation.rewards.building import COUNTS, count_cells
from certigraph.evaluation.rewards.findings import shown
from certigraph.evaluation.rewards.keeping import Count
from certigraph.evaluation.rewards.rating import Failed
from certigraph.evaluation.rewards.speed import Speed
from certigraph.evaluation.rewards.summary import EPIC, Line

TITLES = {
    "epic": "EPIC, pooled",
    "epic_each": "EPIC, per trajectory",
    "epic_raw": "EPIC, pooled, raw",
    "epic_each_raw": "EPIC, per trajectory, raw",
    "final_positive": "final reward, positive",
    "final_negative": "final reward, negative",
}

READING = (
    "EPIC distance between predicted and true rewards, 0 to 1, lower is better; a constant scores 0.707. Pooled: the "
    "positive and the negative trajectory of a task together, as the paper's code has it. Mean over tasks, "
    "overall the mean of the domains, with 95 % intervals: t over tasks, overall a bootstrap within domains."
)

MORE = (
    "Per trajectory: the mean of each one's own distance, the negative ones' being 0.707 where their true rewards are "
    "all 0. Raw: against the world's own rewards in place of the shaped ones."
)

SPEEDS = (
    "Trajectories a second in one process. Cold: with loading the encoder and the first vector of every text; warm: "
    "the same trajectories again."
)


class Told(NamedTuple):
    """What a measurement has come to."""

    lines: Sequence[Line]
    findings: Sequence[str]
    speeds: Sequence[Speed] = ()
    failed: Sequence[Failed] = ()
    counts: Sequence[Count] = ()
    notes: Sequence[str] = ()
    """What else is to be known of the data."""


def by_domain(lines: Sequence[Line]) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the pooled distances: a line a predictor, a column a domain."""
    domains = list(dict.fromkeys(line.domain for line in lines))
    found = {(line.predictor, line.domain): shown(line.figures[EPIC]) for line in lines}
    names = list(dict.fromkeys(line.predictor for line in lines))
    return ["predictor", *domains], [[name, *(found.get((name, d), "") for d in domains)] for name in names]


def page_of(told: Told, drawings: Mapping[str, Markup]) -> str:
    """The page's text. Nothing is loaded, no script runs, everything from outside is escaped."""
    title = joined("How well rewards are predicted")
    n = max((line.n for line in told.lines), default=0)
    over = tag("p", f"RewardPrediction, {counted(n, 'pair')} of trajectories", class_="overline")
    facts = tag("div", *(tag("p", one, class_="key") for one in (*told.findings, *told.notes)))
    distances = joined(_drawn(drawings, "bars"), table(*by_domain(told.lines)), tag("p", READING, class_="key"), facts)
    sections = [
        _section("EPIC distance", distances),
        _section("Along examples", _drawn(drawings, "curves")),
        _section("All figures", joined(_all(told.lines), tag("p", MORE, class_="key"))),
        *([_section("How far supervised heads carry", _drawn(drawings, "heat"))] if "heat" in drawings else []),
        *([_section("Speed", _speeds(told.speeds))] if told.speeds else []),
        *([_section("Not rated", _failed(told.failed))] if told.failed else []),
        *([_section("The data", table(COUNTS, map(count_cells, told.counts)))] if told.counts else []),
    ]
    body = joined(tag("header", over, tag("h1", title)), *sections)
    return Template(PAGE).substitute(title=title, style=STYLE + LOOKS, body=body)


def _all(lines: Sequence[Line]) -> Markup:
    heads = ["predictor", "domain", "tasks", *(TITLES[f] for f in FIGURES), "pooled EPIC minus the first's"]
    cells = (
        [
            line.predictor,
            line.domain,
            str(line.n),
            *(shown(line.figures[f]) for f in FIGURES),
            shown(line.difference, "+.3f") if line.difference else "",
        ]
        for line in lines
    )
    return table(heads, cells)


def _speeds(speeds: Sequence[Speed]) -> Markup:
    cells = ([one.predictor, str(one.trajectories), f"{one.cold:g}", f"{one.warm:g}"] for one in speeds)
    return joined(table(["predictor", "trajectories", "cold", "warm"], cells), tag("p", SPEEDS, class_="key"))


def _failed(failed: Sequence[Failed]) -> Markup:
    return table(["predictor", "pair", "why"], ([one.predictor, one.pair, one.reason] for one in failed))


def _drawn(drawings: Mapping[str, Markup], name: str) -> Markup:
    return tag("div", drawings[name], class_="drawing wide") if name in drawings else Markup("")


def _section(title: str, inside: Markup) -> Markup:
    return tag("section", tag("h2", title), inside)
