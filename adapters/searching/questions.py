"""A multi-hop question with its paragraphs and its gold, whatever file it came from."""

from collections.abc import Iterable, Sequence

from certigraph.adapters.retrieval.rows import paragraph
from certigraph.state.passages import Passage
from certigraph.state.records import Record


class Hop(Record):
    """One gold step: what it asks (`#1` stands for the first step's answer), and the paragraph that answers it."""

    question: str
    answer: str
    passage: Passage
    """Without a text where the file names a paragraph that it does not hold."""
    finding: str


class Question(Record):
    """A question; `answers` holds the gold answer first, then its aliases."""

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str
    """What its figures are reported by: HotpotQA's type, MuSiQue's number of hops."""
    passages: tuple[Passage, ...]
    """The paragraphs that come with it, each once; it may come with none, for retrieval from a corpus."""
    hops: tuple[Hop, ...]
    """Its gold support, in an order in which it can be followed; none where the file gives none."""


def distinct(paragraphs: Iterable[tuple[str, str]]) -> dict[str, Passage]:
    """Paragraphs (title, text) as passages by id; of equal ones the first, and none that has neither title nor text.

    A paragraph may lack its title: it is found by its text.
    """
    passages = (paragraph(title, text) for title, text in paragraphs if title.strip() or text.strip())
    return {passage.id: passage for passage in passages}


def substituted(question: str, answers: Sequence[str]) -> str:
    """A step's question with the answers of the steps in the place of `#1`, `#2`, ..."""
    for number, answer in reversed(list(enumerate(answers, 1))):
        question = question.replace(f"#{number}", answer)
    return question
