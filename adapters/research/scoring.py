"""AssistantBench's official score and figures."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, log, sqrt
from statistics import fmean, stdev
from string import punctuation
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import JsonValue

from certigraph.adapters.qa.scoring import ANSWERED, FORCED
from certigraph.adapters.research.plans import ResearchQuestion
from certigraph.state.records import Scores

# AssistantBench's numbers: how texts become numbers, and how close two numbers are (facts/qa_scoring.md, 3.2).

MARKS = ("$", "%", "sqft")
AREA = " square kilometers"

ALMOST_ZERO = 1e-4
"""Stands for 0 in a ratio."""


def number(value: object, *, area: bool = True) -> float | None:
    """The number that a value is or says (rule 3); None where it says none.

    A comma becomes a dot wherever it stands: "1,010" is 1.01. With `area`, square kilometres may follow the number.
    """
    if isinstance(value, str):
        value = _cleaned(value).replace(AREA, "") if area else _cleaned(value)
    elif type(value) not in (int, float):  # bool is no number here
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # a str, int or float by now
    except (ValueError, OverflowError):
        return None


def number_score(predicted: float, gold: float) -> float:
    """1 minus the natural logarithm of the larger's ratio to the smaller, at least 0 (rule 6).

    Numbers of different signs and NaN score 0. Of two different negative numbers the official formula makes more
    than 1; here 1 is the most.
    """
    if predicted == gold == 0:
        return 1.0
    predicted, gold = predicted or ALMOST_ZERO, gold or ALMOST_ZERO
    ratio = predicted / gold if predicted > gold else gold / predicted
    return 0.0 if isnan(ratio) or ratio <= 0 else min(1.0, max(0.0, 1 - log(ratio)))


def _cleaned(text: str) -> str:
    for mark in MARKS:
        text = text.replace(mark, " ")
    return text.strip().replace(",", ".")


# The best pairing of what was predicted with what is right. scipy would be a heavy dependency for lists this short.

P = TypeVar("P")
G = TypeVar("G")

Gains = Sequence[Sequence[float]]

ROUNDING = 1e-12
"""A gain below this is a difference of rounding: going after it might never end."""


def aligned(predicted: Sequence[P], gold: Sequence[G], gain: Callable[[P, G], float]) -> float:
    """The mean gain of the best one-to-one pairing over the longer list; what finds no partner gains 0."""
    if not predicted or not gold:
        return 0.0
    gains = [[gain(one, right) for one in predicted] for right in gold]
    partners = best_partners(gains)
    return sum(gains[row][column] for row, column in sorted(partners.items())) / max(len(predicted), len(gold))


def best_partners(gains: Gains) -> dict[int, int]:
    """The columns of rows, each in one pair, with the largest sum of gains (none negative); O(rows^3 x columns).

    Rows come in one after the other, each along the path of moves that gains most; rows and columns change places
    where there are more rows.
    """
    if len(gains) > len(gains[0]):
        return {row: column for column, row in best_partners(list(zip(*gains, strict=True))).items()}
    held: dict[int, int] = {}
    for row in range(len(gains)):
        _let_in(row, gains, held)
    return {row: column for column, row in held.items()}


def _let_in(row: int, gains: Gains, held: dict[int, int]) -> None:
    """Give a row a column; rows that hold one (`held`: columns to rows) move where that gains most in all."""
    reached, before = list(gains[row]), dict[int, int]()
    moved = True
    while moved:
        moved = False
        for column, holder in held.items():
            left = reached[column] - gains[holder][column]
            for other, gain in enumerate(gains[holder]):
                if left + gain > reached[other] + ROUNDING:
                    reached[other], before[other], moved = left + gain, column, True
    column = max((free for free in range(len(reached)) if free not in held), key=reached.__getitem__)
    while column in before:
        held[column] = held[before[column]]
        column = before[column]
    held[column] = row


# AssistantBench's texts: F1 of sets of words after DROP (facts/qa_scoring.md, 3.2, rule 7).

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


# AssistantBench's JSON objects: how well two lists of them agree (facts/qa_scoring.md, 3.2, rule 8).

Fields = Mapping[str, Any]


def objects_score(predicted: object, gold: list[Any]) -> float:
    """The mean F1 of the best pairing of objects; 0 unless the prediction is a list that begins with an object."""
    listed = isinstance(predicted, list) and predicted and isinstance(predicted[0], dict)
    return aligned(predicted, gold, object_f1) if listed and isinstance(predicted, list) else 0.0


def object_f1(predicted: object, gold: object) -> float:
    """F1 of how much of each object's fields the other has; 0 for what is no object."""
    if not (isinstance(predicted, dict) and isinstance(gold, dict)):
        return 0.0
    recall, precision = _recall(gold, predicted), _recall(predicted, gold)
    return 2 * (precision * recall) / (precision + recall) if precision + recall else 0.0


def _recall(wanted: Fields, found: Fields) -> float:
    """The mean score of the wanted fields, a missing one 0; 0 where none is wanted."""
    scores = [field_score(found[name], value) if name in found else 0.0 for name, value in wanted.items()]
    return sum(scores) / len(scores) if scores else 0.0


def field_score(found: object, wanted: object) -> float:
    """How well two values agree, numbers in texts being numbers; 0 for different types, objects and null."""
    found, wanted = _typed(found), _typed(wanted)
    if isinstance(found, float) and isinstance(wanted, float):
        return number_score(found, wanted)
    alike = type(found) is type(wanted) and isinstance(found, str | bool | list)
    return text_score(found, wanted) if alike else 0.0


def _typed(value: object) -> object:
    cleaned = number(value, area=False)
    return value if cleaned is None else cleaned


# AssistantBench's official score of an answer, quirks included (facts/qa_scoring.md, section 3.2; rules by number).
#
# Where the official code stops with an exception, what it stopped at counts 0 here: null, true and false as an
# answer; a list, object or unwrapped number (rule 4) where the gold is a number; in a list of objects what is none;
# null and objects as values of an object's fields, and an object without fields.

QUOTED = ("{'", "', '", "': '", "'}", "': ")
"""Where single quotes are an object's own."""


class Score(NamedTuple):
    """How an answer fares."""

    accuracy: float
    """In [0, 1]."""
    answered: bool
    exact: bool
    """Whether the accuracy is 1; the leaderboard's own definition of exact match was not seen."""
    exact_string: bool
    """Whether the answer is the gold's text to the letter: exact match of the HAL harness."""


class Gold(NamedTuple):
    """A gold answer as it is compared: a number, a list of JSON values, or a list of texts."""

    kind: Literal["number", "json", "texts"]
    value: Any


def score(prediction: JsonValue, gold: str) -> Score:
    """Score an answer against a gold answer, which has one item a line."""
    right = gold_of(gold)
    given = _fitted(prediction, right.kind)
    accuracy = 0.0 if _void(given) else _accuracy(given, right)
    return Score(accuracy, _answered(given), accuracy == 1, prediction == gold)


def gold_of(text: str) -> Gold:
    """What a gold answer's lines are (rule 2)."""
    lines = [line for line in text.split("\n") if line.strip()]
    figure = number(lines[0]) if len(lines) == 1 else None
    if figure is not None:
        return Gold("number", figure)
    values = _values(map(_double_quoted, lines))
    return Gold("texts", lines) if values is None else Gold("json", values)


def _accuracy(given: object, gold: Gold) -> float:
    if gold.kind == "number":
        return number_score(given, gold.value) if isinstance(given, float) else 0.0
    return objects_score(given, gold.value) if gold.kind == "json" else text_score(given, gold.value)


def _fitted(prediction: JsonValue, kind: str) -> object:
    """The prediction as the official code compares it (rules 1 and 4)."""
    value = _decoded(prediction)
    if isinstance(value, list):
        return _unwrapped(value[0]) if len(value) == 1 and _counts(value[0]) else value
    cleaned = number(value)
    value = value if cleaned is None else cleaned
    if kind != "json":
        return value
    values = _values(value.split("\n")) if isinstance(value, str) else None
    return [value] if values is None else values


def _counts(item: object) -> bool:
    return type(item) is int or (isinstance(item, str) and item.isnumeric())


def _unwrapped(item: Any) -> tuple[object, bool]:
    """Rule 4's quirk: the number together with whether it is one. Against texts it reads "(4.0, True)"."""
    cleaned = number(item)
    return (item, False) if cleaned is None else (cleaned, True)


def _void(given: object) -> bool:
    """Whether nothing is compared: what is empty, and what the official code cannot measure."""
    return given is None or isinstance(given, bool) or given in ("", [], {})


def _answered(given: object) -> bool:
    """Whether there is an answer (rule 5); null is none."""
    return any(map(_told, given)) if isinstance(given, list) else _told(given)


def _told(item: object) -> bool:
    return not isnan(item) if isinstance(item, float) else item is not None and item not in ("", [], {})


def _decoded(prediction: JsonValue) -> JsonValue:
    values = _values([prediction]) if isinstance(prediction, str) else None
    return values[0] if values else prediction


def _values(texts: Iterable[str]) -> list[Any] | None:
    """The JSON values of texts; None where one is not JSON."""
    try:
        return [json.loads(text) for text in texts]
    except (ValueError, RecursionError):
        return None


def _double_quoted(text: str) -> str:
    for form in QUOTED:
        text = text.replace(form, form.replace("'", '"'))
    return text


# AssistantBench's figures of several answers (facts/qa_scoring.md, section 3.3), as fractions.

ACCURACY, EXACT, EXACT_STRING = "accuracy", "exact_match", "exact_string"

WITH_ERROR = (ACCURACY, EXACT)
"""Figures that are reported with their standard error."""

DIFFICULTIES = ("Easy", "Medium", "Hard")

Scored = tuple[ResearchQuestion, Scores | None]
"""A question, and what came of it; None where nothing did."""


def scores(answer: JsonValue, gold: str | None, **others: float) -> Scores:
    """The official scores of an answer as a record, with `others` among its parts; 0 where nobody knows the gold."""
    got = score(answer, gold or "")
    parts: dict[str, float | None] = {ANSWERED: float(got.answered), **others}
    if gold is not None:
        parts |= {ACCURACY: got.accuracy, EXACT: float(got.exact), EXACT_STRING: float(got.exact_string)}
    return Scores(value=got.accuracy if gold is not None else 0.0, parts=parts, answer=answer)


def rates(scored: Sequence[Scored]) -> dict[str, float]:
    """`n`, accuracy, precision, answer rate, exact match (two definitions, see `Score`), then accuracy by difficulty.

    Means over all questions, a missing answer counting 0, accuracy and exact match with standard errors. Precision is
    the sum of accuracies over the number of answers, 0 where there is none. `forced` is the share of questions whose
    answer was handed in without being certified; files of predictions do not say it. Questions whose gold is unknown
    have an answer rate alone.
    """
    figures: dict[str, float] = {"n": len(scored)}
    if judged := [one for one in scored if one[0].answer is not None]:
        figures |= _judged(judged)
    if scored:
        figures["answer_rate"] = fmean(_score_values(scored, ANSWERED))
    if any(came and FORCED in came.parts for _, came in scored):
        figures[FORCED] = fmean(_score_values(scored, FORCED))
    return figures | _by_difficulty(judged)


def _judged(scored: Sequence[Scored]) -> dict[str, float]:
    accuracies, answers = _score_values(scored, ACCURACY), sum(_score_values(scored, ANSWERED))
    figures = {ACCURACY: fmean(accuracies), "precision": sum(accuracies) / answers if answers else 0.0}
    figures |= {name: fmean(_score_values(scored, name)) for name in (EXACT, EXACT_STRING)}
    return figures | {f"{name}_stderr": _stderr(_score_values(scored, name)) for name in WITH_ERROR}


def _by_difficulty(scored: Sequence[Scored]) -> dict[str, float]:
    groups = {level: [one for one in scored if one[0].difficulty == level] for level in DIFFICULTIES}
    return {f"{ACCURACY}_{level.lower()}": fmean(_score_values(of, ACCURACY)) for level, of in groups.items() if of}


def _score_values(scored: Sequence[Scored], name: str) -> list[float]:
    return [(came.parts.get(name) or 0.0) if came else 0.0 for _, came in scored]


def _stderr(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
