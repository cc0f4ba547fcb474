"""JSON schemas as models get them: without references, with every string and array bounded."""

import json
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel

Schema = dict[str, Any]

MAX_LENGTH = 1_000
MAX_ITEMS = 100
"""Bounds where a type sets none: a small model under a grammar otherwise writes until its token limit."""

_NOISE = ("title", "default", "$defs")


_BOUNDED: WeakKeyDictionary[type[BaseModel], Schema] = WeakKeyDictionary()
"""By the type, and forgotten with it: many are made for one question."""


def schema_of(model: type[BaseModel]) -> Schema:
    """The bounded JSON schema of a type. Shared between callers: do not change it."""
    known = _BOUNDED.get(model)
    if known is None:
        known = _BOUNDED[model] = bounded(model.model_json_schema())
    return known


def bounded(schema: Schema) -> Schema:
    """Inline the references, all but recursive ones, and give every string and array an upper bound."""
    defs = schema.get("$defs", {})
    flat: Schema = _bound(schema, defs, ())
    if '"$ref"' in json.dumps(flat):
        flat["$defs"] = {name: _bound(body, defs, tuple(defs)) for name, body in defs.items()}
    return flat


def _bound(node: Any, defs: Schema, inside: tuple[str, ...]) -> Any:
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(node, defs, inside)
    out = {key: value for key, value in node.items() if key not in _NOISE}
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _bound(out[key], defs, inside)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if key in out:
            out[key] = [_bound(part, defs, inside) for part in out[key]]
    if "properties" in out:
        out["properties"] = {name: _bound(part, defs, inside) for name, part in out["properties"].items()}
    return _limited(out)


def _inlined(node: Schema, defs: Schema, inside: tuple[str, ...]) -> Any:
    name = node["$ref"].rpartition("/")[2]
    if name in inside:
        return node
    siblings = {key: value for key, value in node.items() if key != "$ref"}
    return _bound({**defs[name], **siblings}, defs, (*inside, name))


def _limited(node: Schema) -> Schema:
    if node.get("type") == "string" and not node.keys() & {"enum", "const", "maxLength"}:
        return {**node, "maxLength": max(MAX_LENGTH, node.get("minLength", 0))}
    if node.get("type") == "array" and "maxItems" not in node:
        return {**node, "maxItems": max(MAX_ITEMS, node.get("minItems", 0))}
    return node
