"""Validator calibration: what a certified goal says about the official verdict (SDP, section 4.2, figure 3d)."""

import pandas as pd

from certigraph.evaluation.anatomy.frames import Frames
from certigraph.evaluation.anatomy.intervals import COLUMNS, Told, grouped, share_of
from certigraph.evaluation.anatomy.progress import predicated
from certigraph.state.endings import GOAL, INTERRUPTED

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
    return share_of(runs, runs["solved"] == _certified(runs))


def _if_certified(runs: pd.DataFrame) -> Told:
    kept = runs[_certified(runs)]
    return share_of(kept, kept["solved"])


def _if_not(runs: pd.DataFrame) -> Told:
    kept = runs[~_certified(runs)]
    return share_of(kept, kept["solved"])


def _false_accepts(runs: pd.DataFrame) -> Told:
    return share_of(runs, _certified(runs) & ~runs["solved"])


def _false_rejects(runs: pd.DataFrame) -> Told:
    return share_of(runs, runs["solved"] & ~_certified(runs))


def _certified(runs: pd.DataFrame) -> "pd.Series[bool]":
    return runs["ending"] == GOAL


FIGURES = dict(
    zip(MEANING, (_agreement, _if_certified, _if_not, _false_accepts, _false_rejects), strict=True),
)
