"""HotpotQA's questions, in their official layout (facts/qa_scoring.md, section 1.1)."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from certigraph.adapters.retrieval.rows import paragraph
from certigraph.adapters.rows import Row, checked, read_rows
from certigraph.adapters.searching.files import question_file, unique
from certigraph.adapters.searching.questions import Hop, Question, distinct

STEMS = {
    "dev": ("dev_distractor", "hotpot_dev_distractor_v1", "hotpot_dev_fullwiki_v1"),
    "train": ("train_distractor", "hotpot_train_v1.1"),
}
"""Names of the files by split, those of their publishers last."""

Fact = tuple[str, int]
"""A supporting sentence: the title of its paragraph, and its place there from 0."""


class HotpotQuestion(Question):
    """A question of HotpotQA; `kind` is bridge or comparison."""

    facts: frozenset[Fact]
    """The gold supporting sentences."""
    sentences: dict[str, tuple[str, ...]]
    """Its paragraphs by title, sentence by sentence."""


class _Official(BaseModel):
    id: str = Field(alias="_id")
    question: str = Field(min_length=1)
    answer: str
    type: str = "untyped"
    supporting_facts: list[Fact] = []
    context: list[tuple[str, list[str]]] = []


def read_questions(folder: Path, split: str) -> dict[str, HotpotQuestion]:
    """The questions of a split by id, in file order.

    Raises:
        Fault: the file is missing, a row is malformed, or an id is given twice; with file and line.
    """
    return parse_questions(read_rows(question_file("hotpotqa", folder, STEMS[split])))


def parse_questions(rows: Iterable[Row]) -> dict[str, HotpotQuestion]:
    """The questions of official rows by id. Raises Fault as `read_questions` does."""
    read = [(row, checked(_Official, row)) for row in rows]
    unique([(row, official.id) for row, official in read])
    return {official.id: _question(official) for _, official in read}


def _question(official: _Official) -> HotpotQuestion:
    sentences = {title: tuple(texts) for title, texts in official.context}
    return HotpotQuestion(
        id=official.id,
        text=" ".join(official.question.split()),
        answers=(official.answer,),
        kind=official.type,
        passages=tuple(distinct((title, "".join(texts)) for title, texts in official.context).values()),
        hops=_hops(official, sentences),
        facts=frozenset(official.supporting_facts),
        sentences=sentences,
    )


def _hops(official: _Official, sentences: dict[str, tuple[str, ...]]) -> tuple[Hop, ...]:
    """One a supporting paragraph; the one that says the answer comes last, and hands each before it its title."""
    titles = list(dict.fromkeys(title for title, _ in official.supporting_facts))
    findings = {title: _finding(official, title, sentences.get(title, ())) for title in titles}
    titles.sort(key=lambda title: official.answer.casefold() in findings[title].casefold())
    entities = [*titles[1:], official.answer]
    return tuple(
        Hop(
            question=f"What does {title} say that bears on the question?",
            answer=entity,
            passage=paragraph(title, "".join(sentences.get(title, ()))),
            finding=findings[title],
        )
        for title, entity in zip(titles, entities, strict=False)
    )


def _finding(official: _Official, title: str, sentences: Sequence[str]) -> str:
    """The supporting sentences in their order; the title where the file has none of them."""
    places = {place for named, place in official.supporting_facts if named == title and 0 <= place < len(sentences)}
    return " ".join(sentences[place].strip() for place in sorted(places)) or title
