"""The analyses of the SDP paper as tables and figures: cascades, retries, replans, failures, calibration and cost.

A cascade is a transition that certified several predicates by one action.
`analyse` computes all tables from frames, `ANATOMY_FIGURES` has the functions that draw them, and `anatomy_view`
lays out the sections of an HTML page.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from certigraph.evaluation import plots
from certigraph.evaluation.frames import KEY_COLUMNS, Frames, without_faults
from certigraph.evaluation.plots import GREY, SERIES_COLOURS, chart_style, to_svg
from certigraph.evaluation.statistics import (
    STATISTIC_COLUMNS,
    Measure,
    Statistic,
    average_of,
    compute_by_group,
    measure_table,
    ratio_of,
    share_interval,
    shares_by_method,
)
from certigraph.evaluation.tables import frame_cells
from certigraph.state.endings import FAULT_ENDINGS, FINISHED, GOAL, INTERRUPTED, WORLD_ENDED

# Progress of certified runs: cascades, retries, replans, compression and credit (SDP, sections 4.1 and 4.2).

MAX_REPLANS = 5
"""Largest number of replans in the table of replans; runs with more replans are counted there too."""

CERTIFIED_STATUSES = ("certified", "undone")
"""Statuses of predicates that were certified at some time, including those undone later."""

CREDIT_MEASURES = ("depth", "steps", "calls", "tokens")
"""Measures in the table of credit (what certified predicates of each kind were worth and cost)."""


def cascade_rate(frames: Frames) -> pd.DataFrame:
    """Compute the share of transitions that certified several predicates, without returns to earlier states."""
    moves = select_transitions(frames)
    return compute_by_group(moves, ["method"], lambda rows: share_interval(rows, rows["depth"] > 1))


def depth_shares(frames: Frames) -> pd.DataFrame:
    """Compute the share of each cascade `depth` (predicates certified at once) among a method's transitions."""
    return shares_by_method(select_transitions(frames), "depth")


def retry_rate(frames: Frames) -> pd.DataFrame:
    """Compute the share of certified transitions whose target was rejected at least once before it was certified."""
    moves = select_transitions(frames)
    return compute_by_group(moves, ["method"], lambda rows: share_interval(rows, rows["rejected"] > 0))


def replan_curve(frames: Frames) -> pd.DataFrame:
    """Compute the share of solved runs by number of `replans`; MAX_REPLANS includes runs with more."""
    runs = select_predicate_runs(frames)
    runs = runs.assign(replans=runs["replans"].clip(upper=MAX_REPLANS)).sort_values("replans", kind="stable")
    return sort_by_method(compute_by_group(runs, ["method", "replans"], _solved_share), frames)


def compression_ratio(frames: Frames) -> pd.DataFrame:
    """Compute certified predicates per world step over solved runs, with means in `predicates` and `steps`."""
    runs = select_predicate_runs(frames)
    runs = runs[runs["solved"]]
    ratios = compute_by_group(runs, ["method"], lambda rows: ratio_of(rows, rows["certified"], rows["steps"]))
    means = runs.groupby("method")[["certified", "steps"]].mean().rename(columns={"certified": "predicates"})
    return ratios.merge(means, left_on="method", right_index=True, how="left")


def credit_by_kind(frames: Frames) -> pd.DataFrame:
    """Compute mean cascade depth and cost of certified predicates by method, kind of predicate and `measure`.

    `depth` is the cascade depth of the transitions whose first predicate is of this kind. World `steps`, model `calls`
    and `tokens` are counted from the previous certificate and divided evenly over the predicates of a cascade. The cost
    of writing the plan is left out.
    """
    done = frames.predicates[frames.predicates["status"].isin(CERTIFIED_STATUSES)]
    done = done.assign(depth=done["depth"].where(done["leads"]))
    return measure_table(done, ["method", "kind"], {name: Measure(name) for name in CREDIT_MEASURES})


def select_predicate_runs(frames: Frames) -> pd.DataFrame:
    """Select the runs of graphs whose plan consists of predicates, such as `sdp`."""
    return frames.runs[frames.runs["planned"].notna()]


def select_transitions(frames: Frames) -> pd.DataFrame:
    """Select the first predicate of every certified transition that did not go back to an earlier state."""
    predicates = frames.predicates
    return predicates[predicates["leads"] & predicates["status"].isin(CERTIFIED_STATUSES)]


def sort_by_method(lines: pd.DataFrame, frames: Frames) -> pd.DataFrame:
    """Sort the rows of a table by method, in the order in which the methods first occur in `frames.runs`."""
    indices = {method: index for index, method in enumerate(frames.runs["method"].unique())}
    order = lines["method"].map(indices).sort_values(kind="stable").index
    return lines.loc[order].reset_index(drop=True)


# Calibration of the validator: certified goals against official verdicts (SDP, section 4.2, figure 3d).


def validator_calibration(frames: Frames) -> pd.DataFrame:
    """Compare certified goals with the benchmark's scores: a row for each method and `measure` of MEASURE_FUNCTIONS.

    Runs without predicates, interrupted runs and runs that ended in an error are left out.
    """
    runs = select_predicate_runs(frames)
    ended = runs[~runs["ending"].str.startswith("error:") & (runs["ending"] != INTERRUPTED)]
    ended = ended.assign(certified=ended["ending"] == GOAL)
    tables = [
        compute_by_group(ended, ["method"], compute).assign(measure=measure)
        for measure, compute in MEASURE_FUNCTIONS.items()
    ]
    return pd.concat(tables, ignore_index=True)[["method", "measure", *STATISTIC_COLUMNS]]


def _solved_share(runs: pd.DataFrame) -> Statistic:
    return share_interval(runs, runs["solved"])


MEASURE_FUNCTIONS: Mapping[str, Callable[[pd.DataFrame], Statistic]] = {
    "agreement": lambda runs: share_interval(runs, runs["solved"] == runs["certified"]),
    "solved if certified": lambda runs: _solved_share(runs[runs["certified"]]),
    "solved if not certified": lambda runs: _solved_share(runs[~runs["certified"]]),
    "wrong goals": lambda runs: share_interval(runs, runs["certified"] & ~runs["solved"]),
    "missed goals": lambda runs: share_interval(runs, runs["solved"] & ~runs["certified"]),
}
"""Function that computes each measure of calibration: certified and solved, or neither; of runs that ended `goal`, and
of the others, those that are solved; certified but not solved, and solved but not certified, of all runs."""


# Failures: where failed runs stopped, how far they came, and why (SDP, sections 4.1 and 4.2).

QUARTERS = ("first quarter", "second quarter", "third quarter", "last quarter")

CERTIFIED_LABEL = "goal certified"
"""Label of a failed run whose complete plan was certified although the task is not solved."""

NO_TARGET_LABEL = "no target"
"""Label of a failed run that ended before it had a predicate to certify."""

FORCED_LABEL = "goal forced"
"""Label of a failed run in which a policy accepted the goal without a certificate."""

OTHER_LABELS = (CERTIFIED_LABEL, FORCED_LABEL, NO_TARGET_LABEL)
"""Labels of failed runs that did not stop at a target (the predicate to be certified next)."""

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
"""Rule for each cause of failure; the first two are not failures. If several rules fit a run, `_cause_of` decides."""


def failure_causes(frames: Frames) -> pd.DataFrame:
    """Compute the share of each cause of failure among all runs of a method, in the order of CAUSES."""
    causes = pd.Series([_cause_of(row) for row in frames.runs.itertuples()], index=frames.runs.index, dtype="object")
    ordered = pd.Categorical(causes, categories=list(CAUSES), ordered=True)
    return shares_by_method(frames.runs.assign(cause=ordered), "cause")


def fault_rate(frames: Frames) -> pd.DataFrame:
    """Compute the share of runs in which the world or its data failed, by method."""
    faulty = frames.runs["ending"].isin(FAULT_ENDINGS)
    return compute_by_group(frames.runs, ["method"], lambda rows: share_interval(rows, faulty.loc[rows.index]))


def stopped_kinds(frames: Frames) -> pd.DataFrame:
    """Compute how failed runs are distributed over the `kind` of predicate at which they stopped, by method."""
    return shares_by_method(_stopped_runs(frames), "kind")


def stopped_places(frames: Frames) -> pd.DataFrame:
    """Compute how failed runs are distributed over the quarter of the plan (`place`) where they stopped, by method."""
    return shares_by_method(_stopped_runs(frames), "place")


def mean_certified_part(frames: Frames) -> pd.DataFrame:
    """Compute which part of the plan failed runs had certified on average, without runs that certified the goal."""
    runs = select_predicate_runs(frames)
    failed = runs[~runs["solved"] & (runs["ending"] != GOAL) & (runs["planned"] > 0)]
    parts = failed["certified"] / failed["planned"]
    return compute_by_group(failed, ["method"], lambda rows: average_of(rows, parts.loc[rows.index], top=1.0))


def _stopped_runs(frames: Frames) -> pd.DataFrame:
    # Failed runs with the kind of the target at which each stopped, and the quarter of the plan of that target.
    runs = select_predicate_runs(frames)
    stops = frames.predicates.loc[frames.predicates["stopped"], [*KEY_COLUMNS, "kind", "place"]]
    failed = runs[~runs["solved"]].merge(stops, on=list(KEY_COLUMNS), how="left")
    uncertified = (failed["forced"] > 0).map({True: FORCED_LABEL, False: NO_TARGET_LABEL})
    elsewhere = uncertified.mask(failed["ending"].eq(GOAL), CERTIFIED_LABEL)
    quarters = [QUARTERS[min(int(4 * place), 3)] if place == place else None for place in failed["place"]]  # noqa: PLR0124
    quarter = pd.Series(quarters, index=failed.index, dtype="object").fillna(elsewhere)
    kinds = [kind for kind in frames.predicates["kind"].unique() if kind not in OTHER_LABELS]
    return failed.assign(
        kind=pd.Categorical(failed["kind"].fillna(elsewhere), [*kinds, *OTHER_LABELS], ordered=True),
        place=pd.Categorical(quarter, [*QUARTERS, *OTHER_LABELS], ordered=True),
    )


def _cause_of(run: Any) -> str:
    certifies, certified = run.planned is not pd.NA, run.ending == GOAL  # only runs with predicates have `planned`
    rules = {
        "fault": run.ending in FAULT_ENDINGS,
        "error": run.ending.startswith("error:"),
        INTERRUPTED: run.ending == INTERRUPTED,
        "validation": certifies and certified and not run.solved,
        "uncertified": certifies and run.solved and not certified,
        "none": run.solved,
        "retrieval": run.evidence_found == 0,
        "budget": run.ending.startswith("limit:"),
        "world": run.ending in (WORLD_ENDED, GOAL, FINISHED),
    }
    return next((cause for cause, fits in rules.items() if fits), "planning")


# Scores by horizon, and costs.

COST_MEASURES = ("tokens", "calls", "seconds")
"""Measures in the tables of costs."""


def solved_rate(frames: Frames) -> pd.DataFrame:
    """Compute the share of runs that solved their task, by method."""
    return compute_by_group(frames.runs, ["method"], _solved_share)


def score_by_horizon(frames: Frames) -> pd.DataFrame:
    """Compute the mean score (0 to 100) by method and length of the task (`horizon`, with the label `horizon_name`)."""
    runs = frames.runs.sort_values("horizon", kind="stable")
    by = ["method", "horizon", "horizon_name"]
    scores = compute_by_group(runs, by, lambda rows: average_of(rows, 100 * rows["score"], top=100.0))
    return sort_by_method(scores, frames)


def node_costs(frames: Frames) -> pd.DataFrame:
    """Compute the mean tokens, calls and seconds that each node used per run; a run without the node counts as 0."""
    runs, nodes = frames.runs[list(KEY_COLUMNS)], frames.nodes
    nodes = nodes.assign(tokens=nodes["input_tokens"] + nodes["output_tokens"])[[*KEY_COLUMNS, "node", *COST_MEASURES]]
    pairs = runs.merge(nodes[["method", "node"]].drop_duplicates(), on="method")
    spent = pairs.merge(nodes, on=[*KEY_COLUMNS, "node"], how="left").fillna(dict.fromkeys(COST_MEASURES, 0))
    return measure_table(spent, ["method", "node"], {name: Measure(name) for name in COST_MEASURES})


def certified_costs(frames: Frames) -> pd.DataFrame:
    """Compute the tokens, calls and seconds that runs used per predicate that is certified at the end of the run."""
    runs = select_predicate_runs(frames)
    return measure_table(runs, ["method"], {name: Measure(name, per="certified") for name in COST_MEASURES})


# All analyses.

Analysis = Callable[[Frames], pd.DataFrame]
"""Function that computes a table from frames and has no side effects."""

ANALYSES: dict[str, Analysis] = {
    "faults": fault_rate,
    "solved": solved_rate,
    "cascade_rate": cascade_rate,
    "depths": depth_shares,
    "retried": retry_rate,
    "replan_curve": replan_curve,
    "compression": compression_ratio,
    "credit": credit_by_kind,
    "certified_part": mean_certified_part,
    "stopped_kinds": stopped_kinds,
    "stopped_places": stopped_places,
    "failure_causes": failure_causes,
    "calibration": validator_calibration,
    "score_by_horizon": score_by_horizon,
    "node_costs": node_costs,
    "certified_costs": certified_costs,
}
"""Every analysis by the name of its table."""

ALL_RUN_ANALYSES = frozenset({"faults", "failure_causes", "node_costs", "certified_costs"})
"""Names of the analyses over all runs; the others leave out runs in which the world or its data failed."""

AnalysisTables = dict[str, pd.DataFrame]
"""Tables by name of the analysis."""


def analyse(frames: Frames) -> AnalysisTables:
    """Compute the tables of all analyses in ANALYSES.

    Each row of a table has `method`, the number `n` of observations, the number of `tasks`, `value` and its 95 %
    interval, `low` to `high`. A method without data, such as a graph without predicates, has no row.
    """
    counted = without_faults(frames)
    return {name: analysis(frames if name in ALL_RUN_ANALYSES else counted) for name, analysis in ANALYSES.items()}


# Figures.

RATE_TITLES = {
    "cascade_rate": "cascades, of\ncertified transitions",
    "retried": "retried, of\ncertified transitions",
    "certified_part": "plan certified by\nfailed runs",
    "compression": "predicates per world\naction, solved runs",
}
"""Title of the panel that shows each table of rates."""

CREDIT_TITLES = {
    "depth": "certified at once (k)",
    "steps": "world actions a predicate",
    "tokens": "tokens a predicate",
}
"""Title of the panel for each measure in the table of credit."""

MAX_KINDS = 12
"""Maximum number of kinds of predicates in the figure of credit."""

SOLVED_COLOURS = {"none": f"{GREY}30", "uncertified": f"{SERIES_COLOURS[2]}40"}
"""Light colours for runs that did not fail."""

CAUSE_COLOURS = {
    **SOLVED_COLOURS,
    **plots.assign_colours([cause for cause in CAUSES if cause not in SOLVED_COLOURS]),
}
"""Colour of each cause of failure."""


def draw_rates(tables: AnalysisTables, names: plots.MethodNames) -> Figure:
    """Draw four panels with a rate of each method: cascades, retries, certified part of the plan, and compression."""
    figure, panels = plots.create_panels(len(RATE_TITLES), names)
    for panel, (table, title) in zip(panels, RATE_TITLES.items(), strict=True):
        plots.draw_dots(panel, tables[table], names)
        plots.finish_panel(panel, title, share=table != "compression")
    return figure


def draw_calibration(tables: AnalysisTables, names: plots.MethodNames) -> Figure:
    """Draw how certified goals agree with scores, runs solved with and without one, and both kinds of error."""
    figure, panels = plots.create_panels(3, names)
    table = tables["calibration"]
    plots.draw_dots(panels[0], table[table["measure"] == "agreement"], names)
    plots.draw_dots(panels[1], table, names, {"solved if certified": "o", "solved if not certified": "s"})
    plots.draw_dots(panels[2], table, names, {"wrong goals": "o", "missed goals": "s"})
    titles = ("agreement", "solved, by kind of ending", "wrong verdicts, of all runs")
    for panel, title in zip(panels, titles, strict=True):
        plots.finish_panel(panel, title)
    return figure


def draw_stops(tables: AnalysisTables, names: plots.MethodNames) -> Figure:
    """Draw where failed runs stopped (by kind of predicate and by quarter of the plan), and the causes of failure."""
    figure, panels = plots.create_panels(3, names, below=1.5, coloured=False)
    titles = ("failed runs, by the\ntarget they stopped at", "failed runs, by\nwhere in the plan", "all runs, by cause")
    columns = {"stopped_kinds": "kind", "stopped_places": "place", "failure_causes": "cause"}
    for panel, title, (name, column) in zip(panels, titles, columns.items(), strict=True):
        table = tables[name]
        parts = CAUSE_COLOURS if column == "cause" else plots.assign_colours(table[column].drop_duplicates())
        used = {part: colour for part, colour in parts.items() if part in set(table[column])}
        plots.draw_bars(panel, table, names, column, used)
        plots.draw_panel_legend(panel, plots.part_handles(used))
        plots.finish_panel(panel, title)
    return figure


def draw_anatomy_curves(tables: AnalysisTables, names: plots.MethodNames) -> Figure:
    """Draw two panels with curves: share of solved runs by number of replans, and mean score by length of the task."""
    figure = Figure(figsize=(plots.FIGURE_WIDTH, 3.6 + 0.3 * (-(-len(names) // 4))), layout="constrained")
    left, right = figure.subplots(1, 2)
    replans, horizon = tables["replan_curve"], tables["score_by_horizon"].sort_values("horizon", kind="stable")
    plots.draw_lines(left, replans, names, "replans", sorted(replans["replans"].unique()))
    left.set(xlabel="replans", ylabel="share of runs solved")
    left.set_title(f"runs solved, {plots.format_sizes(replans)}")
    lengths = list(horizon["horizon_name"].unique())
    plots.draw_lines(right, horizon, names, "horizon_name", lengths, top=100.0)
    right.set(xlabel="length of the task", ylabel="mean score, 0 to 100")
    right.set_title(f"score, {plots.format_sizes(horizon)}")
    plots.draw_figure_legend(figure, names)
    return figure


def draw_credit(tables: AnalysisTables, names: plots.MethodNames) -> Figure:
    """Draw cascade depth, world actions and tokens of certified predicates, with a row for each kind of predicate."""
    table = tables["credit"]
    kinds = list(table["kind"].unique())[:MAX_KINDS]
    below = 0.13 * len(kinds) * len(names)
    figure, panels = plots.create_panels(len(CREDIT_TITLES), kinds, below=below, coloured=False)
    for panel, (measure, title) in zip(panels, CREDIT_TITLES.items(), strict=True):
        plots.draw_kinds(panel, table[table["measure"] == measure], names, kinds)
        plots.finish_panel(panel, title, share=False, counted=False)
    plots.draw_figure_legend(figure, names)
    return figure


def draw_costs(tables: AnalysisTables, names: plots.MethodNames) -> Figure:
    """Draw two panels: tokens per run by node of the graph, and tokens per certified predicate."""
    figure, panels = plots.create_panels(2, names, below=1.2, coloured=False)
    nodes, certified = tables["node_costs"], tables["certified_costs"]
    tokens = nodes[(nodes["measure"] == "tokens") & (nodes["value"] > 0)]
    parts = plots.assign_colours(tokens["node"].unique())
    plots.draw_bars(panels[0], tokens, names, "node", parts)
    plots.draw_panel_legend(panels[0], plots.part_handles(parts), columns=4)
    plots.draw_dots(panels[1], certified[certified["measure"] == "tokens"], names)
    for panel, title in zip(panels, ("tokens a run, by node", "tokens per certified predicate"), strict=True):
        plots.finish_panel(panel, title, share=False)
    return figure


ANATOMY_FIGURES: dict[str, Callable[[AnalysisTables, plots.MethodNames], Figure]] = {
    "rates": draw_rates,
    "curves": draw_anatomy_curves,
    "stops": draw_stops,
    "calibration": draw_calibration,
    "credit": draw_credit,
    "spending": draw_costs,
}
"""Function that draws each figure, by name of the figure."""


# Sections of a page: figures, captions and tables.

MAX_TABLE_LINES = 200
"""Maximum number of rows of a table on the page; the CSV file has all rows."""


class AnatomyView(NamedTuple):
    """The analyses as the template `anatomy_sections.html` shows them: SVG drawings and tables by name."""

    runs: int
    stopped: Sequence[str]
    """The runs without an ending."""
    drawings: Mapping[str, Markup]
    tables: Mapping[str, Mapping[str, Any]]
    """Headings (`heads`), rows (`lines`) and number of rows that are not shown (`left`) of each table."""
    causes: Mapping[str, str] = CAUSES


def draw_anatomy(tables: AnalysisTables, names: plots.MethodNames) -> dict[str, Markup]:
    """Draw the figures of all analyses for a page, by name."""
    with chart_style():
        return {name: to_svg(draw(tables, names)) for name, draw in ANATOMY_FIGURES.items()}


def anatomy_view(frames: Frames, tables: AnalysisTables, drawings: Mapping[str, Markup]) -> AnatomyView:
    """Lay out tables and drawings for a page."""
    shown = {}
    for name, table in tables.items():
        heads, lines = frame_cells(table.head(MAX_TABLE_LINES))
        shown[name] = {"heads": heads, "lines": lines, "left": max(len(table) - MAX_TABLE_LINES, 0)}
    stopped = frames.runs.loc[frames.runs["ending"] == INTERRUPTED, "run"].tolist()
    return AnatomyView(len(frames.runs), stopped, drawings, shown)


def methods_of(frames: Frames) -> list[str]:
    """Return the names of the methods in the order in which they first occur in `frames.runs`."""
    return list(frames.runs["method"].unique())
