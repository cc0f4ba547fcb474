"""AssistantBench's official score of an answer, and metrics over many answers."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, log
from statistics import fmean
from string import punctuation
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import JsonValue

from certigraph.adapters.benchmarks import standard_error
from certigraph.adapters.retrieval.answers import ANSWERED, FORCED
from certigraph.benchmarks.research.plans import ResearchQuestion
from certigraph.state.records import Scores

# Numbers: how texts become numbers, and how close two numbers are (facts/qa_scoring.md, 3.2).

IGNORED_MARKS = ("$", "%", "sqft")
"""Marks that are ignored in the text of a number."""
AREA_UNIT = " square kilometers"

ZERO_REPLACEMENT = 1e-4
"""Number that replaces 0 in the ratio of two numbers."""


def parse_number(value: object, *, area: bool = True) -> float | None:
    """Convert a number, or a text that is a number, to a float; return None for anything else.

    As in the official code, every comma becomes a dot: "1,010" is 1.01. With `area`, the text " square kilometers" is
    ignored.
    """
    if isinstance(value, str):
        value = _strip_marks(value).replace(AREA_UNIT, "") if area else _strip_marks(value)
    elif type(value) not in (int, float):  # excludes bool, which is a subclass of int
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # a str, int or float by now
    except (ValueError, OverflowError):
        return None


def number_score(predicted: float, gold: float) -> float:
    """Return 1 minus the natural logarithm of the ratio of the larger to the smaller number, at least 0.

    Numbers of different signs and NaN score 0. The official formula gives more than 1 for two different negative
    numbers; here 1 is the maximum.
    """
    if predicted == gold == 0:
        return 1.0
    predicted, gold = predicted or ZERO_REPLACEMENT, gold or ZERO_REPLACEMENT
    ratio = predicted / gold if predicted > gold else gold / predicted
    return 0.0 if isnan(ratio) or ratio <= 0 else min(1.0, max(0.0, 1 - log(ratio)))


def _strip_marks(text: str) -> str:
    for mark in IGNORED_MARKS:
        text = text.replace(mark, " ")
    return text.strip().replace(",", ".")


# The best pairing of predicted with gold items. scipy would be a heavy dependency for lists this short.

P = TypeVar("P")
G = TypeVar("G")

Gains = Sequence[Sequence[float]]

MIN_GAIN = 1e-12
"""Minimum improvement of a sum of gains. Smaller ones are rounding errors, which the search must not follow forever."""


def mean_best_gain(predicted: Sequence[P], gold: Sequence[G], gain: Callable[[P, G], float]) -> float:
    """Pair predicted with gold items so that the sum of gains is largest, and return that sum per item.

    The sum is divided by the length of the longer list, so that unpaired items gain 0.

    Args:
        predicted: predicted items.
        gold: gold items.
        gain: function that returns how well a predicted item fits a gold item, 0 or more.
    """
    if not predicted or not gold:
        return 0.0
    gains = [[gain(item, reference) for item in predicted] for reference in gold]
    partners = find_best_pairing(gains)
    return sum(gains[row][column] for row, column in sorted(partners.items())) / max(len(predicted), len(gold))


def find_best_pairing(gains: Gains) -> dict[int, int]:
    """Solve the assignment problem: pair rows with columns so that the sum of gains is largest.

    Gains must not be negative. Rows are added one after the other, each along the augmenting path with the largest
    gain. If there are more rows than columns, both are swapped. The time is O(rows^3 x columns).

    Returns:
        The column of each row.
    """
    if len(gains) > len(gains[0]):
        return {row: column for column, row in find_best_pairing(list(zip(*gains, strict=True))).items()}
    assigned: dict[int, int] = {}
    for row in range(len(gains)):
        _add_row(row, gains, assigned)
    return {row: column for column, row in assigned.items()}


def _add_row(row: int, gains: Gains, assigned: dict[int, int]) -> None:
    """Assign a column to a row, and move other rows to other columns if that increases the sum of gains.

    `assigned` maps columns to rows; it is changed in place.
    """
    best, came_from = list(gains[row]), dict[int, int]()
    changed = True
    while changed:
        changed = False
        for column, holder in assigned.items():
            loss = best[column] - gains[holder][column]
            for other, gain in enumerate(gains[holder]):
                if loss + gain > best[other] + MIN_GAIN:
                    best[other], came_from[other], changed = loss + gain, column, True
    column = max((free for free in range(len(best)) if free not in assigned), key=best.__getitem__)
    while column in came_from:
        assigned[column] = assigned[came_from[column]]
        column = came_from[column]
    assigned[column] = row


# Texts: F1 of sets of words as in DROP (facts/qa_scoring.md, 3.2, rule 7).

WordSet = frozenset[str]

ARTICLES = re.compile(r"\b(a|an|the)\b")
SEPARATORS = re.compile("[ -]")
PUNCTUATION = str.maketrans("", "", punctuation)


def text_score(predicted: object, gold: object) -> float:
    """Return the mean word F1 of the best pairing of predicted with gold spans (`mean_best_gain`).

    The items of a list are its spans; any other value is one span. A list with an item that is not text scores 0.
    """
    predicted_spans, gold_spans = _spans(predicted), _spans(gold)
    return mean_best_gain(
        [words_of_span(span) for span in predicted_spans], [words_of_span(span) for span in gold_spans], word_set_f1
    )


def words_of_span(span: str) -> WordSet:
    """Return the distinct normalised words of a span.

    Words are in lower case, without punctuation and articles; numbers are written as Python writes floats.
    """
    return frozenset(word for token in SEPARATORS.split(span) for word in _normalise_token(token.lower()).split())


def word_set_f1(predicted: WordSet, gold: WordSet) -> float:
    """Return F1 of two sets of words; 1 if both are empty.

    If the gold words include numbers, a prediction with none of these numbers scores 0.
    """
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


def _normalise_token(token: str) -> str:
    plain = token if _is_number(token) else token.translate(PUNCTUATION)
    return ARTICLES.sub(" ", str(float(plain)) if _is_number(plain) else plain)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# JSON objects: how well two lists of them agree (facts/qa_scoring.md, 3.2, rule 8).

Fields = Mapping[str, Any]


def objects_score(predicted: object, gold: list[Any]) -> float:
    """Return the mean F1 of the best pairing of predicted with gold JSON objects (`mean_best_gain`).

    A prediction that is not a list, or does not begin with an object, scores 0.
    """
    has_objects = isinstance(predicted, list) and predicted and isinstance(predicted[0], dict)
    return mean_best_gain(predicted, gold, object_f1) if has_objects and isinstance(predicted, list) else 0.0


def object_f1(predicted: object, gold: object) -> float:
    """Return F1 of two JSON objects, by how well the fields of each agree with those of the other.

    It is 0 if one of both is not an object.
    """
    if not (isinstance(predicted, dict) and isinstance(gold, dict)):
        return 0.0
    recall, precision = _recall(gold, predicted), _recall(predicted, gold)
    return 2 * (precision * recall) / (precision + recall) if precision + recall else 0.0


def _recall(wanted: Fields, given: Fields) -> float:
    """Return the mean score of the fields in `wanted`; 0 if there are none. A missing field scores 0."""
    values = [field_score(given[name], wanted_value) if name in given else 0.0 for name, wanted_value in wanted.items()]
    return sum(values) / len(values) if values else 0.0


def field_score(given: object, wanted: object) -> float:
    """Return how well two values of a field agree, from 0 to 1. Texts that are numbers count as numbers.

    The result is 0 for values of different types, for objects and for null.
    """
    given, wanted = _to_number(given), _to_number(wanted)
    if isinstance(given, float) and isinstance(wanted, float):
        return number_score(given, wanted)
    same_type = type(given) is type(wanted) and isinstance(given, str | bool | list)
    return text_score(given, wanted) if same_type else 0.0


def _to_number(value: object) -> object:
    cleaned = parse_number(value, area=False)
    return value if cleaned is None else cleaned


# The official score of an answer, quirks included (facts/qa_scoring.md, section 3.2; rules by number).
#
# Where the official code raises an exception, the value that causes it counts 0 here: null, true and false as an
# answer; a list, object or unwrapped number (rule 4) if the gold is a number; items of a list of objects that are not
# objects; null and objects as values of an object's fields; an object without fields.

QUOTE_CONTEXTS = ("{'", "', '", "': '", "'}", "': ")
"""Contexts in which single quotes delimit the texts of a JSON object; they are replaced by double quotes."""


class AssistantBenchScore(NamedTuple):
    """AssistantBench's official score of one answer; `answered` tells whether there is an answer."""

    accuracy: float
    """Accuracy, in [0, 1]."""
    answered: bool
    exact: bool
    """Whether the accuracy is 1; the leaderboard's definition of exact match is not published."""
    exact_string: bool
    """Whether the answer is literally equal to the gold answer, which the HAL harness calls exact match."""


class ParsedGold(NamedTuple):
    """A gold answer as it is compared with a prediction: a number, a list of JSON values, or a list of texts."""

    kind: Literal["number", "json", "texts"]
    value: Any


def score_answer(prediction: JsonValue, gold: str) -> AssistantBenchScore:
    """Score an answer against a gold answer, which has one item per line."""
    parsed_gold = parse_gold(gold)
    value = _normalise_prediction(prediction, parsed_gold.kind)
    accuracy = 0.0 if _is_void(value) else _accuracy(value, parsed_gold)
    return AssistantBenchScore(accuracy, _has_answer(value), accuracy == 1, prediction == gold)


def parse_gold(text: str) -> ParsedGold:
    """Parse a gold answer, which has one item per line, as a number, JSON values, or texts."""
    lines = [line for line in text.split("\n") if line.strip()]
    value = parse_number(lines[0]) if len(lines) == 1 else None
    if value is not None:
        return ParsedGold("number", value)
    values = _parse_values(map(_use_double_quotes, lines))
    return ParsedGold("texts", lines) if values is None else ParsedGold("json", values)


def _accuracy(given: object, gold: ParsedGold) -> float:
    if gold.kind == "number":
        return number_score(given, gold.value) if isinstance(given, float) else 0.0
    return objects_score(given, gold.value) if gold.kind == "json" else text_score(given, gold.value)


def _normalise_prediction(prediction: JsonValue, kind: str) -> object:
    """Parse a prediction as JSON and as a number, as the official code does before it compares the prediction."""
    value = _decode_json(prediction)
    if isinstance(value, list):
        return _unwrap_number(value[0]) if len(value) == 1 and _is_integer_item(value[0]) else value
    cleaned = parse_number(value)
    value = value if cleaned is None else cleaned
    if kind != "json":
        return value
    values = _parse_values(value.split("\n")) if isinstance(value, str) else None
    return [value] if values is None else values


def _is_integer_item(item: object) -> bool:
    return type(item) is int or (isinstance(item, str) and item.isnumeric())


def _unwrap_number(item: Any) -> tuple[object, bool]:
    """Return the pair (number, True), or (item, False) if the item is not a number.

    The official code compares this pair instead of the number; in a comparison of texts it is "(4.0, True)".
    """
    cleaned = parse_number(item)
    return (item, False) if cleaned is None else (cleaned, True)


def _is_void(given: object) -> bool:
    """Return whether a prediction cannot be compared: it is empty, or the official code fails on it."""
    return given is None or isinstance(given, bool) or given in ("", [], {})


def _has_answer(given: object) -> bool:
    """Return whether a prediction counts as an answer. Null does not."""
    return any(map(_is_answer_item, given)) if isinstance(given, list) else _is_answer_item(given)


def _is_answer_item(item: object) -> bool:
    return not isnan(item) if isinstance(item, float) else item is not None and item not in ("", [], {})


def _decode_json(prediction: JsonValue) -> JsonValue:
    values = _parse_values([prediction]) if isinstance(prediction, str) else None
    return values[0] if values else prediction


def _parse_values(texts: Iterable[str]) -> list[Any] | None:
    """Parse texts as JSON values; None if one of them is not JSON."""
    try:
        return [json.loads(text) for text in texts]
    except (ValueError, RecursionError):
        return None


def _use_double_quotes(text: str) -> str:
    for form in QUOTE_CONTEXTS:
        text = text.replace(form, form.replace("'", '"'))
    return text


# Metrics over many answers (facts/qa_scoring.md, section 3.3), as fractions.

ACCURACY, EXACT, EXACT_STRING = "accuracy", "exact_match", "exact_string"

FIGURES_WITH_ERROR = (ACCURACY, EXACT)
"""Metrics that are reported with their standard error."""

DIFFICULTIES = ("Easy", "Medium", "Hard")

ScoredResearch = tuple[ResearchQuestion, Scores | None]
"""A question and its scores; the scores are None if there was no answer."""


def official_scores(answer: JsonValue, gold: str | None, **others: float) -> Scores:
    """Return the official scores of an answer as a record.

    Args:
        answer: the answer.
        gold: the gold answer; if it is None (unknown), the score is 0.
        others: further parts of the score, by name.
    """
    result = score_answer(answer, gold or "")
    parts: dict[str, float | None] = {ANSWERED: float(result.answered), **others}
    if gold is not None:
        parts |= {ACCURACY: result.accuracy, EXACT: float(result.exact), EXACT_STRING: float(result.exact_string)}
    return Scores(value=result.accuracy if gold is not None else 0.0, parts=parts, answer=answer)


def research_figures(scored: Sequence[ScoredResearch]) -> dict[str, float]:
    """Return metrics over many questions.

    They are the number of questions `n`, accuracy, precision, answer rate, exact match (two definitions, see
    `AssistantBenchScore`), and accuracy by difficulty. Means are over all questions, where a missing answer counts 0;
    accuracy and exact match have standard errors. Precision is the sum of accuracies divided by the number of answers,
    0 without answers. `forced` is the share of questions whose answer was submitted without being certified; it is left
    out for files of predictions. Questions whose gold answer is unknown count only for the answer rate and `forced`.
    """
    figures: dict[str, float] = {"n": len(scored)}
    if with_gold := [question for question in scored if question[0].answer is not None]:
        figures |= _accuracy_figures(with_gold)
    if scored:
        figures["answer_rate"] = fmean(_score_values(scored, ANSWERED))
    if any(result and FORCED in result.parts for _, result in scored):
        figures[FORCED] = fmean(_score_values(scored, FORCED))
    return figures | _figures_by_difficulty(with_gold)


def _accuracy_figures(scored: Sequence[ScoredResearch]) -> dict[str, float]:
    accuracies, answers = _score_values(scored, ACCURACY), sum(_score_values(scored, ANSWERED))
    figures = {ACCURACY: fmean(accuracies), "precision": sum(accuracies) / answers if answers else 0.0}
    figures |= {name: fmean(_score_values(scored, name)) for name in (EXACT, EXACT_STRING)}
    return figures | {f"{name}_stderr": standard_error(_score_values(scored, name)) for name in FIGURES_WITH_ERROR}


def _figures_by_difficulty(scored: Sequence[ScoredResearch]) -> dict[str, float]:
    groups = {level: [question for question in scored if question[0].difficulty == level] for level in DIFFICULTIES}
    return {
        f"{ACCURACY}_{level.lower()}": fmean(_score_values(questions, ACCURACY))
        for level, questions in groups.items()
        if questions
    }


def _score_values(scored: Sequence[ScoredResearch], name: str) -> list[float]:
    return [(result.parts.get(name) or 0.0) if result else 0.0 for _, result in scored]
