"""What runs score by the length of their task, and what they spend where."""

from collections.abc import Callable
from functools import partial

import pandas as pd

from certigraph.evaluation.anatomy.frames import KEY, Frames
from certigraph.evaluation.anatomy.intervals import COLUMNS, Told, average_of, grouped, ratio_of, share_of
from certigraph.evaluation.anatomy.progress import in_order, predicated

MEASURES = ("tokens", "calls", "seconds")


def solved(frames: Frames) -> pd.DataFrame:
    """Share of runs that the benchmark calls solved, faults left out."""
    return grouped(frames.runs, ["method"], lambda rows: share_of(rows, rows["solved"]))


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
