"""The figures of the anatomy: small multiples over the same methods, drawn from the tables of `analyse`."""

from collections.abc import Callable

from matplotlib.figure import Figure

from certigraph.evaluation.anatomy import layout, panels
from certigraph.evaluation.anatomy.analyses import Tables
from certigraph.evaluation.anatomy.failures import CAUSES
from certigraph.evaluation.comparing.drawing import GREY, INKS

RATES = {
    "cascade_rate": "cascades, of\ncertified transitions",
    "retried": "retried, of\ncertified transitions",
    "certified_part": "plan certified by\nfailed runs",
    "compression": "predicates per world\naction, solved runs",
}
CREDIT = {
    "depth": "k of the transitions they led",
    "steps": "world actions a predicate",
    "tokens": "tokens a predicate",
}
MOST_KINDS = 12
"""Kinds of predicates that are drawn; the tables have all."""

PRECISION = {"solved if certified": "o", "solved if not certified": "s"}
SOLVED_INKS = {"none": f"{GREY}30", "uncertified": f"{INKS[2]}40"}
"""Light: these runs did not fail."""
CAUSE_INKS = {**SOLVED_INKS, **panels.colours([cause for cause in CAUSES if cause not in SOLVED_INKS])}
ERRORS = {"false accepts": "o", "false rejects": "s"}


def rates(tables: Tables, names: layout.Names) -> Figure:
    """Four rates, a line a method."""
    figure, drawn = layout.beside(len(RATES), names)
    for panel, (table, title) in zip(drawn, RATES.items(), strict=True):
        panels.dots(panel, tables[table], names)
        layout.finish(panel, title, share=table != "compression")
    return figure


def calibration(tables: Tables, names: layout.Names) -> Figure:
    """Agreement of certified goals with official verdicts, precision of both kinds of ending, and both errors."""
    figure, drawn = layout.beside(3, names)
    found = tables["calibration"]
    panels.dots(drawn[0], found[found["measure"] == "agreement"], names)
    for panel, marks in zip(drawn[1:], (PRECISION, ERRORS), strict=True):
        layout.pairs(panel, found, names, marks)
    for panel, title in zip(
        drawn, ("agreement", "solved, by kind of ending", "wrong verdicts, of all runs"), strict=True
    ):
        layout.finish(panel, title)
    return figure


def stops(tables: Tables, names: layout.Names) -> Figure:
    """Where failed runs stopped, by kind and quarter of the plan, and what runs failed by."""
    figure, drawn = layout.beside(3, names, below=1.5, coloured=False)
    titles = ("failed runs, by the\ntarget they stopped at", "failed runs, by\nwhere in the plan", "all runs, by cause")
    columns = {"stopped_kinds": "kind", "stopped_places": "place", "failure_causes": "cause"}
    for panel, title, (table, column) in zip(drawn, titles, columns.items(), strict=True):
        found = tables[table]
        parts = CAUSE_INKS if column == "cause" else panels.colours(list(found[column].drop_duplicates()))
        used = {part: colour for part, colour in parts.items() if part in set(found[column])}
        panels.bars(panel, found, names, column, used)
        panels.key(panel, panels.patches(used))
        layout.finish(panel, title)
    return figure


def curves(tables: Tables, names: layout.Names) -> Figure:
    """Success by number of replans, and score by the length of the task."""
    figure = Figure(figsize=(layout.INCHES, 3.6 + 0.3 * (-(-len(names) // 4))), layout="constrained")
    left, right = figure.subplots(1, 2)
    replans, horizon = tables["replan_curve"], tables["score_by_horizon"].sort_values("horizon", kind="stable")
    layout.curve(left, replans, names, "replans", sorted(replans["replans"].unique()))
    left.set(xlabel="replans", ylabel="solved")
    left.set_title(f"runs solved, {layout.sizes(replans)}", fontsize=9, loc="left")
    layout.curve(right, horizon, names, "horizon_name", list(horizon["horizon_name"].unique()))
    right.set(xlabel="length of the task", ylabel="mean score")
    right.set_title(f"score, {layout.sizes(horizon)}", fontsize=9, loc="left")
    layout.legend(figure, names)
    return figure


def credit(tables: Tables, names: layout.Names) -> Figure:
    """Depth, world actions and tokens of certified predicates, a line for each kind, methods side by side."""
    found = tables["credit"]
    kinds = list(found["kind"].unique())[:MOST_KINDS]
    figure, drawn = layout.beside(len(CREDIT), kinds, below=0.13 * len(kinds) * len(names), coloured=False)
    for panel, (measure, title) in zip(drawn, CREDIT.items(), strict=True):
        layout.by_kind(panel, found[found["measure"] == measure], names, kinds)
        layout.finish(panel, title, share=False, counted=False)
    layout.legend(figure, names)
    return figure


def spending(tables: Tables, names: layout.Names) -> Figure:
    """Tokens by node a run, and per certified predicate."""
    figure, drawn = layout.beside(2, names, below=1.2, coloured=False)
    nodes, certified = tables["node_costs"], tables["certified_costs"]
    tokens = nodes[(nodes["measure"] == "tokens") & (nodes["value"] > 0)]
    parts = panels.colours(list(tokens["node"].unique()))
    panels.bars(drawn[0], tokens, names, "node", parts)
    panels.key(drawn[0], panels.patches(parts), columns=4)
    panels.dots(drawn[1], certified[certified["measure"] == "tokens"], names)
    for panel, title in zip(drawn, ("tokens a run, by node", "tokens per certified predicate"), strict=True):
        layout.finish(panel, title, share=False)
    return figure


FIGURES: dict[str, Callable[[Tables, layout.Names], Figure]] = {
    "rates": rates,
    "curves": curves,
    "stops": stops,
    "calibration": calibration,
    "credit": credit,
    "spending": spending,
}
