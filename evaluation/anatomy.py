"""The SDP paper's analyses: failures, cascades, calibration and cost."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from certigraph.evaluation import plots
from certigraph.evaluation.frames import KEY, Frames, without_faults
from certigraph.evaluation.plots import CHART_STYLE, GREY, INKS, drawn
from certigraph.evaluation.statistics import COLUMNS, Told, average_of, grouped, ratio_of, share_interval, shares
from certigraph.runtime.html import Markup, counted, html_table, joined, tag
from certigraph.state.records import FAULTS, GOAL, INTERRUPTED, WORLD_ENDED

# How certified runs move: cascades, retries, replans, compression and credit (SDP, sections 4.1 and 4.2).

MOST_REPLANS = 5
"""Runs with more replans are told together with these: few have them."""

DISCHARGED = ("certified", "undone")
"""Status of predicates that were certified, whatever was returned from later."""

CREDIT = ("depth", "steps", "calls", "tokens")


def cascade_rate(frames: Frames) -> pd.DataFrame:
    """Share of certified transitions that discharge more than one predicate; returns to earlier states left out."""
    moves = transitions(frames)
    return grouped(moves, ["method"], lambda rows: share_interval(rows, rows["depth"] > 1))


def depths(frames: Frames) -> pd.DataFrame:
    """Of all certified transitions the share with cascade depth 1, 2, ... (`depth`)."""
    return shares(transitions(frames), "depth")


def retried(frames: Frames) -> pd.DataFrame:
    """Share of certified transitions whose target was rejected at least once before it was certified."""
    moves = transitions(frames)
    return grouped(moves, ["method"], lambda rows: share_interval(rows, rows["rejected"] > 0))


def replan_curve(frames: Frames) -> pd.DataFrame:
    """Share of runs solved among those with 0, 1, ... replans; MOST_REPLANS stands for more."""
    runs = predicated(frames)
    runs = runs.assign(replans=runs["replans"].clip(upper=MOST_REPLANS)).sort_values("replans", kind="stable")
    return in_order(grouped(runs, ["method", "replans"], lambda rows: share_interval(rows, rows["solved"])), frames)


def compression(frames: Frames) -> pd.DataFrame:
    """Predicates certified per world step of solved runs; `predicates` and `steps` are their means a run."""
    runs = predicated(frames)
    runs = runs[runs["solved"]]
    told = grouped(runs, ["method"], lambda rows: ratio_of(rows, rows["certified"], rows["steps"]))
    means = runs.groupby("method")[["certified", "steps"]].mean().rename(columns={"certified": "predicates"})
    return told.merge(means, left_on="method", right_index=True, how="left")


def credit(frames: Frames) -> pd.DataFrame:
    """What predicates of each kind were worth and took, as means; `measure` names the figure.

    `depth` is k of the transitions that such a predicate led; world `steps`, model `calls` and `tokens` are those since
    the certificate before, shared out in a cascade, the cost of writing the plan left out.
    """
    done = frames.predicates[frames.predicates["status"].isin(DISCHARGED)]
    rows = {measure: done[done["leads"]] if measure == "depth" else done for measure in CREDIT}
    found = [_means(rows[measure], measure).assign(measure=measure) for measure in CREDIT]
    return pd.concat(found, ignore_index=True)[["method", "kind", "measure", *COLUMNS]]


def predicated(frames: Frames) -> pd.DataFrame:
    """The runs of graphs that commit to predicates."""
    return frames.runs[frames.runs["planned"].notna()]


def transitions(frames: Frames) -> pd.DataFrame:
    """The predicates that lead a certified transition, one a transition; returns to earlier states left out."""
    predicates = frames.predicates
    return predicates[predicates["leads"] & predicates["status"].isin(DISCHARGED)]


def in_order(lines: pd.DataFrame, frames: Frames) -> pd.DataFrame:
    """The lines, methods in the order in which they were read."""
    places = {method: place for place, method in enumerate(frames.runs["method"].unique())}
    order = lines["method"].map(places).sort_values(kind="stable").index
    return lines.loc[order].reset_index(drop=True)


def _means(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    return grouped(rows, ["method", "kind"], lambda group: average_of(group, group[measure]))


# Validator calibration: what a certified goal says about the official verdict (SDP, section 4.2, figure 3d).

MEANING = {
    "agreement": "certified and solved, or neither",
    "solved if certified": "goal precision: of runs ending goal those that are solved",
    "solved if not certified": "precision of endings without a certified goal, forced answers included",
    "false accepts": "certified, not solved, of all runs",
    "false rejects": "solved, not certified, of all runs",
}
"""The figures and what they are shares of."""


def calibration(frames: Frames) -> pd.DataFrame:
    """Certified goals against official verdicts, one line a method and `measure` of MEANING.

    Over the runs with predicates that came to an ending of their own: faults and interrupted runs asked no validator.
    """
    runs = predicated(frames)
    ended = runs[~runs["ending"].str.startswith("error:") & (runs["ending"] != INTERRUPTED)]
    found = [grouped(ended, ["method"], told).assign(measure=measure) for measure, told in FIGURES.items()]
    return pd.concat(found, ignore_index=True)[["method", "measure", *COLUMNS]]


def _agreement(runs: pd.DataFrame) -> Told:
    return share_interval(runs, runs["solved"] == _certified(runs))


def _if_certified(runs: pd.DataFrame) -> Told:
    kept = runs[_certified(runs)]
    return share_interval(kept, kept["solved"])


def _if_not(runs: pd.DataFrame) -> Told:
    kept = runs[~_certified(runs)]
    return share_interval(kept, kept["solved"])


def _false_accepts(runs: pd.DataFrame) -> Told:
    return share_interval(runs, _certified(runs) & ~runs["solved"])


def _false_rejects(runs: pd.DataFrame) -> Told:
    return share_interval(runs, runs["solved"] & ~_certified(runs))


def _certified(runs: pd.DataFrame) -> "pd.Series[bool]":
    return runs["ending"] == GOAL


FIGURES = dict(
    zip(MEANING, (_agreement, _if_certified, _if_not, _false_accepts, _false_rejects), strict=True),
)


# Where failed runs stopped, how far they came, and why (SDP, sections 4.1 and 4.2).

QUARTERS = ("first quarter", "second quarter", "third quarter", "last quarter")

CERTIFIED = "goal certified"
"""Where a failed run stopped that stopped nowhere: its whole plan was certified, its task not solved."""

NO_PLAN = "no target"
"""Where a run stopped that ended before it had a target."""

FORCED = "goal forced"
"""Where a run stopped that stopped nowhere either: a policy let its goal pass, uncertified."""

ELSEWHERE = (CERTIFIED, FORCED, NO_PLAN)

CAUSES = {
    "none": "solved without a fault, and the goal certified where the method certifies",
    "uncertified": "solved without a fault, but the goal not certified",
    "fault": "the world or its data failed (error:environment, error:data): other tables leave such runs out",
    "error": "the model's endpoint or an operator failed (error:model, error:operator)",
    INTERRUPTED: "no ending is on record",
    "validation": "the goal was certified but the task not solved",
    "retrieval": "the evidence for the answer was not found (part evidence_found of the score is 0)",
    "budget": "a budget, the steps or a limit of the method's own were used up (limit:*)",
    "world": "the world ended the episode without the task being solved",
    "planning": "a target stayed unmet until tries and replans were spent, or the agent stopped by itself",
}
"""What a run failed by, if it did (the first two did not); of several that fit the first counts."""


def failure_causes(frames: Frames) -> pd.DataFrame:
    """Share of all runs by `cause`, in the order of CAUSES."""
    causes = pd.Series([_cause(row) for row in frames.runs.itertuples()], index=frames.runs.index, dtype="object")
    return shares(frames.runs.assign(cause=pd.Categorical(causes, categories=list(CAUSES), ordered=True)), "cause")


def faults(frames: Frames) -> pd.DataFrame:
    """Share of all runs in which the world or its data failed."""
    return grouped(frames.runs, ["method"], lambda rows: share_interval(rows, rows["ending"].isin(FAULTS)))


def stopped_kinds(frames: Frames) -> pd.DataFrame:
    """Of failed runs with predicates the share that stopped at a target of each `kind`."""
    return shares(_stops(frames), "kind")


def stopped_places(frames: Frames) -> pd.DataFrame:
    """The same by the quarter of the plan in which the target was (`place`)."""
    return shares(_stops(frames), "place")


def certified_part(frames: Frames) -> pd.DataFrame:
    """Mean part of the plan that failed runs had certified; those that certified the goal are told by calibration."""
    runs = predicated(frames)
    failed = runs[~runs["solved"] & (runs["ending"] != GOAL) & (runs["planned"] > 0)]
    parts = failed["certified"] / failed["planned"]
    return grouped(failed, ["method"], lambda rows: average_of(rows, parts.loc[rows.index], top=1.0))


def _stops(frames: Frames) -> pd.DataFrame:
    """Failed runs with the kind of the target that each stopped at, and the quarter of the plan in which it was."""
    runs = predicated(frames)
    stops = frames.predicates.loc[frames.predicates["stopped"], [*KEY, "kind", "place"]]
    failed = runs[~runs["solved"]].merge(stops, on=list(KEY), how="left")
    untold = (failed["forced"] > 0).map({True: FORCED, False: NO_PLAN})
    elsewhere = untold.mask(failed["ending"].eq(GOAL), CERTIFIED)
    quarters = [QUARTERS[min(int(4 * place), 3)] if place == place else None for place in failed["place"]]  # noqa: PLR0124
    quarter = pd.Series(quarters, index=failed.index, dtype="object").fillna(elsewhere)
    kinds = [kind for kind in frames.predicates["kind"].unique() if kind not in ELSEWHERE]
    return failed.assign(
        kind=pd.Categorical(failed["kind"].fillna(elsewhere), [*kinds, *ELSEWHERE], ordered=True),
        place=pd.Categorical(quarter, [*QUARTERS, *ELSEWHERE], ordered=True),
    )


def _cause(run: Any) -> str:
    """By the rules of CAUSES; a run has predicates where it has a plan length."""
    certifies, certified = run.planned is not pd.NA, run.ending == GOAL
    rules = {
        "fault": run.ending in FAULTS,
        "error": run.ending.startswith("error:"),
        INTERRUPTED: run.ending == INTERRUPTED,
        "validation": certifies and certified and not run.solved,
        "uncertified": certifies and run.solved and not certified,
        "none": run.solved,
        "retrieval": run.evidence_found == 0,
        "budget": run.ending.startswith("limit:"),
        "world": run.ending in (WORLD_ENDED, GOAL),
    }
    return next((cause for cause, fits in rules.items() if fits), "planning")


# What runs score by the length of their task, and what they spend where.

MEASURES = ("tokens", "calls", "seconds")


def solved(frames: Frames) -> pd.DataFrame:
    """Share of runs that the benchmark calls solved, faults left out."""
    return grouped(frames.runs, ["method"], lambda rows: share_interval(rows, rows["solved"]))


def score_by_horizon(frames: Frames) -> pd.DataFrame:
    """Mean score (0 to 1) by the length of the task: `horizon` orders, `horizon_name` tells."""
    runs = frames.runs.sort_values("horizon", kind="stable")
    by = ["method", "horizon", "horizon_name"]
    return in_order(grouped(runs, by, lambda rows: average_of(rows, rows["score"], top=1.0)), frames)


def node_costs(frames: Frames) -> pd.DataFrame:
    """Mean `tokens`, `calls` and `seconds` that a `node` spent a run; a run that never came to the node counts as 0."""
    runs, nodes = frames.runs[list(KEY)], frames.nodes
    nodes = nodes.assign(tokens=nodes["input_tokens"] + nodes["output_tokens"])[[*KEY, "node", *MEASURES]]
    pairs = runs.merge(nodes[["method", "node"]].drop_duplicates(), on="method")
    spent = pairs.merge(nodes, on=[*KEY, "node"], how="left").fillna(dict.fromkeys(MEASURES, 0))
    return _each(spent, ["method", "node"], lambda measure, rows: average_of(rows, rows[measure]))


def certified_costs(frames: Frames) -> pd.DataFrame:
    """`tokens`, `calls` and `seconds` of whole runs by the predicates that are certified at their end."""
    runs = predicated(frames)
    return _each(runs, ["method"], lambda measure, rows: ratio_of(rows, rows[measure], rows["certified"]))


def _each(rows: pd.DataFrame, by: list[str], told: Callable[[str, pd.DataFrame], Told]) -> pd.DataFrame:
    found = [grouped(rows, by, partial(told, measure)).assign(measure=measure) for measure in MEASURES]
    return pd.concat(found, ignore_index=True)[[*by, "measure", *COLUMNS]]


# Every analysis by the name of its table: pure functions of the frames.

Analysis = Callable[[Frames], pd.DataFrame]

ANALYSES: dict[str, Analysis] = {
    "faults": faults,
    "solved": solved,
    "cascade_rate": cascade_rate,
    "depths": depths,
    "retried": retried,
    "replan_curve": replan_curve,
    "compression": compression,
    "credit": credit,
    "certified_part": certified_part,
    "stopped_kinds": stopped_kinds,
    "stopped_places": stopped_places,
    "failure_causes": failure_causes,
    "calibration": calibration,
    "score_by_horizon": score_by_horizon,
    "node_costs": node_costs,
    "certified_costs": certified_costs,
}

OF_ALL = frozenset({"faults", "failure_causes", "node_costs", "certified_costs"})
"""The analyses that are over all runs; the others leave out those in which the world or its data failed."""

Tables = dict[str, pd.DataFrame]


def analyse(frames: Frames) -> Tables:
    """All analyses. Each line has `method`, `n` rows over so many `tasks`, `value` and its 95 % interval, low to high.

    A method has no line where there is nothing to tell: of graphs without predicates, and of no runs.
    """
    counted = without_faults(frames)
    return {name: analysis(frames if name in OF_ALL else counted) for name, analysis in ANALYSES.items()}


# The figures of the anatomy: small multiples over the same methods, drawn from the tables of `analyse`.

RATES = {
    "cascade_rate": "cascades, of\ncertified transitions",
    "retried": "retried, of\ncertified transitions",
    "certified_part": "plan certified by\nfailed runs",
    "compression": "predicates per world\naction, solved runs",
}
CREDIT_FIGURE = {
    "depth": "k of the transitions they led",
    "steps": "world actions a predicate",
    "tokens": "tokens a predicate",
}
MOST_KINDS = 12
"""Kinds of predicates that are drawn; the tables have all."""

PRECISION = {"solved if certified": "o", "solved if not certified": "s"}
SOLVED_INKS = {"none": f"{GREY}30", "uncertified": f"{INKS[2]}40"}
"""Light: these runs did not fail."""
CAUSE_INKS = {**SOLVED_INKS, **plots.panel_colours([cause for cause in CAUSES if cause not in SOLVED_INKS])}
ERRORS = {"false accepts": "o", "false rejects": "s"}


def rates(tables: Tables, names: plots.Names) -> Figure:
    """Four rates, a line a method."""
    figure, drawn = plots.beside(len(RATES), names)
    for panel, (table, title) in zip(drawn, RATES.items(), strict=True):
        plots.dots(panel, tables[table], names)
        plots.finish(panel, title, share=table != "compression")
    return figure


def draw_calibration(tables: Tables, names: plots.Names) -> Figure:
    """Agreement of certified goals with official verdicts, precision of both kinds of ending, and both errors."""
    figure, drawn = plots.beside(3, names)
    found = tables["calibration"]
    plots.dots(drawn[0], found[found["measure"] == "agreement"], names)
    for panel, marks in zip(drawn[1:], (PRECISION, ERRORS), strict=True):
        plots.pairs(panel, found, names, marks)
    for panel, title in zip(
        drawn, ("agreement", "solved, by kind of ending", "wrong verdicts, of all runs"), strict=True
    ):
        plots.finish(panel, title)
    return figure


def stops(tables: Tables, names: plots.Names) -> Figure:
    """Where failed runs stopped, by kind and quarter of the plan, and what runs failed by."""
    figure, drawn = plots.beside(3, names, below=1.5, coloured=False)
    titles = ("failed runs, by the\ntarget they stopped at", "failed runs, by\nwhere in the plan", "all runs, by cause")
    columns = {"stopped_kinds": "kind", "stopped_places": "place", "failure_causes": "cause"}
    for panel, title, (table, column) in zip(drawn, titles, columns.items(), strict=True):
        found = tables[table]
        parts = CAUSE_INKS if column == "cause" else plots.panel_colours(list(found[column].drop_duplicates()))
        used = {part: colour for part, colour in parts.items() if part in set(found[column])}
        plots.bars(panel, found, names, column, used)
        plots.key(panel, plots.patches(used))
        plots.finish(panel, title)
    return figure


def curves(tables: Tables, names: plots.Names) -> Figure:
    """Success by number of replans, and score by the length of the task."""
    figure = Figure(figsize=(plots.INCHES, 3.6 + 0.3 * (-(-len(names) // 4))), layout="constrained")
    left, right = figure.subplots(1, 2)
    replans, horizon = tables["replan_curve"], tables["score_by_horizon"].sort_values("horizon", kind="stable")
    plots.curve(left, replans, names, "replans", sorted(replans["replans"].unique()))
    left.set(xlabel="replans", ylabel="solved")
    left.set_title(f"runs solved, {plots.sizes(replans)}", fontsize=9, loc="left")
    plots.curve(right, horizon, names, "horizon_name", list(horizon["horizon_name"].unique()))
    right.set(xlabel="length of the task", ylabel="mean score")
    right.set_title(f"score, {plots.sizes(horizon)}", fontsize=9, loc="left")
    plots.legend(figure, names)
    return figure


def draw_credit(tables: Tables, names: plots.Names) -> Figure:
    """Depth, world actions and tokens of certified predicates, a line for each kind, methods side by side."""
    found = tables["credit"]
    kinds = list(found["kind"].unique())[:MOST_KINDS]
    figure, drawn = plots.beside(len(CREDIT_FIGURE), kinds, below=0.13 * len(kinds) * len(names), coloured=False)
    for panel, (measure, title) in zip(drawn, CREDIT_FIGURE.items(), strict=True):
        plots.by_kind(panel, found[found["measure"] == measure], names, kinds)
        plots.finish(panel, title, share=False, counted=False)
    plots.legend(figure, names)
    return figure


def spending(tables: Tables, names: plots.Names) -> Figure:
    """Tokens by node a run, and per certified predicate."""
    figure, drawn = plots.beside(2, names, below=1.2, coloured=False)
    nodes, certified = tables["node_costs"], tables["certified_costs"]
    tokens = nodes[(nodes["measure"] == "tokens") & (nodes["value"] > 0)]
    parts = plots.panel_colours(list(tokens["node"].unique()))
    plots.bars(drawn[0], tokens, names, "node", parts)
    plots.key(drawn[0], plots.patches(parts), columns=4)
    plots.dots(drawn[1], certified[certified["measure"] == "tokens"], names)
    for panel, title in zip(drawn, ("tokens a run, by node", "tokens per certified predicate"), strict=True):
        plots.finish(panel, title, share=False)
    return figure


ANATOMY_FIGURES: dict[str, Callable[[Tables, plots.Names], Figure]] = {
    "rates": rates,
    "curves": curves,
    "stops": stops,
    "calibration": draw_calibration,
    "credit": draw_credit,
    "spending": spending,
}


# The anatomy as sections of a page: figures, how to read them, and the tables behind them.

MOST_NAMED = 5
"""Runs that are named of those without an ending."""

MOST_LINES = 200
"""Lines of a table on the page; the CSV has all."""


class Part(NamedTuple):
    """A section: its title, how to read its figure, and the tables behind it."""

    title: str
    caption: str
    tables: tuple[str, ...]


GENERAL = (
    "Bars through points are 95 % intervals: Wilson's for shares, t for means; rows of one task count as a cluster. "
    "Hollow points are over fewer than five rows. Rates leave out runs in which the world or its data failed. Methods "
    "without predicates have no data where those are asked for."
)
PARTS = {
    "rates": Part(
        "How certified runs move",
        "A cascade is one action that discharged several predicates; n counts certified transitions, returns left out. "
        "A transition counts as retried when its target was rejected before. Failed runs that certified their goal are "
        "left out of the third panel and told under calibration.",
        ("cascade_rate", "depths", "retried", "certified_part", "compression"),
    ),
    "curves": Part(
        "Replans and length of the task",
        "Left: of the runs with so many replans the share that solved the task; 5 stands for 5 and more. A falling "
        "line says that replanning does not rescue. Right: mean score by a length that is known before the run where "
        "the benchmark has one (days, blocks, group of the gold path), else by the length of the plan.",
        ("solved", "faults", "replan_curve", "score_by_horizon"),
    ),
    "stops": Part(
        "Where and why runs fail",
        f"A bar's parts add up to all runs under n. Causes exclude each other, the first that fits counts: "
        f"{'; '.join(f'{cause}: {rule}' for cause, rule in CAUSES.items())}.",
        ("stopped_kinds", "stopped_places", "failure_causes"),
    ),
    "calibration": Part(
        "Calibration of the validator",
        "A certified goal set against the benchmark's own verdict, over runs that came to an ending of their own. The "
        "further apart the two points of the middle panel are, the more a certificate says.",
        ("calibration",),
    ),
    "credit": Part(
        "Credit of predicates",
        "What certified predicates of each kind were worth and took since the certificate before, shared out in a "
        "cascade; the cost of writing the plan is left out. n is in the table.",
        ("credit",),
    ),
    "spending": Part(
        "What runs spend",
        "Left: mean tokens a run, of prompts and answers. Right: all tokens of all runs by the predicates that are "
        "certified at their end, failed runs included.",
        ("node_costs", "certified_costs"),
    ),
}


def anatomy_sections(frames: Frames) -> Markup:
    """All sections, to put into a page with the styles of `report.page` and `comparing.page`."""
    tables, names = analyse(frames), methods_of(frames)
    with mpl.rc_context(CHART_STYLE):
        drawings = {name: drawn(draw(tables, names)) for name, draw in ANATOMY_FIGURES.items()}
    return sections_of(frames, tables, drawings)


def sections_of(frames: Frames, tables: Tables, drawings: Mapping[str, Markup]) -> Markup:
    """The same from tables and drawings that are made already."""
    if frames.runs.empty:
        return tag("section", tag("h2", "Anatomy"), tag("p", "No run is on record.", class_="quiet"))
    about = tag("section", tag("h2", "Anatomy of the runs"), tag("p", _about(frames), class_="key"))
    return joined(about, *(_section(part, drawings[name], tables) for name, part in PARTS.items()))


def methods_of(frames: Frames) -> list[str]:
    """The methods in the order in which they were read."""
    return list(frames.runs["method"].unique())


def figure_text(line: Any, name: str) -> str:
    """A cell of a table: counts whole, other figures with three digits, `-` where there is none."""
    value = getattr(line, name)
    if not isinstance(value, str) and pd.isna(value):
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _about(frames: Frames) -> str:
    runs = frames.runs
    stopped = runs.loc[runs["ending"] == INTERRUPTED, "run"].tolist()
    more = f" and {len(stopped) - MOST_NAMED:,} more" if len(stopped) > MOST_NAMED else ""
    named = f" No ending is on record of {', '.join(stopped[:MOST_NAMED])}{more}: counted as interrupted."
    return f"{counted(len(runs), 'run')}. {GENERAL}{named if stopped else ''}"


def _section(part: Part, drawing: Markup, tables: Tables) -> Markup:
    shown = (tag("details", tag("summary", name.replace("_", " ")), _table(tables[name])) for name in part.tables)
    return tag(
        "section",
        tag("h2", part.title),
        tag("div", drawing, class_="drawing wide"),
        tag("p", part.caption, class_="key"),
        *shown,
    )


def _table(frame: pd.DataFrame) -> Markup:
    columns = list(frame.columns)
    heads = (name.replace("_", " ") for name in columns)
    lines = ((figure_text(line, c) for c in columns) for line in frame.head(MOST_LINES).itertuples(index=False))
    left = len(frame) - MOST_LINES
    more = [tag("p", f"{counted(left, 'more line')}: see the CSV", class_="quiet")] if left > 0 else []
    return html_table(heads, lines, *more)
