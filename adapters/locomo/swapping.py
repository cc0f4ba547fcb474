"""Questions made unanswerable by exchanging the speaker they ask about (CGDP appendix A.2, G7: evidence misaligned).

"When did Caroline join the group?" becomes "When did Melanie join the group?": passages about the group are found, and
none of them is about Melanie.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from random import Random
from typing import NamedTuple, TypeVar

from certigraph.adapters.locomo.conversations import (
    ADVERSARIAL,
    MULTI_HOP,
    SINGLE_HOP,
    TEMPORAL,
    Conversation,
    Question,
)
from certigraph.adapters.locomo.scoring import stems
from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.searching.scoring import set_overlap

T = TypeVar("T")

CATEGORIES = (MULTI_HOP, TEMPORAL, SINGLE_HOP)
"""Open-domain answers are inferred: the other speaker's may be too."""

GENDERED = re.compile(r"\b(?:he|him|his|himself|she|her|hers|herself)\b", re.IGNORECASE)
"""Left as it is, a pronoun would give the exchange away."""

YES_NO = re.compile(r"(?:yes|no)\b", re.IGNORECASE)

COUNT = re.compile(r"how (?:many|much|often)\b", re.IGNORECASE)
"""Asked of the other speaker, "none" answers it."""

ALIKE = 0.7
"""F1 of words from which two questions are taken for the same: the other speaker is asked that too."""


class Swapped(NamedTuple):
    """A question with its speaker exchanged, and the place of the original in the conversation."""

    place: int
    question: Question


def swapped_questions(conversation: Conversation) -> list[Swapped]:
    """Every question that can be exchanged, in the conversation's order; their category is 5, they have no answer.

    Those are the questions of categories 1, 2 and 4 that name one speaker and not the other, whose evidence that
    speaker alone says, that no pronoun gives away, whose answer is neither yes or no nor a count, that are not asked of
    the other speaker as well, and that no turn of the other speaker has as many words of as the evidence has: "What
    books has Ann read?" is answered by whoever talks of books.
    """
    return list(_swapped(conversation))


def drawn(questions: Sequence[T], most: int, seed: int) -> list[T]:
    """At most so many of them, drawn by a seed, in their order."""
    chosen = Random(seed).sample(range(len(questions)), min(most, len(questions)))
    return [questions[place] for place in sorted(chosen)]


def _swapped(conversation: Conversation) -> Iterator[Swapped]:
    said = {turn.id: set(stems(f"{turn.text} {turn.caption}")) for turn in conversation.turns}
    for place, question in enumerate(conversation.questions):
        text = exchanged(question.text, conversation.speakers)
        if not text or not _fits(question, conversation):
            continue
        if not _asked(text, conversation) and not _told(question, conversation, said):
            made = Question(text=text, answer="", evidence=question.evidence, category=ADVERSARIAL)
            yield Swapped(place, made)


def exchanged(text: str, speakers: tuple[str, str]) -> str:
    """The text with the one speaker that it names in the other's place; empty where it names none or both."""
    named = [name for name in speakers if _name(name).search(text)]
    if len(named) != 1:
        return ""
    other = speakers[1 - speakers.index(named[0])]
    return _name(named[0]).sub(other, text)


def _fits(question: Question, conversation: Conversation) -> bool:
    if question.category not in CATEGORIES or YES_NO.match(question.answer) or COUNT.match(question.text):
        return False
    if GENDERED.search(question.text):
        return False
    said_by = {turn.speaker for turn in conversation.turns if turn.id in question.evidence}
    return len(said_by) == 1 and bool(_name(said_by.pop()).search(question.text))


def _asked(text: str, conversation: Conversation) -> bool:
    """Whether much the same is asked of the speaker that the text names now."""
    [speaker] = [name for name in conversation.speakers if _name(name).search(text)]
    asked = (q.text for q in conversation.questions if _name(speaker).search(q.text))
    return any(set_overlap(set(terms(text)), set(terms(other))).f1 >= ALIKE for other in asked)


def _told(question: Question, conversation: Conversation, said: Mapping[str, Set[str]]) -> bool:
    """Whether a turn of the other speaker has as many words of the question as the best of its evidence."""
    asked = set(stems(" ".join(terms(question.text)))).difference(stems(" ".join(conversation.speakers)))
    shared = {turn: len(asked & words) for turn, words in said.items()}
    own = max(shared[turn] for turn in question.evidence)
    [speaker] = {turn.speaker for turn in conversation.turns if turn.id in question.evidence}
    other = max((shared[turn.id] for turn in conversation.turns if turn.speaker != speaker), default=0)
    return other >= max(own, 1)


def _name(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}\b")
