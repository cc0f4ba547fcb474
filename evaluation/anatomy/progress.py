"""How certified runs move: cascades, retries, replans, compression and credit (SDP, sections 4.1 and 4.2)."""

import pandas as pd

from certigraph.evaluation.anatomy.frames import Frames
from certigraph.evaluation.anatomy.intervals import COLUMNS, average_of, grouped, ratio_of, share_of, shares

MOST_REPLANS = 5
"""Runs with more replans are told together with these: few have them."""

DISCHARGED = ("certified", "undone")
"""Status of predicates that were certified, whatever was returned from later."""

CREDIT = ("depth", "steps", "calls", "tokens")


def cascade_rate(frames: Frames) -> pd.DataFrame:
    """Share of certified transitions that discharge more than one predicate; returns to earlier states left out."""
    moves = transitions(frames)
    return grouped(moves, ["method"], lambda rows: share_of(rows, rows["depth"] > 1))


def depths(frames: Frames) -> pd.DataFrame:
    """Of all certified transitions the share with cascade depth 1, 2, ... (`depth`)."""
    return shares(transitions(frames), "depth")


def retried(frames: Frames) -> pd.DataFrame:
    """Share of certified transitions whose target was rejected at least once before it was certified."""
    moves = transitions(frames)
    return grouped(moves, ["method"], lambda rows: share_of(rows, rows["rejected"] > 0))


def replan_curve(frames: Frames) -> pd.DataFrame:
    """Share of runs solved among those with 0, 1, ... replans; MOST_REPLANS stands for more."""
    runs = predicated(frames)
    runs = runs.assign(replans=runs["replans"].clip(upper=MOST_REPLANS)).sort_values("replans", kind="stable")
    return in_order(grouped(runs, ["method", "replans"], lambda rows: share_of(rows, rows["solved"])), frames)


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
