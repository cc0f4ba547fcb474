"""LoCoMo's conversations, read or generated."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import JsonValue

from certigraph.adapters.files import read_json
from certigraph.state.records import Fault, Record
from certigraph.state.search import Passage

# Conversations and their questions, read from LoCoMo's own JSON layout.

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


# Small conversations with questions of every category, for where LoCoMo's file is not at hand.

NAMES = ("Robin", "Kim", "Sasha", "Alex", "Jules", "Noa")
HOBBIES = ("pottery", "archery", "chess", "fencing", "sailing", "juggling", "beekeeping", "origami")
PLACES = ("Lisbon", "Oslo", "Kyoto", "Quito", "Tunis", "Perth", "Bergen", "Turin")
FRIENDS = ("Bruno", "Ines", "Tomas", "Greta", "Omar", "Lena", "Pavel", "Rosa")
PETS = ("parrot", "tortoise", "hamster", "ferret", "rabbit", "gecko")

FIRST_DAY = date(2024, 3, 4)

SMALL_TALK = ("How have you been?", "That sounds lovely!", "Tell me more.", "I am glad to hear it.", "What a week!")


class _Life(NamedTuple):
    """What one speaker tells over three sessions."""

    name: str
    hobby: str
    place: str
    friend: str
    pet: str


def generated_conversations(count: int = 3) -> dict[str, Conversation]:
    """Conversations `made-0` to `made-{count - 1}`, the same everywhere: three sessions, 12 turns, 11 questions."""
    return {made.id: made for made in map(_generate_conversation, range(count))}


def _generate_conversation(seed: int) -> Conversation:
    rng = Random(f"locomo-{seed}")
    pools = (NAMES, HOBBIES, PLACES, FRIENDS, PETS)
    one, other = (_Life(*told) for told in zip(*(rng.sample(pool, 2) for pool in pools), strict=True))
    days = [FIRST_DAY + timedelta(days=rng.randint(1, 20) + 30 * session) for session in range(3)]
    questions = (*_questions(one, other, days, 0), *_questions(other, one, days, 1), _shared(one, other))
    return Conversation(
        id=f"made-{seed}",
        speakers=(one.name, other.name),
        turns=tuple(_generate_turns(one, other, days, rng)),
        questions=questions,
    )


def _generate_turns(one: _Life, other: _Life, days: list[date], rng: Random) -> Iterator[Turn]:
    told = (
        ("Yesterday I tried {hobby} for the first time, and I want to go on with it.", ""),
        ("I spent the weekend in {place} with my friend {friend}.", "a photo of a street in {place}"),
        ("I brought home a {pet} today, it is asleep beside me.", ""),
    )
    for session, ((text, caption), day) in enumerate(zip(told, days, strict=True), 1):
        for number, (life, news) in enumerate(((one, False), (one, True), (other, False), (other, True)), 1):
            said = text.format(**life._asdict()) if news else rng.choice(SMALL_TALK)
            seen = caption.format(**life._asdict()) if news else ""
            at = f"{number}:00 pm on {_spoken(day)}"
            yield Turn(id=f"D{session}:{number}", speaker=life.name, text=said, caption=seen, date=at)


def _questions(life: _Life, other: _Life, days: list[date], who: int) -> Iterator[Question]:
    hobby, trip, pet = (f"D{session}:{2 + 2 * who}" for session in (1, 2, 3))
    name, tried = life.name, _spoken(days[0] - timedelta(days=1))
    yield Question(text=f"When did {name} try {life.hobby}?", answer=tried, evidence=(hobby,), category=TEMPORAL)
    with_whom = f"With whom did {name} spend a weekend in {life.place}?"
    yield Question(text=with_whom, answer=life.friend, evidence=(trip,), category=SINGLE_HOP)
    yield Question(
        text=f"What new things came into the life of {name}?",
        answer=f"{life.hobby}, a {life.pet}",
        evidence=(hobby, pet),
        category=MULTI_HOP,
    )
    yield Question(
        text=f"Would {name} take care of animals?",
        answer=f"Likely yes; {name} keeps a {life.pet}",
        evidence=(pet,),
        category=OPEN_DOMAIN,
    )
    of_other = f"What did {name} say about the {other.pet}?"
    yield Question(text=of_other, answer="", evidence=(f"D3:{4 - 2 * who}",), category=ADVERSARIAL)


def _shared(one: _Life, other: _Life) -> Question:
    text = f"Which cities did {one.name} and {other.name} see?"
    return Question(text=text, answer=f"{one.place}, {other.place}", evidence=("D2:2", "D2:4"), category=MULTI_HOP)


def _spoken(day: date) -> str:
    return f"{day.day} {day:%B}, {day.year}"
