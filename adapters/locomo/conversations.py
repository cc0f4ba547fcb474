"""LoCoMo's conversations with their questions, read from its files or generated."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

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


# Small generated conversations with questions of every category, used without LoCoMo's file.

NAMES = ("Robin", "Kim", "Sasha", "Alex", "Jules", "Noa")
HOBBIES = ("pottery", "archery", "chess", "fencing", "sailing", "juggling", "beekeeping", "origami")
PLACES = ("Lisbon", "Oslo", "Kyoto", "Quito", "Tunis", "Perth", "Bergen", "Turin")
FRIENDS = ("Bruno", "Ines", "Tomas", "Greta", "Omar", "Lena", "Pavel", "Rosa")
PETS = ("parrot", "tortoise", "hamster", "ferret", "rabbit", "gecko")

FIRST_DAY = date(2024, 3, 4)

SMALL_TALK = ("How have you been?", "That sounds lovely!", "Tell me more.", "I am glad to hear it.", "What a week!")


class _Life(NamedTuple):
    """What one speaker of a generated conversation tells in its three sessions."""

    name: str
    hobby: str
    place: str
    friend: str
    pet: str


def generate_conversations(count: int = 3) -> dict[str, Conversation]:
    """Generate `count` conversations by id (`made-0`, `made-1`, ...), which are the same every time.

    Each has three sessions with 12 turns in total, and 11 questions.
    """
    return {conversation.id: conversation for conversation in map(_generate_conversation, range(count))}


def _generate_conversation(seed: int) -> Conversation:
    rng = Random(f"locomo-{seed}")
    pools = (NAMES, HOBBIES, PLACES, FRIENDS, PETS)
    one, other = (_Life(*facts) for facts in zip(*(rng.sample(pool, 2) for pool in pools), strict=True))
    days = [FIRST_DAY + timedelta(days=rng.randint(1, 20) + 30 * session) for session in range(3)]
    questions = (*_questions(one, other, days, 0), *_questions(other, one, days, 1), _shared_question(one, other))
    return Conversation(
        id=f"made-{seed}",
        speakers=(one.name, other.name),
        turns=tuple(_generate_turns(one, other, days, rng)),
        questions=questions,
    )


def _generate_turns(one: _Life, other: _Life, days: list[date], rng: Random) -> Iterator[DialogueTurn]:
    topics = (
        ("Yesterday I tried {hobby} for the first time, and I want to go on with it.", ""),
        ("I spent the weekend in {place} with my friend {friend}.", "a photo of a street in {place}"),
        ("I brought home a {pet} today, it is asleep beside me.", ""),
    )
    for session, ((text, caption), day) in enumerate(zip(topics, days, strict=True), 1):
        for number, (life, news) in enumerate(((one, False), (one, True), (other, False), (other, True)), 1):
            words = text.format(**life._asdict()) if news else rng.choice(SMALL_TALK)
            image = caption.format(**life._asdict()) if news else ""
            time = f"{number}:00 pm on {_format_day(day)}"
            yield DialogueTurn(id=f"D{session}:{number}", speaker=life.name, text=words, caption=image, date=time)


def _questions(life: _Life, other: _Life, days: list[date], who: int) -> Iterator[DialogueQuestion]:
    hobby, trip_turn, pet = (f"D{session}:{2 + 2 * who}" for session in (1, 2, 3))
    name, day = life.name, _format_day(days[0] - timedelta(days=1))
    yield DialogueQuestion(text=f"When did {name} try {life.hobby}?", answer=day, evidence=(hobby,), category=TEMPORAL)
    with_whom = f"With whom did {name} spend a weekend in {life.place}?"
    yield DialogueQuestion(text=with_whom, answer=life.friend, evidence=(trip_turn,), category=SINGLE_HOP)
    yield DialogueQuestion(
        text=f"What new things came into the life of {name}?",
        answer=f"{life.hobby}, a {life.pet}",
        evidence=(hobby, pet),
        category=MULTI_HOP,
    )
    yield DialogueQuestion(
        text=f"Would {name} take care of animals?",
        answer=f"Likely yes; {name} keeps a {life.pet}",
        evidence=(pet,),
        category=OPEN_DOMAIN,
    )
    about_other = f"What did {name} say about the {other.pet}?"
    yield DialogueQuestion(text=about_other, answer="", evidence=(f"D3:{4 - 2 * who}",), category=ADVERSARIAL)


def _shared_question(one: _Life, other: _Life) -> DialogueQuestion:
    text = f"Which cities did {one.name} and {other.name} see?"
    return DialogueQuestion(
        text=text, answer=f"{one.place}, {other.place}", evidence=("D2:2", "D2:4"), category=MULTI_HOP
    )


def _format_day(day: date) -> str:
    return f"{day.day} {day:%B}, {day.year}"
