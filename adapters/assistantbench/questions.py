"""AssistantBench's questions, in the layout of its data set (facts/qa_scoring.md, section 3.1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field

from certigraph.adapters.research.questions import Question
from certigraph.adapters.rows import Row, checked, read_rows
from certigraph.adapters.searching.files import unique
from certigraph.state.endings import Fault

SPLITS = ("dev", "test")
"""The default first. The answers of test are not public."""

NAMES = ("*.jsonl", "*.jsonl.gz")

EXAMPLE = "assistant_bench_v1.0_{split}.jsonl"


class Official(BaseModel):
    """One row; other fields (gold_url, explanation, metadata, ...) are not looked at."""

    id: str = Field(min_length=1)
    set: str
    task: str | None
    answer: str | None = None
    difficulty: str | None = ""


class Split(NamedTuple):
    """The questions of a split by id."""

    asked: dict[str, Question]
    textless: dict[str, Question]
    """Those whose text the file does not have: nobody can be asked them, but answers to them can be scored."""

    @property
    def all(self) -> dict[str, Question]:
        """Both: what published figures are over."""
        return self.asked | self.textless


def read_split(folder: Path, split: str) -> Split:
    """The questions of a split, from whatever files of JSON lines in the folder have rows with `id` and `task`.

    Raises:
        Fault: no file has any of the split, a row is malformed, or an id is given twice; with file and line.
    """
    rows = [(row, checked(Official, row)) for row in _question_rows(folder)]
    unique([(row, official.id) for row, official in rows])
    questions = [_question(official) for _, official in rows if official.set == split]
    if not questions:
        name = EXAMPLE.format(split=split)
        message = f"{folder}: no questions of the split {split}: put AssistantBench's {name} there, or name its folder"
        raise Fault("data", f"{message} with --data DIR") from FileNotFoundError(name)
    asked = {question.id: question for question in questions if question.text}
    return Split(asked, {question.id: question for question in questions if not question.text})


def _question_rows(folder: Path) -> Iterator[Row]:
    for path in sorted(path for name in NAMES for path in folder.glob(name)):
        first = next(read_rows(path), None)
        if first and isinstance(first.value, dict) and {"id", "task"} <= first.value.keys():
            yield from read_rows(path)


def _question(official: Official) -> Question:
    return Question(
        id=official.id,
        text=(official.task or "").strip(),
        answer=official.answer or None,
        difficulty=official.difficulty or "",
    )
