"""Scores of short answers, as HotpotQA's and MuSiQue's official scorers have in common (facts/qa_scoring.md)."""

import re
import string
from collections import Counter
from collections.abc import Set
from typing import NamedTuple

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class Overlap(NamedTuple):
    """Precision, recall and their harmonic mean, each 0 to 1."""

    precision: float
    recall: float
    f1: float


NONE = Overlap(0.0, 0.0, 0.0)


def normalised(text: str) -> str:
    """Lower case; ASCII punctuation deleted; the words a, an, the blanked out; blanks collapsed: in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """1.0 where both are the same once normalised, else 0.0."""
    return float(normalised(answer) == normalised(reference))


def token_f1(answer: str, reference: str) -> float:
    """F1 over the multisets of normalised tokens; 0 without a common one."""
    return token_overlap(answer, reference).f1


def token_overlap(answer: str, reference: str) -> Overlap:
    """The same with precision and recall."""
    found, wanted = Counter(normalised(answer).split()), Counter(normalised(reference).split())
    return overlap((found & wanted).total(), found.total(), wanted.total())


def set_overlap(found: Set[object], wanted: Set[object]) -> Overlap:
    """Precision, recall and F1 of a set against the wanted one; 0 where a denominator is."""
    return overlap(len(found & wanted), len(found), len(wanted))


def overlap(common: int, found: int, wanted: int) -> Overlap:
    """Of the numbers of things in common, found and wanted."""
    return harmonic(common / found, common / wanted) if common else NONE


def harmonic(precision: float, recall: float) -> Overlap:
    """Precision and recall with their harmonic mean; 0 where both are."""
    total = precision + recall
    return Overlap(precision, recall, 2 * precision * recall / total if total else 0.0)
