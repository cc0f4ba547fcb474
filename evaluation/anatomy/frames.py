"""Recorded runs as pandas frames: what every analysis of this folder is computed from."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from certigraph.evaluation.anatomy.rows import Recorded, Row, rows_of
from certigraph.state.endings import FAULTS

__all__ = ["Frames", "Recorded", "frames_of"]

Columns = Mapping[str, str]

KEY: Columns = {"method": "str", "benchmark": "str", "task": "str", "trial": "Int64", "run": "str"}
"""Which run a row belongs to. Intervals cluster by `benchmark` and `task`: runs of one task are not independent."""

RUNS: Columns = {
    **KEY,
    **dict.fromkeys(("graph", "model", "ending"), "str"),
    "score": "float64",
    "solved": "bool",
    **dict.fromkeys(("certified", "forced", "planned", "replans", "steps", "attempts"), "Int64"),
    **dict.fromkeys(("certificates", "cascades", "returns", "first_exhaustion", "planned_then"), "Int64"),
    "evidence_found": "float64",
    "horizon": "float64",
    "horizon_name": "str",
    **dict.fromkeys(("calls", "tokens"), "Int64"),
    "seconds": "float64",
}
ATTEMPTS: Columns = {
    **KEY,
    "position": "Int64",
    "kind": "str",
    **dict.fromkeys(("number", "depth"), "Int64"),
    "certified": "bool",
    "step": "Int64",
}
PREDICATES: Columns = {
    **KEY,
    "position": "Int64",
    "place": "float64",
    **dict.fromkeys(("kind", "text", "status"), "str"),
    "leads": "bool",
    **dict.fromkeys(("depth", "rejected"), "Int64"),
    "stopped": "bool",
    **dict.fromkeys(("steps", "calls", "tokens"), "float64"),
}
NODES: Columns = {
    **KEY,
    "node": "str",
    **dict.fromkeys(("executions", "calls", "input_tokens", "output_tokens", "cached_tokens"), "Int64"),
    **dict.fromkeys(("usd", "seconds"), "float64"),
}


class Frames(NamedTuple):
    """Four frames; each begins with the columns of KEY.

    Of graphs without predicates `attempts` and `predicates` have no rows, and `runs` has nothing under their columns.

    runs: `score` from 0 to 1, `solved` at 1; `ending` is `interrupted` where none is on record. `certified` predicates
        hold at the end, `forced` ones a policy let pass uncertified, `planned` are both and the ones left open (returns
        to earlier states, and what they undid, are neither). `certificates` are transitions, `cascades` those with more
        than one predicate, `returns` those that restored a state. `first_exhaustion` is the cursor when all tries at a
        target were used up for the first time, `planned_then` the plan's length at that moment. `steps` are the
        world's, `seconds` wall-clock inside nodes, `tokens` those of prompts and answers. `horizon` is the task's
        length, called `horizon_name`.
    attempts: `number` counts the tries at one target from 1, `depth` is the verdict's, `step` the world step.
    predicates: `status` is `certified`, `undone` (certified, then returned from), `forced` (let pass by a policy),
        `dropped` (let pass, then returned from), `return` (to an earlier state) or `open`; `place` the position as a
        part of the plan, 0 to 1. Of certified ones `depth` is that of the whole transition, `leads` marks its first
        predicate, `rejected` counts the tries at it that failed, and `steps`, `calls` and `tokens` were spent since the
        certificate or pass before, shared out evenly in a cascade.
        `stopped` marks the target that the run had when it ended without its goal.
    nodes: what each node of a run spent, superseded work included; `executions` counts how often it ran.
    """

    runs: pd.DataFrame
    attempts: pd.DataFrame
    predicates: pd.DataFrame
    nodes: pd.DataFrame


def without_faults(frames: Frames) -> Frames:
    """The rows of the runs in which neither the world nor its data failed: what rates are over."""
    faulty = set(frames.runs.loc[frames.runs["ending"].isin(FAULTS), "run"])
    return Frames(*(frame[~frame["run"].isin(faulty)] for frame in frames)) if faulty else frames


def frames_of(recorded: Iterable[Recorded]) -> Frames:
    """Read runs into frames, one at a time: no trajectory is held longer than it takes to read it."""
    runs: list[Row] = []
    attempts: list[Row] = []
    predicates: list[Row] = []
    nodes: list[Row] = []
    for rows in map(rows_of, recorded):
        runs.append(rows.run)
        attempts += rows.attempts
        predicates += rows.predicates
        nodes += rows.nodes
    return Frames(_frame(runs, RUNS), _frame(attempts, ATTEMPTS), _frame(predicates, PREDICATES), _frame(nodes, NODES))


def _frame(rows: list[Row], columns: Columns) -> pd.DataFrame:
    """Typed columns in a fixed order, also where no row fills them."""
    series: dict[str, Any] = {name: pd.Series([row.get(name) for row in rows], dtype="object") for name in columns}
    blank = {name: False for name, kind in columns.items() if kind == "bool"}
    return (
        pd.DataFrame(series).fillna(blank).astype(dict(columns)) if rows else pd.DataFrame(series).astype(dict(columns))
    )
