"""MuSiQue's questions, in their official layout (facts/qa_scoring.md, section 2.1)."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, Field

from certigraph.adapters.retrieval.rows import paragraph
from certigraph.adapters.rows import Row, checked, read_rows
from certigraph.adapters.searching.claims import sentences_of, supporting_sentence
from certigraph.adapters.searching.files import question_file, unique
from certigraph.adapters.searching.questions import Hop, Question, distinct, substituted
from certigraph.state.endings import Fault

STEMS = {
    "dev": ("musique_ans_dev", "musique_ans_v1.0_dev"),
    "train": ("musique_ans_train", "musique_ans_v1.0_train"),
}
"""Names of the files by split, those of their publishers last."""


class MusiqueQuestion(Question):
    """A question of MuSiQue; `kind` is its number of hops, as in "3hop"."""

    support: frozenset[int]
    """The gold supporting paragraphs by their numbers."""
    numbers: dict[str, int]
    """The number of each of its paragraphs by the passage's id."""


class _Paragraph(BaseModel):
    idx: int
    title: str = ""
    paragraph_text: str
    is_supporting: bool = False


class _Step(BaseModel):
    question: str
    answer: str
    paragraph_support_idx: int | None = None


class _Official(BaseModel):
    id: str
    question: str = Field(min_length=1)
    answer: str
    answer_aliases: list[str] = []
    answerable: bool = True
    question_decomposition: list[_Step] = []
    paragraphs: list[_Paragraph] = []


def read_questions(folder: Path, split: str) -> dict[str, MusiqueQuestion]:
    """The questions of a split by id, in file order.

    Raises:
        Fault: the file is missing, a row is malformed or not answerable, or an id is given twice; with file and line.
    """
    return parse_questions(read_rows(question_file("musique", folder, STEMS[split])))


def parse_questions(rows: Iterable[Row]) -> dict[str, MusiqueQuestion]:
    """The questions of official rows by id. Raises Fault as `read_questions` does."""
    read = [(row, checked(_Official, row)) for row in rows]
    unique([(row, official.id) for row, official in read])
    return {official.id: _question(row, official) for row, official in read}


def _question(row: Row, official: _Official) -> MusiqueQuestion:
    if not official.answerable:
        raise Fault("data", f"{row.where}: answerable is false: give MuSiQue-Answerable, not MuSiQue-Full")
    by_number = {one.idx: one for one in official.paragraphs}
    hops = _hops(row, official, by_number)
    return MusiqueQuestion(
        id=official.id,
        text=" ".join(official.question.split()),
        answers=(official.answer, *official.answer_aliases),
        kind=f"{len(hops)}hop" if hops else "unknown hops",
        passages=tuple(distinct((one.title, one.paragraph_text) for one in official.paragraphs).values()),
        hops=hops,
        support=frozenset(one.idx for one in official.paragraphs if one.is_supporting),
        numbers={paragraph(one.title, one.paragraph_text).id: one.idx for one in official.paragraphs},
    )


def _hops(row: Row, official: _Official, by_number: Mapping[int, _Paragraph]) -> tuple[Hop, ...]:
    answers = [step.answer for step in official.question_decomposition]
    return tuple(_hop(row, step, answers, by_number) for step in official.question_decomposition)


def _hop(row: Row, step: _Step, answers: list[str], by_number: Mapping[int, _Paragraph]) -> Hop:
    number = step.paragraph_support_idx
    if number is None or number not in by_number:
        raise Fault("data", f"{row.where}: paragraph_support_idx {number} is no paragraph's idx: correct this field")
    title, text = by_number[number].title, by_number[number].paragraph_text
    return Hop(
        question=step.question,
        answer=step.answer,
        passage=paragraph(title, text),
        finding=_finding(text, step.answer, substituted(step.question, answers)),
    )


def _finding(text: str, answer: str, question: str) -> str:
    """The sentence that says the answer, of several the one nearest to the question; else the nearest of all."""
    sentences = sentences_of(text)
    telling = [sentence for sentence in sentences if answer.casefold() in sentence.casefold()] or sentences
    return telling[supporting_sentence(f"{answer} {question}", telling)]
