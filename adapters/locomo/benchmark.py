"""LoCoMo as a benchmark: questions, unanswerable questions and scores."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple, TypeVar

from certigraph.adapters.files import cache_folder, unknown_task
from certigraph.adapters.locomo.conversations import (
    ADVERSARIAL,
    MULTI_HOP,
    OPEN_DOMAIN,
    SINGLE_HOP,
    TEMPORAL,
    Conversation,
    Question,
    generated_conversations,
    read_conversations,
)
from certigraph.adapters.qa import questions as searching
from certigraph.adapters.qa.benchmark import Outcome, Parts, QuestionBenchmark
from certigraph.adapters.qa.questions import Hop, QuestionBank, question_file
from certigraph.adapters.qa.scoring import overlap, set_overlap, stemmer
from certigraph.adapters.retrieval.bm25 import Pool, Retriever, terms
from certigraph.adapters.retrieval.dense import mixed
from certigraph.state.records import Task, UnknownName

# LoCoMo's scores by category of question (its public evaluation code), and what counts as an abstention.

UNANSWERABLE = "UNANSWERABLE"
"""What an agent is told to answer where the conversation does not tell."""

OFFICIAL_PHRASES = ("no information available", "not mentioned")
"""An answer to a question of category 5 is right with one of these in it, and wrong without."""

ABSTENTIONS = (
    *OFFICIAL_PHRASES,
    "unanswerable",
    "cannot be answered",
    "can't be answered",
    "cannot be determined",
    "can't be determined",
    "no information",
    "not enough information",
    "insufficient information",
    "not specified",
    "not stated",
    "not discussed",
    "not provided",
    "does not say",
    "doesn't say",
    "does not mention",
    "doesn't mention",
    "i don't know",
    "i do not know",
    "unknown",
)
"""Our own, wider list; CGDP counts an abstention right without saying what one is."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LEFT_OUT = re.compile(r"\b(?:a|an|the|and)\b")


def abstains(answer: str) -> bool:
    """Whether an answer says that there is none; an empty one says nothing."""
    return _says(answer, ABSTENTIONS)


def official(answer: str, question: Question) -> float:
    """LoCoMo's score, 0 to 1: abstention in category 5, parts between commas in category 1, else token F1.

    Of a gold answer of category 3 only what stands before a ";" counts.
    """
    if question.category == ADVERSARIAL:
        return float(_says(answer, OFFICIAL_PHRASES))
    if question.category == MULTI_HOP:
        return fmean(max(stemmed_f1(part, gold) for part in answer.split(",")) for gold in question.answer.split(","))
    return stemmed_f1(answer, reference(question))


def reference(question: Question) -> str:
    """The gold answer as it is scored; `UNANSWERABLE` where there is none."""
    if question.category == ADVERSARIAL:
        return UNANSWERABLE
    return question.answer.partition(";")[0].strip() if question.category == OPEN_DOMAIN else question.answer


def stemmed_f1(answer: str, gold: str) -> float:
    """Token F1 after LoCoMo's normalisation. Raises Fault where NLTK is not installed."""
    found, wanted = Counter(stems(answer)), Counter(stems(gold))
    return overlap((found & wanted).total(), found.total(), wanted.total()).f1


def stems(text: str) -> list[str]:
    """Porter stems of the words, lower-cased, without punctuation and a, an, the, and."""
    plain = _LEFT_OUT.sub(" ", text.lower().translate(_PUNCTUATION))
    return [_stem(word) for word in plain.split()]


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    return str(stemmer().stem(word))


def _says(answer: str, phrases: tuple[str, ...]) -> bool:
    told = answer.lower().replace("\u2019", "'")
    return any(phrase in told for phrase in phrases)


# Questions made unanswerable by exchanging the speaker they ask about (CGDP appendix A.2, G7: evidence misaligned).
#
# "When did Caroline join the group?" becomes "When did Melanie join the group?": passages about the group are found,
# and none of them is about Melanie.

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


# LoCoMo's questions with their gold, as search benchmarks know them, and the splits that they are asked in.

KINDS = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
SWAPPED = "swapped"

DRAWN = re.compile(rf"{SWAPPED}-(\d+)(?:-(\d+))?")

SPLITS = f"answerable, unanswerable, cgdp, {SWAPPED}, {SWAPPED}-N and {SWAPPED}-N-SEED (N of those, drawn)"


class Asked(searching.Question):
    """A question of a conversation; its hops are the turns of its evidence, each with the whole answer."""

    gold: Question

    @property
    def answerable(self) -> bool:
        """Whether the conversation tells the answer."""
        return self.gold.category != ADVERSARIAL


class ConversationBank(QuestionBank[Asked]):
    """Every question by id, `conv-26/0`, and `conv-26/0-swapped` where its speaker can be exchanged."""

    def __init__(self, read: Callable[[], Mapping[str, Conversation]]) -> None:
        """Read conversations when they are first asked for."""
        super().__init__("locomo", lambda split: {asked.id: asked for asked in self.split(split)})
        self._conversations = read

    @cached_property
    def conversations(self) -> Mapping[str, Conversation]:
        """By id. Raises Fault ("data") as the reader does."""
        return self._conversations()

    @cached_property
    def original(self) -> dict[str, Asked]:
        """LoCoMo's own questions."""
        talks = self.conversations.values()
        listed = ((talk, place, question) for talk in talks for place, question in enumerate(talk.questions))
        return {asked.id: asked for asked in (_make_question(*one) for one in listed)}

    @cached_property
    def swapped(self) -> dict[str, Asked]:
        """Those made unanswerable; 146 of the 993 of categories 1, 2 and 4 in the seven shared conversations."""
        listed = ((talk, *made) for talk in self.conversations.values() for made in swapped_questions(talk))
        return {asked.id: asked for asked in (_make_question(*one, SWAPPED) for one in listed)}

    def question(self, id_: str) -> Asked:
        """One question. Raises UnknownName with some valid ids."""
        known = self.swapped if id_.endswith(SWAPPED) else self.original
        if id_ not in known:
            raise unknown_task("locomo", id_, f"CONVERSATION/NUMBER, here {len(known)} of them", known)
        return known[id_]

    def split(self, name: str = "") -> Sequence[Asked]:
        """The questions of a split; LoCoMo's own where none is named.

        `cgdp` is single-hop and adversarial questions: that paper's 835 answerable and 440 unanswerable are six less
        than the published 841 and 446 of these two categories, so this is our reading of it.

        Raises:
            UnknownName: no such split; lists them.
        """
        if match := DRAWN.fullmatch(name):
            return drawn(tuple(self.swapped.values()), int(match[1]), int(match[2] or 0))
        own = self.original.values()
        splits: Mapping[str, Callable[[], Sequence[Asked]]] = {
            "": lambda: [*own],
            "answerable": lambda: [asked for asked in own if asked.answerable],
            "unanswerable": lambda: [*(asked for asked in own if not asked.answerable), *self.swapped.values()],
            "cgdp": lambda: [asked for asked in own if asked.gold.category in (SINGLE_HOP, ADVERSARIAL)],
            SWAPPED: lambda: [*self.swapped.values()],
        }
        if name not in splits:
            raise UnknownName(f"locomo has no split {name!r}; known: {SPLITS}")
        return splits[name]()


def _make_question(talk: Conversation, place: int, question: Question, suffix: str = "") -> Asked:
    answer, turns = reference(question), {passage.id: passage for passage in talk.evidence(question)}
    hops = [Hop(question=question.text, answer=answer, passage=turn, finding=turn.text) for turn in turns.values()]
    return Asked(
        id=f"{talk.id}/{place}" + (f"-{suffix}" if suffix else ""),
        text=question.text,
        answers=(answer,),
        kind=suffix or KINDS[question.category],
        passages=(),
        hops=tuple(hops),
        gold=question,
    )


# LoCoMo as a search benchmark: one conversation is the corpus of all its questions.

FILES = ("locomo10", "locomo10.shared")


class LoCoMo(QuestionBenchmark[Asked]):
    """Tasks `conv-26/0` (the first question about that conversation) and `conv-26/0-swapped`; without data `made-0/0`.

    Splits: see `ConversationBank.split`. Every passage is one turn of the dialogue and has to be searched for. The
    score of an answerable question is LoCoMo's for its category, of an unanswerable one 1 for an abstention.

    Args:
        folder: holds locomo10.json, gzipped or not; None: three generated conversations.
    """

    plain = "locomo"
    longest_answer = 300
    configurations = ()
    retrieving = ("",)
    briefing = (
        "The corpus is one long conversation between two people, a passage a turn, with its speaker and its date; "
        '"yesterday" in a turn means the day before that date. Actions are search[words to look for], which shows the '
        "turns that fit, and finish[the shortest answer]. Where the conversation does not tell, or tells it of the "
        f"other person only, the answer is {UNANSWERABLE}."
    )

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        super().__init__(folder, config)
        self.bank = self._talks = ConversationBank(self._conversations)
        self._retriever = lru_cache(maxsize=32)(self._made)

    def read(self, split: str) -> Mapping[str, Asked]:
        """The questions of a split by id."""
        return {asked.id: asked for asked in self.bank.split(split)}

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """BM25 over the turns of the conversation, mixed with vectors where `alpha` is below 1; those are kept."""
        return self._retriever(task.id.rpartition("/")[0], 1.0 if alpha is None else alpha)

    def answer_parts(self, question: Asked, answer: str) -> dict[str, float]:
        """`f1`, the score; `em` over stems; `official`, LoCoMo's own of category 5 too; `abstained`."""
        abstained, by_category = float(abstains(answer)), official(answer, question.gold)
        if not question.answerable:
            return {"em": abstained, "f1": abstained, "official": by_category, "abstained": abstained}
        equal = float(stems(answer) == stems(question.answers[0]))
        return {"em": equal, "f1": by_category, "official": by_category, "abstained": abstained}

    def parts(self, question: Asked, outcome: Outcome) -> Parts:
        """The same of what an episode handed in, which may be nothing."""
        return {**self.answer_parts(question, outcome.answer or "")}

    def _conversations(self) -> Mapping[str, Conversation]:
        if self.folder is None:
            return generated_conversations()
        return read_conversations(question_file("locomo", self.folder, FILES))

    def _made(self, conversation: str, alpha: float) -> Retriever:
        passages = self._talks.conversations[conversation].passages()
        # Titles are a speaker and a date, which many turns have: there is nothing to put first.
        return mixed(Pool(passages, boost_titles=False), passages, alpha, folder=cache_folder() / "vectors")
