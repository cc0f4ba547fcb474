"""Small conversations with questions of every category, for where LoCoMo's file is not at hand."""

from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import NamedTuple

from certigraph.adapters.locomo.conversations import (
    ADVERSARIAL,
    MULTI_HOP,
    OPEN_DOMAIN,
    SINGLE_HOP,
    TEMPORAL,
    Conversation,
    Question,
    Turn,
)

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
    return {made.id: made for made in map(_conversation, range(count))}


def _conversation(seed: int) -> Conversation:
    rng = Random(f"locomo-{seed}")
    pools = (NAMES, HOBBIES, PLACES, FRIENDS, PETS)
    one, other = (_Life(*told) for told in zip(*(rng.sample(pool, 2) for pool in pools), strict=True))
    days = [FIRST_DAY + timedelta(days=rng.randint(1, 20) + 30 * session) for session in range(3)]
    questions = (*_questions(one, other, days, 0), *_questions(other, one, days, 1), _shared(one, other))
    return Conversation(
        id=f"made-{seed}",
        speakers=(one.name, other.name),
        turns=tuple(_turns(one, other, days, rng)),
        questions=questions,
    )


def _turns(one: _Life, other: _Life, days: list[date], rng: Random) -> Iterator[Turn]:
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
