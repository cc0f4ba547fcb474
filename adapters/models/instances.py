"""Values made from a JSON schema alone: the least one, and a valid one with some choices exchanged."""

from random import Random
from typing import Any

from certigraph.adapters.models.schemas import Schema


def minimal(schema: Schema) -> Any:
    """The least instance of a schema: first options, lowest numbers, shortest texts, required fields only."""
    return _least(schema, schema.get("$defs", {}), ())


def spoiled(value: Any, schema: Schema, rate: float, random: Random) -> Any:
    """The value with each enum and each boolean in it exchanged for another valid one with probability `rate`."""
    if "enum" in schema:
        others = [option for option in schema["enum"] if option != value]
        return random.choice(others) if others and random.random() < rate else value
    if isinstance(value, bool):
        return value != (random.random() < rate)
    if isinstance(value, dict):
        parts = schema.get("properties", {})
        return {name: spoiled(part, parts.get(name, {}), rate, random) for name, part in value.items()}
    if isinstance(value, list):
        return [spoiled(part, schema.get("items", {}), rate, random) for part in value]
    return value


def _least(node: Schema, defs: Schema, inside: tuple[str, ...]) -> Any:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return _least(defs[name], defs, (*inside, name))
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return node["enum"][0]
    options = node.get("anyOf") or node.get("oneOf")
    if options:
        return _least(_first_finite(options, inside), defs, inside)
    return _least_of_type(node, defs, inside)


def _first_finite(options: list[Schema], inside: tuple[str, ...]) -> Schema:
    """The first option that does not lead back to where we are."""
    return next((o for o in options if o.get("$ref", "").rpartition("/")[2] not in inside), options[0])


def _least_of_type(node: Schema, defs: Schema, inside: tuple[str, ...]) -> Any:
    match node.get("type", "object"):
        case "object":
            parts = node.get("properties", {})
            return {name: _least(parts.get(name, {}), defs, inside) for name in node.get("required", ())}
        case "array":
            fixed = node.get("prefixItems", [])
            more = max(node.get("minItems", 0) - len(fixed), 0)
            return [_least(part, defs, inside) for part in (*fixed, *[node.get("items", {})] * more)]
        case "string":
            return "x" * node.get("minLength", 0)
        case "integer" | "number":
            return _least_number(node)
        case "boolean":
            return True
        case _:
            return None


def _least_number(node: Schema) -> Any:
    if "minimum" in node:
        return node["minimum"]
    if "exclusiveMinimum" in node:
        return node["exclusiveMinimum"] + 1
    if "exclusiveMaximum" in node:
        return min(0, node["exclusiveMaximum"] - 1)
    return min(0, node.get("maximum", 0))
