"""Scoring predictions that were made elsewhere, in HotpotQA's official layout."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from certigraph.adapters.hotpotqa.questions import Fact, HotpotQuestion
from certigraph.adapters.hotpotqa.scoring import answer_scores, joint_scores, support_scores
from certigraph.adapters.rows import Row, checked, read_json
from certigraph.adapters.searching.figures import Scored
from certigraph.state.endings import Fault


class Predictions(BaseModel):
    """{"answer": {id: text}, "sp": {id: [[title, place], ...]}}; the supporting facts may be left out."""

    answer: dict[str, str]
    sp: dict[str, list[Fact]] = {}


def score_predictions(path: Path, questions: Sequence[HotpotQuestion]) -> list[Scored]:
    """The scores of every gold question; one without an answer or without supporting facts has none there.

    Predictions for other questions are not looked at, as the official scorer has it.

    Raises:
        Fault: the file is malformed, or has a prediction for none of the questions.
    """
    predictions = checked(Predictions, Row(str(path), read_json(path)))
    if not {question.id for question in questions} & predictions.answer.keys():
        raise Fault("data", f"{path}: no answer to any of the {len(questions)} questions: name their --split")
    return [Scored(question.kind, _scores(question, predictions)) for question in questions]


def _scores(question: HotpotQuestion, predictions: Predictions) -> dict[str, float | None]:
    answer, support = predictions.answer.get(question.id), predictions.sp.get(question.id)
    return scores(question, answer, None if support is None else frozenset(support))


def scores(question: HotpotQuestion, answer: str | None, support: frozenset[Fact] | None) -> dict[str, float | None]:
    """All scores of a prediction by name, None of what was not predicted; joint ones need both."""
    answered = None if answer is None else answer_scores(answer, question.answers[0])
    supported = None if support is None else support_scores(support, question.facts)
    joint = joint_scores(answered, supported) if answered and supported else {}
    return {"em": 0.0, "f1": 0.0, **(answered or {}), **(supported or {}), **joint}
