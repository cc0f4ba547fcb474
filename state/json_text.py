"""JSON from outside: what nobody could walk through afterwards is refused like what is no JSON."""

import json
from typing import Any

DEEPEST = 100
"""Levels of nesting. What we write has about half as many at most: a model's answer (32) inside a trajectory's line."""


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text of at most 100 levels.

    Raises:
        ValueError: it is no JSON, or deeper, where json.loads would end with a RecursionError.
    """
    plain = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(plain)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, plain.count("[") + plain.count("{"))
    return value


def next_json_value(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises as `json_value`, TooDeepError where it is deeper."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise TooDeepError() from None
    _check_depth(value, text.count("[", start, end) + text.count("{", start, end))
    return value, end


class TooDeepError(ValueError):
    """JSON with more levels than are read."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {DEEPEST} levels")


_DECODER = json.JSONDecoder()


def _check_depth(value: Any, brackets: int) -> None:
    # counting brackets is a hundred times as fast as walking, and settles it for most texts
    if brackets > DEEPEST and _depth(value) > DEEPEST:
        raise TooDeepError()


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for every half of a surrogate pair, which no file, database or request can carry."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _depth(value: Any) -> int:
    """How many lists and objects stand inside one another, as far as it matters."""
    depth, level = 0, _nested([value])
    while level and depth <= DEEPEST:
        depth, level = depth + 1, [part for one in level for part in _nested(one)]
    return depth


def _nested(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value
    return [part for part in parts if isinstance(part, (dict, list))]
