"""Answers of a model that writes long texts."""

from typing import Any

SENTENCE = "The evidence at hand, weighed against what was asked for, suggests that this is adequate so far. "


def long_answer(schema: dict[str, Any], length: int) -> Any:  # noqa: PLR0911 - one line each
    """Return an instance of a schema, in which every free text has so many characters."""
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return long_answer(schema[key][0], length)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object":
            return {name: long_answer(part, length) for name, part in schema.get("properties", {}).items()}
        case "array":
            return [long_answer(schema.get("items", {}), length) for _ in range(max(1, schema.get("minItems", 1)))]
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        case "boolean":
            return True
        case _:
            return (SENTENCE * (length // len(SENTENCE) + 1))[:length]
