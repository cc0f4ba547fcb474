"""AssistantBench's texts: F1 of sets of words after DROP (facts/qa_scoring.md, 3.2, rule 7)."""

import re
from string import punctuation

from certigraph.adapters.research.scoring_pairs import aligned

Bag = frozenset[str]

ARTICLES = re.compile(r"\b(a|an|the)\b")
BETWEEN = re.compile("[ -]")
PUNCTUATION = str.maketrans("", "", punctuation)


def text_score(predicted: object, gold: object) -> float:
    """The mean F1 of the best pairing of spans. A list's items are its spans, and score 0 unless all are texts."""
    given, right = _spans(predicted), _spans(gold)
    return aligned([bag(span) for span in given], [bag(span) for span in right], bag_f1)


def bag(span: str) -> Bag:
    """The distinct words of a span: lower case, without punctuation and articles; numbers as Python writes floats."""
    return frozenset(word for token in BETWEEN.split(span) for word in _word(token.lower()).split())


def bag_f1(predicted: Bag, gold: Bag) -> float:
    """F1 of two sets; 0 where the gold has numbers and the prediction none of them, 1 where both are empty."""
    numbers = {word for word in gold if _is_number(word)}
    if numbers and numbers.isdisjoint(predicted):
        return 0.0
    shared = len(predicted & gold)
    precision = shared / len(predicted) if predicted else 1.0
    recall = shared / len(gold) if gold else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _spans(value: object) -> list[str]:
    if not isinstance(value, list):
        return [str(value)]
    return value if all(isinstance(item, str) for item in value) else []


def _word(token: str) -> str:
    plain = token if _is_number(token) else token.translate(PUNCTUATION)
    return ARTICLES.sub(" ", str(float(plain)) if _is_number(plain) else plain)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
