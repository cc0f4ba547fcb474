"""AssistantBench's JSON objects: how well two lists of them agree (facts/qa_scoring.md, 3.2, rule 8)."""

from collections.abc import Mapping
from typing import Any

from certigraph.adapters.research.scoring_numbers import number, number_score
from certigraph.adapters.research.scoring_pairs import aligned
from certigraph.adapters.research.scoring_texts import text_score

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
