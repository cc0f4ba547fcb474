"""JSON as Postgres takes it: jsonb has no NUL, no half of a surrogate pair, no infinity and no difference of 1 and 1.0.

What it would refuse or change is kept as a marked text of its own JSON, and comes back as it was.
"""

import json
from typing import Any

MARK = "\x1b"
"""Begins a text that stands for something else; one that begins with it anyway is marked, too."""


def dumped(value: Any) -> str:
    """The JSON text of a value."""
    return json.dumps(escaped(value))


def loaded(text: str | bytes) -> Any:
    """The value of a JSON text."""
    return unescaped(json.loads(text))


def escaped(value: Any) -> Any:
    """The value with marked texts in place of what jsonb would refuse or change."""
    if isinstance(value, dict):
        return {escaped(key): escaped(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [escaped(inner) for inner in value]
    return MARK + json.dumps(value) if _refused(value) else value


def unescaped(value: Any) -> Any:
    """What `escaped` was given."""
    if isinstance(value, dict):
        return {unescaped(key): unescaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unescaped(inner) for inner in value]
    return json.loads(value[1:]) if isinstance(value, str) and value.startswith(MARK) else value


def _refused(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(MARK) or "\0" in value or any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, float)
