"""Conversations and their questions, read from LoCoMo's own JSON layout."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from certigraph.adapters.rows import read_json
from certigraph.state.endings import Fault
from certigraph.state.passages import Passage
from certigraph.state.records import Record

MULTI_HOP, TEMPORAL, OPEN_DOMAIN, SINGLE_HOP, ADVERSARIAL = 1, 2, 3, 4, 5
"""Categories of questions, by the numbers of the files."""

TURN = re.compile(r"D\d+:\d+")
SESSION = re.compile(r"session_(\d+)")


class Turn(Record):
    """What one speaker says before the other does; `id` is the dialogue's, as D1:3."""

    id: str
    speaker: str
    text: str
    caption: str = ""
    """What a shared image shows, as a model described it."""
    date: str = ""


class Question(Record):
    """A question and its gold: `answer` is empty where the conversation does not tell (category 5)."""

    text: str
    answer: str
    evidence: tuple[str, ...]
    """Ids of turns."""
    category: int


class Conversation(Record):
    """Turns in their order, by session, and questions in the file's order."""

    id: str
    speakers: tuple[str, str]
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    def passages(self) -> list[Passage]:
        """One passage a turn, the unit in which LoCoMo names evidence; ids as `conv-26/D1:3`.

        The title holds speaker and date, for a turn says "yesterday" and "I", and the id, so that titles differ.
        """
        return [self._passage(turn) for turn in self.turns]

    def evidence(self, question: Question) -> list[Passage]:
        """The turns that a question's evidence names, in its order."""
        turns = {turn.id: turn for turn in self.turns}
        return [self._passage(turns[id_]) for id_ in question.evidence]

    def _passage(self, turn: Turn) -> Passage:
        return Passage(id=f"{self.id}/{turn.id}", title=f"{turn.speaker}, {turn.date} ({turn.id})", text=_words(turn))


def read_conversations(path: Path) -> dict[str, Conversation]:
    """The conversations of a file by id, also of a gzipped one.

    Raises:
        Fault: ("data") there is no such file, or it is not of LoCoMo's layout.
    """
    try:
        read = [_conversation(sample) for sample in read_json(path)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fix = "point --data at the folder of LoCoMo's locomo10.json"
        raise Fault("data", f"{path} holds no conversations ({error!r}): {fix}") from error
    return {conversation.id: conversation for conversation in read}


def _conversation(sample: Mapping[str, Any]) -> Conversation:
    told = sample["conversation"]
    turns = tuple(_turns(told))
    said = {turn.id for turn in turns}
    return Conversation(
        id=sample["sample_id"],
        speakers=(told["speaker_a"], told["speaker_b"]),
        turns=turns,
        questions=tuple(_question(row, said) for row in sample["qa"]),
    )


def _turns(told: Mapping[str, Any]) -> Iterator[Turn]:
    # by the sessions and not by their dates: some dates are of sessions that do not exist
    numbers = sorted(int(match[1]) for key in told if (match := SESSION.fullmatch(key)))
    for number in numbers:
        date = told.get(f"session_{number}_date_time", "")
        for turn in told[f"session_{number}"]:
            caption = turn.get("blip_caption", "")
            yield Turn(id=turn["dia_id"], speaker=turn["speaker"], text=turn["text"], caption=caption, date=date)


def _question(row: Mapping[str, Any], said: Set[str]) -> Question:
    answerable = row["category"] != ADVERSARIAL
    return Question(
        text=row["question"],
        answer=str(row["answer"]) if answerable else "",  # a few are integers; two of category 5 say "No"
        evidence=tuple(id_ for id_ in turn_ids(row["evidence"]) if id_ in said),
        category=row["category"],
    )


def turn_ids(evidence: Sequence[JsonValue]) -> tuple[str, ...]:
    """The turns that evidence names; several in one text are taken apart, and what names none is left out."""
    return tuple(dict.fromkeys(id_ for text in evidence for id_ in TURN.findall(str(text))))


def _words(turn: Turn) -> str:
    return f"{turn.text} [shares an image: {turn.caption}]" if turn.caption else turn.text
