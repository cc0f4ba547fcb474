"""AssistantBench's figures of several answers (facts/qa_scoring.md, section 3.3), as fractions."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from pydantic import JsonValue

from certigraph.adapters.research.questions import Question
from certigraph.adapters.research.scoring import score
from certigraph.adapters.searching.figures import ANSWERED, FORCED
from certigraph.state.records import Scores

ACCURACY, EXACT, EXACT_STRING = "accuracy", "exact_match", "exact_string"

WITH_ERROR = (ACCURACY, EXACT)
"""Figures that are reported with their standard error."""

DIFFICULTIES = ("Easy", "Medium", "Hard")

Scored = tuple[Question, Scores | None]
"""A question, and what came of it; None where nothing did."""


def scores(answer: JsonValue, gold: str | None, **others: float) -> Scores:
    """The official scores of an answer as a record, with `others` among its parts; 0 where nobody knows the gold."""
    got = score(answer, gold or "")
    parts: dict[str, float | None] = {ANSWERED: float(got.answered), **others}
    if gold is not None:
        parts |= {ACCURACY: got.accuracy, EXACT: float(got.exact), EXACT_STRING: float(got.exact_string)}
    return Scores(value=got.accuracy if gold is not None else 0.0, parts=parts, answer=answer)


def rates(scored: Sequence[Scored]) -> dict[str, float]:
    """`n`, accuracy, precision, answer rate, exact match (two definitions, see `Score`), then accuracy by difficulty.

    Means over all questions, a missing answer counting 0, accuracy and exact match with standard errors. Precision is
    the sum of accuracies over the number of answers, 0 where there is none. `forced` is the share of questions whose
    answer was handed in without being certified; files of predictions do not say it. Questions whose gold is unknown
    have an answer rate alone.
    """
    figures: dict[str, float] = {"n": len(scored)}
    if judged := [one for one in scored if one[0].answer is not None]:
        figures |= _judged(judged)
    if scored:
        figures["answer_rate"] = fmean(_values(scored, ANSWERED))
    if any(came and FORCED in came.parts for _, came in scored):
        figures[FORCED] = fmean(_values(scored, FORCED))
    return figures | _by_difficulty(judged)


def _judged(scored: Sequence[Scored]) -> dict[str, float]:
    accuracies, answers = _values(scored, ACCURACY), sum(_values(scored, ANSWERED))
    figures = {ACCURACY: fmean(accuracies), "precision": sum(accuracies) / answers if answers else 0.0}
    figures |= {name: fmean(_values(scored, name)) for name in (EXACT, EXACT_STRING)}
    return figures | {f"{name}_stderr": _stderr(_values(scored, name)) for name in WITH_ERROR}


def _by_difficulty(scored: Sequence[Scored]) -> dict[str, float]:
    groups = {level: [one for one in scored if one[0].difficulty == level] for level in DIFFICULTIES}
    return {f"{ACCURACY}_{level.lower()}": fmean(_values(of, ACCURACY)) for level, of in groups.items() if of}


def _values(scored: Sequence[Scored], name: str) -> list[float]:
    return [(came.parts.get(name) or 0.0) if came else 0.0 for _, came in scored]


def _stderr(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
