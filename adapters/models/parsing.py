"""Untrusted text from a model -> a JSON value that is safe to validate and to store."""

import json
import math
import re
from typing import Any

import json_repair

from certigraph.adapters.models.schemas import Schema

MAX_CHARS = 100_000
MAX_REPAIRED = 20_000
"""Characters that are worth mending; the time of a repair grows faster than its text."""
MAX_DEPTH = 32
MAX_INTEGER = 2**63

THOUGHT_ENDS = "</think>"
FENCE = "```"


class ParseError(ValueError):
    """The text holds no JSON value of the asked shape, or one that nobody should read."""


def parse(text: str, schema: Schema) -> Any:
    """Read the JSON value that a model meant: direct, in a code fence, mended, or field by field.

    Raises:
        ParseError: nothing of the shape was found, or it is too large, too deep, or holds NaN, an infinity, an
            integer beyond 64 bits or half a surrogate pair.
    """
    if len(text) > MAX_CHARS:
        raise ParseError(f"the answer has {len(text):,} characters, {MAX_CHARS:,} are allowed")
    bare = text.rpartition(THOUGHT_ENDS)[2].strip()
    value = _direct(bare)
    if not _has_shape(value, schema):
        value = _mended(bare, schema)
    if not _has_shape(value, schema):
        value = _fields(bare, schema)
    if not _has_shape(value, schema):
        raise ParseError(f"the answer is no JSON {schema.get('type', 'value')} of the asked shape")
    return _sound(value)


def _direct(text: str) -> Any:
    fenced = text.split(FENCE, maxsplit=MAX_DEPTH)[1::2]
    for candidate in (text, *fenced):
        try:
            return json.loads(candidate.removeprefix("json"))
        except (ValueError, RecursionError):
            continue
    return None


def _mended(text: str, schema: Schema) -> Any:
    if len(text) > MAX_REPAIRED or sum(map(text.count, "{[(")) > MAX_REPAIRED // 20:
        return None
    try:
        value: Any = json_repair.loads(text)
    except (ValueError, RecursionError):
        return None
    # several JSON texts in one answer come as a list; what a model says last is what it means
    several = isinstance(value, list) and schema.get("type") == "object"
    return next((v for v in reversed(value) if _has_shape(v, schema)), None) if several else value


def _fields(text: str, schema: Schema) -> Any:
    """`name: value` lines for the schema's fields; a lone enum may be answered by its value alone."""
    parts = schema.get("properties", {})
    found = {name: value for name in parts if (value := _field(name, text)) is not None}
    if not found and len(parts) == 1:
        [(name, part)] = parts.items()
        plain = text.strip(" \n\"'`.*")
        return {name: plain} if plain in part.get("enum", ()) else None
    return found or None


def _field(name: str, text: str) -> Any:
    match = re.search(rf"(?<!\w){re.escape(name)}[\"'*`]{{0,3}}\s{{0,5}}[:=]([^\n]*)", text)
    if match is None:
        return None
    raw = match[1].strip().rstrip(",;")
    value = _direct(raw)
    return raw.strip("\"'`*") if value is None else value


def _has_shape(value: Any, schema: Schema) -> bool:
    match schema.get("type"):
        case "object":
            known = schema.get("properties")
            return isinstance(value, dict) and (not value or not known or any(name in known for name in value))
        case "array":
            return isinstance(value, list)
        case _:
            return value is not None


def _sound(value: Any, depth: int = 0) -> Any:
    """The value itself, if it can be stored: what JSON, msgpack and UTF-8 cannot carry ends here."""
    if depth > MAX_DEPTH:
        raise ParseError(f"the answer is nested deeper than {MAX_DEPTH} levels")
    match value:
        case dict():
            for part in (*value.keys(), *value.values()):
                _sound(part, depth + 1)
        case list():
            for part in value:
                _sound(part, depth + 1)
        case float() if not math.isfinite(value):
            raise ParseError(f"the answer holds the number {value}")
        case int() if abs(value) >= MAX_INTEGER:
            raise ParseError("the answer holds an integer beyond 64 bits")
        case str() if any("\ud800" <= c <= "\udfff" for c in value):
            raise ParseError("the answer holds half a surrogate pair")
    return value
