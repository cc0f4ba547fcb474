"""The value that a JSON schema alone makes: its least instance."""

from typing import Any

from certigraph.adapters.models.schemas import Schema


def minimal(schema: Schema) -> Any:
    """The least instance of a schema: first options, lowest numbers, shortest texts, required fields only."""
    return _least(schema, schema.get("$defs", {}), ())


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
