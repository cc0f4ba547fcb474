"""AssistantBench's official score of an answer, quirks included (facts/qa_scoring.md, section 3.2; rules by number).

Where the official code stops with an exception, what it stopped at counts 0 here: null, true and false as an answer;
a list, object or unwrapped number (rule 4) where the gold is a number; in a list of objects what is none; null and
objects as values of an object's fields, and an object without fields.
"""

import json
from collections.abc import Iterable
from math import isnan
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from certigraph.adapters.research.scoring_numbers import number, number_score
from certigraph.adapters.research.scoring_objects import objects_score
from certigraph.adapters.research.scoring_texts import text_score

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
