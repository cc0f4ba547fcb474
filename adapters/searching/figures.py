"""The figures of several answers: means over all questions asked, a missing answer counting 0."""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

EM, F1, EVIDENCE = "em", "f1", "evidence_found"
ANSWERED, FORCED = "answered", "forced"
"""Whether a run handed an answer in, and whether that was not the agent's own decision."""

WITH_ERROR = (EM, F1)
"""Figures that are reported with their standard error, and by kind of question."""


class Scored(NamedTuple):
    """The scores of one question, by name; None where nothing was predicted or nothing is known."""

    kind: str
    parts: Mapping[str, float | None]


def rates(scored: Sequence[Scored]) -> dict[str, float]:
    """`n`, EM and F1 with standard errors, the other parts, TDP's figures of runs, then EM and F1 by kind of question.

    Parts that nobody predicted (support) are left out; where somebody did, who did not counts 0, as official scorers
    have it. `evidence_found` is the mean over the questions whose evidence is known.
    """
    figures: dict[str, float] = {"n": len(scored)}
    for name in dict.fromkeys(name for one in scored for name, value in one.parts.items() if value is not None):
        values = _values(scored, name)
        figures[name] = fmean(values)
        if name in WITH_ERROR:
            figures[f"{name}_stderr"] = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    return figures | delivered(scored) | _by_kind(scored)


def delivered(scored: Sequence[Scored]) -> dict[str, float]:
    """TDP's figures (section 4.1) by exact match; its own are a judge's verdicts (`certigraph judge --rubric tdp`).

    `accuracy` is the share of all questions that were answered right, `delivered_accuracy` the share of those right
    whose run came to an answer of its own, none forced at the end, and `average` the mean of both. None where nobody
    answered in a run: files of predictions do not say how their answers came about.
    """
    if not any(ANSWERED in one.parts for one in scored):
        return {}
    own = [one for one in scored if one.parts.get(ANSWERED) and not one.parts.get(FORCED)]
    accuracy, of_own = fmean(_values(scored, EM)), fmean(_values(own, EM)) if own else 0.0
    return {"accuracy": accuracy, "delivered_accuracy": of_own, "average": (accuracy + of_own) / 2}


def _by_kind(scored: Sequence[Scored]) -> dict[str, float]:
    kinds = sorted({one.kind for one in scored})
    groups = {kind: [one for one in scored if one.kind == kind] for kind in kinds} if len(kinds) > 1 else {}
    return {f"{part}_{kind}": fmean(_values(group, part)) for kind, group in groups.items() for part in WITH_ERROR}


def _values(scored: Sequence[Scored], name: str) -> list[float]:
    known = scored if name != EVIDENCE else [one for one in scored if one.parts.get(name) is not None]
    return [one.parts.get(name) or 0.0 for one in known]
