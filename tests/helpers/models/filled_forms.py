"""An answer that says one text wherever its form takes any text, as a model does that gives orders or tells keys."""

from typing import Any

from certigraph.adapters.models.schemas import minimal_instance


def fill_form(schema: dict[str, Any], text: str) -> Any:
    """An instance of a JSON schema with the text in the place of every free text."""
    if "enum" not in schema and schema.get("type") == "string":
        return text
    if schema.get("type") == "array":
        return [fill_form(schema["items"], text)] * max(schema.get("minItems", 1), 1)
    if "properties" in schema:
        return {name: fill_form(part, text) for name, part in schema["properties"].items()}
    return minimal_instance(schema)
