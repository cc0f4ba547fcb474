"""Scoring predictions that were made elsewhere, in MuSiQue's official layout."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from certigraph.adapters.musique.questions import MusiqueQuestion
from certigraph.adapters.musique.scoring import answer_scores, chain_coverage, support_scores
from certigraph.adapters.rows import checked, read_rows
from certigraph.adapters.searching.figures import Scored
from certigraph.adapters.searching.files import unique
from certigraph.state.endings import Fault


class Prediction(BaseModel):
    """One row; `predicted_answerable` matters for MuSiQue-Full alone."""

    id: str
    predicted_answer: str
    predicted_support_idxs: list[int] | None = None
    predicted_answerable: bool = True


def score_predictions(path: Path, questions: Sequence[MusiqueQuestion]) -> list[Scored]:
    """The scores of every gold question; one without a prediction counts 0. Others' rows are not looked at.

    Raises:
        Fault: a row is malformed, an id is given twice, or no row is of any of the questions.
    """
    read = [(row, checked(Prediction, row)) for row in read_rows(path)]
    unique([(row, prediction.id) for row, prediction in read])
    predictions = {prediction.id: prediction for _, prediction in read}
    if not predictions.keys() & {question.id for question in questions}:
        raise Fault("data", f"{path}: no answer to any of the {len(questions)} questions: name their --split")
    return [Scored(question.kind, _scores(question, predictions.get(question.id))) for question in questions]


def scores(question: MusiqueQuestion, answer: str | None, support: frozenset[int] | None) -> dict[str, float | None]:
    """All scores of a prediction by name; none of a support that was not predicted."""
    answered = {"em": 0.0, "f1": 0.0} if answer is None else answer_scores(answer, question.answers)
    if support is None:
        return {**answered}
    chain = [question.numbers[hop.passage.id] for hop in question.hops]
    covered = {"chain_coverage": chain_coverage(support, chain)} if chain else {}
    return {**answered, **support_scores(support, question.support), **covered}


def _scores(question: MusiqueQuestion, prediction: Prediction | None) -> dict[str, float | None]:
    if prediction is None:
        return scores(question, None, None)
    support = prediction.predicted_support_idxs
    return scores(question, prediction.predicted_answer, None if support is None else frozenset(support))
