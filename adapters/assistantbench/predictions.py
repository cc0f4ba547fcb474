"""Submissions to AssistantBench's leaderboard: JSON lines of `id` and `answer`, one for each task of a split."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, JsonValue

from certigraph.adapters.research.figures import Scored, scores
from certigraph.adapters.research.questions import Question
from certigraph.adapters.rows import checked, read_rows
from certigraph.adapters.searching.files import unique
from certigraph.state.endings import Fault
from certigraph.state.records import Scores


class Prediction(BaseModel):
    """One row; other fields, as BrowserGym's files have them, are not looked at."""

    id: str
    answer: JsonValue


def write_submission(path: Path, ids: Iterable[str], answers: Mapping[str, JsonValue]) -> None:
    """Write a row for each id in order; its answer is empty where there is none."""
    rows = ({"id": id_, "answer": answers.get(id_) or ""} for id_ in ids)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_submission(path: Path, ids: Collection[str]) -> dict[str, JsonValue]:
    """The answers by id.

    Raises:
        Fault: a row is malformed, names no task of the split or one that another row has answered; with file and line.
    """
    read = [(row, checked(Prediction, row)) for row in read_rows(path)]
    unique([(row, prediction.id) for row, prediction in read])
    for row, prediction in read:
        if prediction.id not in ids:
            some = f"for example {next(iter(ids))}"
            message = f"{row.where}: no task {prediction.id!r} among the {len(ids)}, {some}: name the right --split"
            raise Fault("data", message)
    return {prediction.id: prediction.answer for _, prediction in read}


def score_submission(path: Path, questions: Sequence[Question]) -> list[Scored]:
    """The official scores of every question of a split, none of one that the file does not answer.

    Raises:
        Fault: as `read_submission`; or nobody here knows the split's answers.
    """
    if all(question.answer is None for question in questions):
        message = f"{path} cannot be scored: these answers are not public; hand the file in at the leaderboard"
        raise Fault("data", f"{message}, or score another --split")
    answers = read_submission(path, {question.id: None for question in questions})
    return [(question, _scores(answers, question)) for question in questions]


def _scores(answers: Mapping[str, JsonValue], question: Question) -> Scores | None:
    return scores(answers[question.id], question.answer) if question.id in answers else None
