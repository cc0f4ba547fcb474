"""LoCoMo: scores, questions changed so that they cannot be answered, the splits, and the benchmark."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple, TypeVar

from certigraph.adapters.files import cache_folder, unknown_task_error
from certigraph.adapters.protocols import Limits
from certigraph.adapters.retrieval.answers import load_stemmer, overlap_of_counts, set_overlap
from certigraph.adapters.retrieval.bm25 import PassagePool, Retriever, terms
from certigraph.adapters.retrieval.dense import combine_retrievers
from certigraph.benchmarks.locomo.conversations import (
    ADVERSARIAL,
    MULTI_HOP,
    OPEN_DOMAIN,
    SINGLE_HOP,
    TEMPORAL,
    Conversation,
    DialogueQuestion,
    read_conversations,
    sample_conversations,
)
from certigraph.benchmarks.qa import questions as searching
from certigraph.benchmarks.qa.benchmark import QuestionBenchmark, ScoreParts, SearchOutcome
from certigraph.benchmarks.qa.questions import GoldHop, QuestionBank, find_question_file
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task

# LoCoMo's scores by category of question (its public evaluation code), and what counts as an abstention.

UNANSWERABLE_ANSWER = "UNANSWERABLE"
"""Answer that agents have to give if the conversation does not contain the answer."""

OFFICIAL_PHRASES = ("no information available", "not mentioned")
"""Phrases of which LoCoMo's score requires one in an answer to a question of category 5."""

ABSTENTION_PHRASES = (
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
"""Phrases that count as an abstention: our own, longer list, because CGDP does not define what an abstention is."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DROPPED_WORDS = re.compile(r"\b(?:a|an|the|and)\b")


def is_abstention(answer: str) -> bool:
    """Return whether an answer says that the question cannot be answered; an empty answer is not an abstention."""
    return _contains_phrase(answer, ABSTENTION_PHRASES)


def official_score(answer: str, question: DialogueQuestion) -> float:
    """Return LoCoMo's score of an answer, in [0, 1], which depends on the category of the question.

    In category 5 it is 1 if the answer abstains with an official phrase. In category 1 it is the mean over the
    comma-separated parts of the gold answer of the best F1 of any part of the answer. Else it is token F1; in category
    3 only the part of the gold answer before a ";" counts.
    """
    if question.category == ADVERSARIAL:
        return float(_contains_phrase(answer, OFFICIAL_PHRASES))
    if question.category == MULTI_HOP:
        return fmean(max(stemmed_f1(part, gold) for part in answer.split(",")) for gold in question.answer.split(","))
    return stemmed_f1(answer, reference_of(question))


def reference_of(question: DialogueQuestion) -> str:
    """Return the gold answer as it is scored: in category 3 without the part after ";".

    It is `UNANSWERABLE_ANSWER` if the conversation does not contain an answer.
    """
    if question.category == ADVERSARIAL:
        return UNANSWERABLE_ANSWER
    return question.answer.partition(";")[0].strip() if question.category == OPEN_DOMAIN else question.answer


def stemmed_f1(answer: str, gold: str) -> float:
    """Return F1 of the word stems of two texts, normalised as in LoCoMo (`stem_words`).

    Raises:
        Fault: NLTK is not installed.
    """
    predicted, expected = Counter(stem_words(answer)), Counter(stem_words(gold))
    return overlap_of_counts((predicted & expected).total(), predicted.total(), expected.total()).f1


def stem_words(text: str) -> list[str]:
    """Return the Porter stems of the lower-cased words of a text, without punctuation and the words a, an, the, and."""
    plain = _DROPPED_WORDS.sub(" ", text.lower().translate(_PUNCTUATION))
    return [_stem(word) for word in plain.split()]


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    return str(load_stemmer().stem(word))


def _contains_phrase(answer: str, phrases: tuple[str, ...]) -> bool:
    text = answer.lower().replace("\u2019", "'")
    return any(phrase in text for phrase in phrases)


# Questions that have no answer because the speaker in them was swapped (CGDP appendix A.2, G7: evidence misaligned).
#
# "When did Caroline join the group?" becomes "When did Melanie join the group?": a search finds passages about the
# group, but none of them is about Melanie.

T = TypeVar("T")

SWAPPABLE_CATEGORIES = (MULTI_HOP, TEMPORAL, SINGLE_HOP)
"""Categories of questions whose speaker can be swapped.

Answers of open-domain questions are inferred, which may be possible for the other speaker, too.
"""

PRONOUNS = re.compile(r"\b(?:he|him|his|himself|she|her|hers|herself)\b", re.IGNORECASE)
"""Pronouns, which would reveal that the speaker was swapped."""

YES_NO_ANSWER = re.compile(r"(?:yes|no)\b", re.IGNORECASE)

COUNT_QUESTION = re.compile(r"how (?:many|much|often)\b", re.IGNORECASE)
"""Beginning of questions for a count, which can be answered for the other speaker: none."""

SAME_QUESTION_F1 = 0.7
"""Minimum F1 of the words of two questions that count as the same question."""


class SwappedQuestion(NamedTuple):
    """A question whose speaker was swapped, and the index (`place`) of the original in the conversation."""

    place: int
    question: DialogueQuestion


def swap_questions(conversation: Conversation) -> list[SwappedQuestion]:
    """Swap the speaker in every question that allows it, so that it has no answer; the results have category 5.

    A question allows it if it is of category 1, 2 or 4, names exactly one speaker, has evidence from that speaker alone
    and no pronoun, and if it asks neither for yes or no nor for a count. Nearly the same question must not be asked
    about the other speaker. No turn of the other speaker may share as many words with the question as the evidence
    does: "What songs has Ann heard?" could be answered from any turn about songs.
    """
    return list(_swap_questions(conversation))


def draw_sample(questions: Sequence[T], most: int, seed: int) -> list[T]:
    """Return a random sample of at most `most` questions in their original order, drawn with `seed`."""
    chosen = Random(seed).sample(range(len(questions)), min(most, len(questions)))
    return [questions[index] for index in sorted(chosen)]


def _swap_questions(conversation: Conversation) -> Iterator[SwappedQuestion]:
    words_by_turn = {turn.id: set(stem_words(f"{turn.text} {turn.caption}")) for turn in conversation.turns}
    for index, question in enumerate(conversation.questions):
        text = swap_speaker(question.text, conversation.speakers)
        if not text or not _can_be_swapped(question, conversation):
            continue
        if not _fits_other_speaker(text, conversation) and not _is_covered_by_other(
            question, conversation, words_by_turn
        ):
            swapped = DialogueQuestion(text=text, answer="", evidence=question.evidence, category=ADVERSARIAL)
            yield SwappedQuestion(index, swapped)


def swap_speaker(text: str, speakers: tuple[str, str]) -> str:
    """Replace the name of a speaker in a text by that of the other; return an empty text if it names none or both."""
    named = [name for name in speakers if _name_pattern(name).search(text)]
    if len(named) != 1:
        return ""
    other = speakers[1 - speakers.index(named[0])]
    return _name_pattern(named[0]).sub(lambda _: other, text)


def _can_be_swapped(question: DialogueQuestion, conversation: Conversation) -> bool:
    if (
        question.category not in SWAPPABLE_CATEGORIES
        or YES_NO_ANSWER.match(question.answer)
        or COUNT_QUESTION.match(question.text)
    ):
        return False
    if PRONOUNS.search(question.text):
        return False
    speakers = {turn.speaker for turn in conversation.turns if turn.id in question.evidence}
    return len(speakers) == 1 and bool(_name_pattern(speakers.pop()).search(question.text))


def _fits_other_speaker(text: str, conversation: Conversation) -> bool:
    """Return whether the conversation already has nearly the same question about the speaker in the swapped text."""
    [speaker] = [name for name in conversation.speakers if _name_pattern(name).search(text)]
    questions = (q.text for q in conversation.questions if _name_pattern(speaker).search(q.text))
    return any(set_overlap(set(terms(text)), set(terms(other))).f1 >= SAME_QUESTION_F1 for other in questions)


def _is_covered_by_other(
    question: DialogueQuestion, conversation: Conversation, words_by_turn: Mapping[str, Set[str]]
) -> bool:
    """Return whether a turn of the other speaker shares as many words with the question as the evidence does."""
    question_words = set(stem_words(" ".join(terms(question.text)))).difference(
        stem_words(" ".join(conversation.speakers))
    )
    shared = {turn: len(question_words & words) for turn, words in words_by_turn.items()}
    own = max(shared[turn] for turn in question.evidence)
    [speaker] = {turn.speaker for turn in conversation.turns if turn.id in question.evidence}
    other = max((shared[turn.id] for turn in conversation.turns if turn.speaker != speaker), default=0)
    return other >= max(own, 1)


def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(name)}\b")


# LoCoMo's questions as multi-hop questions, and their splits.

CATEGORY_NAMES = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
"""Names of the categories of questions, by number."""
SWAPPED = "swapped"
"""Name of the split of the questions whose speaker was swapped, and suffix of their ids."""

SAMPLE_PATTERN = re.compile(rf"{SWAPPED}-(\d+)(?:-(\d+))?")
"""Name of a split that is a random sample of the swapped questions."""

SPLIT_NAMES = f"answerable, unanswerable, cgdp, {SWAPPED}, {SWAPPED}-N and {SWAPPED}-N-SEED (N of those, drawn)"
"""Description of the splits, for messages."""


class ConversationQuestion(searching.MultiHopQuestion):
    """A question about a conversation as a multi-hop question: each turn of its evidence is a hop.

    The answer of each hop is the complete answer of the question.
    """

    gold: DialogueQuestion

    @property
    def answerable(self) -> bool:
        """Whether the conversation contains the answer."""
        return self.gold.category != ADVERSARIAL


class ConversationBank(QuestionBank[ConversationQuestion]):
    """All questions by id, such as `conv-26/0`, and `conv-26/0-swapped` where the speaker can be swapped."""

    def __init__(self, read: Callable[[], Mapping[str, Conversation]]) -> None:
        """Create the questions of the conversations that `read` returns; it is called when they are first needed."""
        super().__init__("locomo", lambda split: {question.id: question for question in self.split(split)})
        self._conversations = read

    @cached_property
    def conversations(self) -> Mapping[str, Conversation]:
        """The conversations by id.

        Raises:
            Fault: ("data") as the function `read` raises.
        """
        return self._conversations()

    @cached_property
    def original(self) -> dict[str, ConversationQuestion]:
        """LoCoMo's own questions by id."""
        conversations = self.conversations.values()
        questions = (
            (conversation, index, question)
            for conversation in conversations
            for index, question in enumerate(conversation.questions)
        )
        return {item.id: item for item in (_make_question(*arguments) for arguments in questions)}

    @cached_property
    def swapped(self) -> dict[str, ConversationQuestion]:
        """The questions whose speaker was swapped, by id.

        In the seven shared conversations they are 146 of the 993 questions of categories 1, 2 and 4.
        """
        questions = (
            (conversation, *swapped)
            for conversation in self.conversations.values()
            for swapped in swap_questions(conversation)
        )
        return {item.id: item for item in (_make_question(*arguments, SWAPPED) for arguments in questions)}

    def question(self, id_: str) -> ConversationQuestion:
        """Return the question with an id.

        Raises:
            UnknownName: there is no such question; the message lists some valid ids.
        """
        known = self.swapped if id_.endswith(SWAPPED) else self.original
        if id_ not in known:
            raise unknown_task_error("locomo", id_, f"CONVERSATION/NUMBER, here {len(known)} of them", known)
        return known[id_]

    def split(self, name: str = "") -> Sequence[ConversationQuestion]:
        """Return the questions of a split, by default LoCoMo's own.

        The split `cgdp` has the single-hop and the adversarial questions. It is our interpretation: LoCoMo has 841 and
        446 of these, six more each than the 835 answerable and 440 unanswerable questions in CGDP.

        Raises:
            UnknownName: there is no such split; the message lists the splits.
        """
        if match := SAMPLE_PATTERN.fullmatch(name):
            return draw_sample(tuple(self.swapped.values()), int(match[1]), int(match[2] or 0))
        own = self.original.values()
        splits: Mapping[str, Callable[[], Sequence[ConversationQuestion]]] = {
            "": lambda: [*own],
            "answerable": lambda: [question for question in own if question.answerable],
            "unanswerable": lambda: [
                *(question for question in own if not question.answerable),
                *self.swapped.values(),
            ],
            "cgdp": lambda: [question for question in own if question.gold.category in (SINGLE_HOP, ADVERSARIAL)],
            SWAPPED: lambda: [*self.swapped.values()],
        }
        if name not in splits:
            raise UnknownName(f"locomo has no split {name!r}; known: {SPLIT_NAMES}")
        return splits[name]()


def _make_question(
    conversation: Conversation, index: int, question: DialogueQuestion, suffix: str = ""
) -> ConversationQuestion:
    answer, turns = reference_of(question), {passage.id: passage for passage in conversation.evidence(question)}
    hops = [GoldHop(question=question.text, answer=answer, passage=turn, finding=turn.text) for turn in turns.values()]
    return ConversationQuestion(
        id=f"{conversation.id}/{index}" + (f"-{suffix}" if suffix else ""),
        text=question.text,
        answers=(answer,),
        kind=suffix or CATEGORY_NAMES[question.category],
        passages=(),
        hops=tuple(hops),
        gold=question,
    )


# The benchmark: one conversation is the corpus of all its questions.

FILES = ("locomo10", "locomo10.shared")


class LoCoMo(QuestionBenchmark[ConversationQuestion]):
    """The benchmark LoCoMo: questions about conversations, with task ids such as `conv-26/0` and `conv-26/0-swapped`.

    Every passage is one turn of the dialogue and has to be searched for. An answerable question is scored with LoCoMo's
    measure for its category, an unanswerable one with 1 for an abstention. `ConversationBank.split` describes the
    splits. Generated conversations have task ids such as `made-0/0`.

    Args:
        data: folder with locomo10.json, which may be gzipped. None means three invented conversations.
        config: must be empty.
    """

    plain = "locomo"
    limits = Limits(replans=2, steps=20)
    longest_answer = 300
    unknown_answer = UNANSWERABLE_ANSWER
    configurations = ()
    retrieval_configurations = ("",)
    material = (
        "The passages are the turns of one long conversation between two people, each with its speaker and its date; "
        '"yesterday" in a turn means the day before that date. An answer is as short as it can be. What follows from a '
        "turn counts as told. Where the conversation does not tell, or tells it of the other person only, the answer "
        f"is {UNANSWERABLE_ANSWER}."
    )
    briefing = (
        "The corpus is one long conversation between two people, a passage a turn, with its speaker and its date; "
        '"yesterday" in a turn means the day before that date, (D8:22) turn 22 of session 8. Actions are search[words '
        "to look for], which shows the few turns that fit best, and finish[the shortest answer]. What follows from a "
        "turn counts as told. Where the conversation does not tell, or tells it of the other person only, the answer "
        f"is {UNANSWERABLE_ANSWER}."
    )

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        super().__init__(data, config)
        self.bank = self._talks = ConversationBank(self._conversations)
        self._retriever = lru_cache(maxsize=32)(self._build_retriever)

    def read(self, split: str) -> Mapping[str, ConversationQuestion]:
        """Return the questions of a split, by id."""
        return {question.id: question for question in self.bank.split(split)}

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """Return the retriever over the turns of the task's conversation.

        It is BM25, combined with sentence vectors if `alpha` is below 1.
        """
        return self._retriever(task.id.rpartition("/")[0], 1.0 if alpha is None else alpha)

    def answer_parts(self, question: ConversationQuestion, answer: str) -> dict[str, float]:
        """Return the scores of an answer by name.

        They are `f1` (the score of the task), `em` (exact match of word stems), `official` (LoCoMo's score, also in
        category 5) and `abstained`.
        """
        abstained, by_category = float(is_abstention(answer)), official_score(answer, question.gold)
        if not question.answerable:
            return {"em": abstained, "f1": abstained, "official": by_category, "abstained": abstained}
        equal = float(stem_words(answer) == stem_words(question.answers[0]))
        return {"em": equal, "f1": by_category, "official": by_category, "abstained": abstained}

    def parts(self, question: ConversationQuestion, outcome: SearchOutcome) -> ScoreParts:
        """Return the scores of the answer of an episode; a missing answer counts as an empty one."""
        return {**self.answer_parts(question, outcome.answer or "")}

    def _conversations(self) -> Mapping[str, Conversation]:
        if self.folder is None:
            return sample_conversations()
        return read_conversations(find_question_file("locomo", self.folder, FILES))

    def _build_retriever(self, conversation: str, alpha: float) -> Retriever:
        passages = self._talks.conversations[conversation].passages()
        # Titles are a speaker and a date, which many turns share, so a query's match with a title means little.
        return combine_retrievers(
            PassagePool(passages, boost_titles=False), passages, alpha, folder=cache_folder() / "vectors"
        )
