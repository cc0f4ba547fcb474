"""Tools of MCP servers: how they are recognised, and how models are shown what strangers wrote about them.

Names and types are shown as they are. All other texts of a tool, those of its values, defaults and patterns included,
stand between the delimiters of data.
"""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from langchain_core.tools import BaseTool

from certigraph.adapters.models.prompts import quote
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.tools.schemas import MOST_LISTED, map_parts
from certigraph.adapters.tools.signatures import function_of

SERVER_NAME = re.compile(r"[\w.$@/:-]{1,64}")
"""Form of the names of a server's tools and of their arguments, which stand in prompts outside of delimiters."""

MAX_MISFIT = 400
"""Maximum characters of what is wrong with the arguments of a call, as a server's schema says it."""

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_BOUNDS = frozenset(
    (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    )
)
_PARTS = ("properties", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf")
_VALUES = ("enum", "const", "default")
_TEXTS = (*_VALUES, "pattern", "format", "examples")


def is_from_server(tool: BaseTool) -> bool:
    """Return whether a server describes a tool: langchain-mcp-adapters calls it, or its arguments are a JSON schema.

    The arguments of a tool of the user's own code are described by types. Whoever wraps a server's tool in one of their
    own usually hands on its JSON schema.
    """
    module = getattr(inspect.unwrap(function_of(tool)), "__module__", None) or ""
    return isinstance(tool.args_schema, dict) or module.partition(".")[0] == "langchain_mcp_adapters"


class ServerTexts(NamedTuple):
    """What a server says of a tool, apart from the types of its arguments."""

    parameters: Schema
    """JSON schema of the arguments: names, types and numbers."""
    arguments: dict[str, str]
    """The texts about each argument, by its name; arguments without any are left out."""
    others: str
    """The texts about other arguments than those that have a name."""

    def describe(self, description: str) -> str:
        """Return all texts about the tool between delimiters; empty if there is none."""
        text = "\n".join(filter(None, [description, *self.arguments.values(), self.others]))
        return quote(text) if text else ""

    def described_parameters(self) -> Schema:
        """Return the schema with the texts about each argument as its description, between delimiters."""
        properties = {
            name: {**_as_object(part), "description": quote(self.arguments[name])} if name in self.arguments else part
            for name, part in self.parameters["properties"].items()
        }
        return {**self.parameters, "properties": properties}


def separate_texts(schema: Schema) -> ServerTexts:
    """Separate a flat schema of arguments into types and texts."""
    texts = {name: "\n".join(_texts_of(part, name)) for name, part in schema["properties"].items()}
    rest = {key: part for key, part in schema.items() if key != "properties"}
    named = {name: text for name, text in texts.items() if text}
    return ServerTexts(_without_texts(schema), named, "\n".join(_texts_of(rest, "arguments")))


def _without_texts(part: Any) -> Any:
    if not isinstance(part, dict):
        return part is not False
    kept: Schema = {key: value for key, value in part.items() if key in _BOUNDS and isinstance(value, int | float)}
    given = part.get("type")
    kept |= {key: part[key] for key in _VALUES if key in part and not _has_text(part[key])}
    types = [one for one in (given if isinstance(given, list) else [given]) if one in _TYPES]
    if types:
        kept["type"] = types if isinstance(given, list) else types[0]
    kept |= map_parts({key: part[key] for key in _PARTS if key in part}, _without_texts)
    if isinstance(properties := kept.get("properties"), dict):
        kept["properties"] = {name: inner for name, inner in properties.items() if SERVER_NAME.fullmatch(name)}
        kept["required"] = [name for name in part.get("required", ()) if name in kept["properties"]]
    return {key: value for key, value in kept.items() if key != "required" or value}


def _texts_of(part: Any, place: str) -> Iterator[str]:
    """Yield a line for each text in a part of a schema, with the place at which it stands."""
    if not isinstance(part, dict):
        return
    if isinstance(text := part.get("description"), str) and text.strip():
        yield f"{place}: {text.strip()}"
    for key in _TEXTS:
        if _has_text(value := part.get(key)):
            listed = value[:MOST_LISTED] if isinstance(value, list) else value
            yield f"{place}: {key} {json.dumps(listed, ensure_ascii=False)}"
    for key in ("properties", "patternProperties"):
        named = part.get(key)
        for name, inner in named.items() if isinstance(named, dict) else ():
            yield from _texts_of(inner, f"{place}.{name}")
            if key == "patternProperties" or not SERVER_NAME.fullmatch(name):
                yield f"{place}: has {name}"
    for key in ("additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf"):
        inner = part.get(key)
        for one in inner if isinstance(inner, list) else [inner]:
            yield from _texts_of(one, f"{place}[]" if key in ("items", "prefixItems") else place)


def _has_text(value: Any) -> bool:
    return any(map(_has_text, value)) if isinstance(value, list) else isinstance(value, str | dict)


def _as_object(part: Any) -> Schema:
    return part if isinstance(part, dict) else {}


def quote_misfit(problem: str) -> str:
    """Return what is wrong with the arguments of a call between delimiters: it repeats what the schema says."""
    return quote(problem, MAX_MISFIT) if problem else ""
