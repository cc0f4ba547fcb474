"""LoCoMo's scores by category of question (its public evaluation code), and what counts as an abstention."""

import re
import string
from collections import Counter
from functools import lru_cache
from statistics import fmean

from certigraph.adapters.locomo.conversations import ADVERSARIAL, MULTI_HOP, OPEN_DOMAIN, Question
from certigraph.adapters.metrics.libraries import stemmer
from certigraph.adapters.searching.scoring import overlap

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
