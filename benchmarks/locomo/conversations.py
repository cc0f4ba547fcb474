"""LoCoMo's conversations with their questions, read from its files, and invented ones."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from certigraph.adapters.files import read_json
from certigraph.state.endings import Fault
from certigraph.state.records import Record
from certigraph.state.search import Passage

# Conversations and their questions in LoCoMo's JSON layout.

MULTI_HOP, TEMPORAL, OPEN_DOMAIN, SINGLE_HOP, ADVERSARIAL = 1, 2, 3, 4, 5
"""Categories of questions, with their numbers in LoCoMo's files."""

TURN_ID = re.compile(r"D\d+:\d+")
"""Id of a turn of the dialogue, such as D1:3."""
SESSION_KEY = re.compile(r"session_(\d+)")
"""Key of a session in the file."""


class DialogueTurn(Record):
    """One speaker's turn in a conversation; `id` is unique in the conversation, such as D1:3."""

    id: str
    speaker: str
    text: str
    caption: str = ""
    """Description, written by a model, of an image that the speaker shares."""
    date: str = ""


class DialogueQuestion(Record):
    """A question about a conversation, with its gold answer.

    `answer` is empty if the conversation does not contain the answer (category 5, adversarial).
    """

    text: str
    answer: str
    evidence: tuple[str, ...]
    """Ids of the turns from which the question can be answered."""
    category: int


class Conversation(Record):
    """A conversation: its turns in their order, and the questions about it in the order of the file."""

    id: str
    speakers: tuple[str, str]
    turns: tuple[DialogueTurn, ...]
    questions: tuple[DialogueQuestion, ...]

    def passages(self) -> list[Passage]:
        """Return one passage per turn, with ids such as `conv-26/D1:3`. Turns are the unit of LoCoMo's evidence.

        A title has the speaker and the date, because turns say "I" and "yesterday", and the turn's id, so that titles
        differ.
        """
        return [self._passage(turn) for turn in self.turns]

    def evidence(self, question: DialogueQuestion) -> list[Passage]:
        """Return the turns of a question's evidence as passages, in the order of `question.evidence`."""
        turns = {turn.id: turn for turn in self.turns}
        return [self._passage(turns[id_]) for id_ in question.evidence]

    def _passage(self, turn: DialogueTurn) -> Passage:
        return Passage(
            id=f"{self.id}/{turn.id}", title=f"{turn.speaker}, {turn.date} ({turn.id})", text=_turn_text(turn)
        )


def read_conversations(path: Path) -> dict[str, Conversation]:
    """Read the conversations in a file by id. The file may be gzipped.

    Raises:
        Fault: ("data") the file does not exist, or is not in LoCoMo's layout.
    """
    try:
        conversations = [_conversation(sample) for sample in read_json(path)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fix = "point --data at the folder of LoCoMo's locomo10.json"
        raise Fault("data", f"{path} holds no conversations ({error!r}): {fix}") from error
    return {conversation.id: conversation for conversation in conversations}


def _conversation(sample: Mapping[str, Any]) -> Conversation:
    dialogue = sample["conversation"]
    turns = tuple(_turns(dialogue))
    known_turns = {turn.id for turn in turns}
    return Conversation(
        id=sample["sample_id"],
        speakers=(dialogue["speaker_a"], dialogue["speaker_b"]),
        turns=turns,
        questions=tuple(_question(row, known_turns) for row in sample["qa"]),
    )


def _turns(dialogue: Mapping[str, Any]) -> Iterator[DialogueTurn]:
    # by the keys of the sessions, not of their dates: some dates belong to sessions that do not exist
    numbers = sorted(int(match[1]) for key in dialogue if (match := SESSION_KEY.fullmatch(key)))
    for number in numbers:
        date = dialogue.get(f"session_{number}_date_time", "")
        for turn in dialogue[f"session_{number}"]:
            caption = turn.get("blip_caption", "")
            yield DialogueTurn(
                id=turn["dia_id"], speaker=turn["speaker"], text=turn["text"], caption=caption, date=date
            )


def _question(row: Mapping[str, Any], known_turns: Set[str]) -> DialogueQuestion:
    answerable = row["category"] != ADVERSARIAL
    return DialogueQuestion(
        text=row["question"],
        answer=str(row["answer"]) if answerable else "",  # a few are integers; two of category 5 say "No"
        evidence=tuple(id_ for id_ in parse_turn_ids(row["evidence"]) if id_ in known_turns),
        category=row["category"],
    )


def parse_turn_ids(evidence: Sequence[JsonValue]) -> tuple[str, ...]:
    """Return the ids of the turns that the texts in `evidence` name; each text may name several or none."""
    return tuple(dict.fromkeys(id_ for text in evidence for id_ in TURN_ID.findall(str(text))))


def _turn_text(turn: DialogueTurn) -> str:
    return f"{turn.text} [shares an image: {turn.caption}]" if turn.caption else turn.text


# Small invented conversations with questions of every category, used without LoCoMo's file.

SAMPLE = Path(__file__).with_name("sample.json")


def sample_conversations() -> dict[str, Conversation]:
    """Return three invented conversations by id: `made-0` to `made-2`, each of 12 turns with 11 questions."""
    return {row["id"]: Conversation.model_validate(row) for row in read_json(SAMPLE)}
