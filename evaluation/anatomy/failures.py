"""Where failed runs stopped, how far they came, and why (SDP, sections 4.1 and 4.2)."""

from typing import Any

import pandas as pd

from certigraph.evaluation.anatomy.frames import KEY, Frames
from certigraph.evaluation.anatomy.intervals import average_of, grouped, share_of, shares
from certigraph.evaluation.anatomy.progress import predicated
from certigraph.state.endings import FAULTS, GOAL, INTERRUPTED, WORLD_ENDED

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
    return grouped(frames.runs, ["method"], lambda rows: share_of(rows, rows["ending"].isin(FAULTS)))


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
