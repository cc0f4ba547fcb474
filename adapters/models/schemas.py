"""JSON schemas of answers: upper bounds on size, parsing of replies, minimal instances, and types of bounded fields."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import json_repair
from pydantic import AfterValidator, BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema

from certigraph.adapters.models.cuts import is_unfinished

Form = TypeVar("Form", bound=BaseModel)

# JSON schemas as they are sent to models: references inlined, every string and array bounded.

Schema = dict[str, Any]

MAX_ITEMS = 100
"""Maximum number of items of a list, for types that set no bound."""

_DROPPED_KEYS = ("title", "default", "$defs")

REQUESTED_KEY, THOUGHT_KEY = "x-requested", "x-thought"
"""Keys of fields in a type's schema (`Requested`, `Reasoning`); they are never sent."""

_SCHEMA_CACHE: WeakKeyDictionary[type[BaseModel], dict[int, Schema]] = WeakKeyDictionary()
"""Schemas by pydantic type. An entry is dropped with its type, because many types are created for a single request."""


def schema_of(model: type[BaseModel], most: int = 0) -> Schema:
    """Return the JSON schema of a pydantic type as it is sent to a model (`bound_schema`).

    The returned dict is shared between callers: do not change it.

    Args:
        model: the type.
        most: maximum characters of an answer; 0 for any length.
    """
    schemas = _SCHEMA_CACHE.setdefault(model, {})
    if most not in schemas:
        complete = model.model_json_schema()
        for part in (complete, *complete.get("$defs", {}).values()):
            part.pop("description", None)  # the docstring of a class is for its readers, not for models
        schemas[most] = bound_schema(complete, most)
    return schemas[most]


def bound_schema(schema: Schema, most: int = 0) -> Schema:
    """Return a JSON schema with all references inlined that are not recursive, and every list bounded.

    Args:
        schema: the schema.
        most: maximum characters of an answer. Every text is bounded too then, and lists more closely, so that a model
            whose answer a grammar constrains comes to an end. 0 for any length.
    """
    defs = schema.get("$defs", {})
    inlined: Schema = _inline_node(schema, defs, ())
    if '"$ref"' in json.dumps(inlined):
        inlined["$defs"] = {name: _inline_node(body, defs, tuple(defs)) for name, body in defs.items()}
    bounded: Schema = _bound_node(inlined, None)
    for scale, items in product(SCALES, MOST_ITEMS) if most else ():
        bounded = _bound_node(inlined, _Bounds.of(most, scale, items))
        if longest_answer(bounded) <= most:
            break
    return bounded


def _inline_node(node: Any, defs: Schema, inside: tuple[str, ...]) -> Any:
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        return node if name in inside else _inline_node({**defs[name], **siblings}, defs, (*inside, name))
    result = {key: value for key, value in node.items() if key not in _DROPPED_KEYS}
    return _map_parts(result, lambda part: _inline_node(part, defs, inside))


def _map_parts(node: Schema, change: Callable[[Any], Any]) -> Schema:
    """Return a node of a schema with a change made to each of its parts."""
    result = dict(node)
    for key in ("items", "additionalProperties"):
        if key in result:
            result[key] = change(result[key])
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if key in result:
            result[key] = [change(part) for part in result[key]]
    if "properties" in result:
        result["properties"] = {name: change(part) for name, part in result["properties"].items()}
    return result


class _Bounds(NamedTuple):
    """Bounds on the parts of an answer of limited length."""

    thought: int
    """Maximum characters of a text in which the model reasons (`Reasoning`)."""
    text: int
    """Maximum characters of any other text."""
    entry: int
    """Maximum characters of a text inside a list."""
    items: int
    """Maximum number of items of a list."""
    nested: int
    """Maximum number of items of a list inside a list."""

    @classmethod
    def of(cls, most: int, scale: float, items: int) -> "_Bounds":
        """Return the bounds for an answer of `most` characters whose texts are shortened by `scale`."""
        characters = most * scale
        return cls(int(characters / 30), int(characters / 5), int(characters / 12), items, min(items, 4))


SCALES, MOST_ITEMS = (1, 0.5, 0.25), (20, 16, 12, 9, 6, 4, 3)
"""Scales of texts, and numbers of items of a list. The first pair with which no answer is too long is used."""


def _bound_node(node: Any, bounds: _Bounds | None, *, listed: bool = False) -> Any:
    """Bound a node of an inlined schema; `listed` says whether it is inside a list."""
    if not isinstance(node, dict):
        return node
    is_list = node.get("type") == "array"
    result = _map_parts(node, lambda part: _bound_node(part, bounds, listed=listed or is_list))
    parts = result.get("properties", {})
    if requested := [name for name, part in parts.items() if isinstance(part, dict) and part.pop(REQUESTED_KEY, False)]:
        required = {*result.get("required", ()), *requested}
        result["required"] = [name for name in parts if name in required]
    if "$defs" in result:
        result["$defs"] = {name: _bound_node(body, bounds, listed=True) for name, body in result["$defs"].items()}
    thought = result.pop(THOUGHT_KEY, False)
    if is_list:
        most = (bounds.nested if listed else bounds.items) if bounds else MAX_ITEMS
        own = result.get("maxItems", MAX_ITEMS)
        result["maxItems"] = max(min(own, most) if bounds else own, result.get("minItems", 0))
    elif bounds and result.get("type") == "string" and not result.keys() & {"enum", "const"}:
        most = bounds.entry if listed else bounds.thought if thought else bounds.text
        result["maxLength"] = max(min(result.get("maxLength", most), most), result.get("minLength", 0))
    return result


def longest_answer(schema: Schema) -> int:
    """Estimate the characters of the longest answer that a schema with bounds allows; recursive parts count once."""
    if "enum" in schema:
        return max(len(json.dumps(option)) for option in schema["enum"])
    match schema.get("type"):
        case "object":
            return 2 + sum(len(name) + 6 + longest_answer(part) for name, part in schema.get("properties", {}).items())
        case "array":
            return 2 + int(schema.get("maxItems", 0)) * (2 + longest_answer(schema.get("items", {})))
        case "string":
            return 2 + int(schema.get("maxLength", 0))
        case _:
            return max((longest_answer(part) for part in schema.get("anyOf", ())), default=8)


# Parts of a schema that differ from request to request: the texts that the prompt offers, and numbers of items.
#
# Endpoints that put the schema in front of the prompt, as OpenAI's do, serve a request from a prefix cache only if they
# had its schema before. So a model is first asked by a schema without these parts, which the prompt states, and only a
# model that gave an unusable answer is asked by the complete one.

OFFERED = "one of those that the request offers, copied exactly"
"""Description of a text in a schema whose `enum` is what the prompt offers."""

AS_MANY = "the request may say how many at most"
"""Description of a list in a schema whose `maxItems` differs from request to request."""

LISTED_NUMBER = "the number of an entry of the list"
"""Description of a number in a schema whose `maximum` differs from request to request."""

ONE_EACH = "one for each that the request lists, in the same order"
"""Description of a list in a schema whose number of items differs from request to request."""

_VARYING = {
    OFFERED: ("enum",),
    AS_MANY: ("maxItems",),
    LISTED_NUMBER: ("maximum",),
    ONE_EACH: ("minItems", "maxItems"),
}


def constant_schema(schema: Schema) -> Schema:
    """Return the schema without the parts that differ from request to request."""
    return _drop_varying(schema)  # type: ignore[no-any-return]


def _drop_varying(node: Any) -> Any:
    if isinstance(node, list):
        return [_drop_varying(part) for part in node]
    if not isinstance(node, dict):
        return node
    varying = _VARYING.get(str(node.get("description")), ())
    return {key: _drop_varying(part) for key, part in node.items() if key not in varying}


def offered_schema(options: Sequence[str]) -> Schema:
    """Return the schema of a text that is one of the offered ones."""
    return {"type": "string", "description": OFFERED, "enum": [*options]}


_LIST_MARK = re.compile(r"^(?:[-*\u2022]\s+|\d+[.)]\s+)")


def find_offered(text: str, options: Iterable[str]) -> str | None:
    """Return the offered text that a model copied; None if there is none, or if several differ from it equally.

    The mark of a list, quotation marks, white space and case may differ.
    """
    known = dict.fromkeys(options)
    if text in known:
        return text
    plain = _plain_text(text)
    found = [option for option in known if _plain_text(option) == plain]
    return found[0] if len(found) == 1 else None


def _plain_text(text: str) -> str:
    return " ".join(_LIST_MARK.sub("", text.strip()).strip("\"'` ").split()).casefold()


@dataclass(frozen=True)
class Offered:
    """Annotation of a text field of an answer that must be one of the texts which the prompt offers."""

    options: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._find, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **offered_schema(self.options)}

    def _find(self, value: str) -> str:
        found = find_offered(value, self.options)
        if found is None:
            raise ValueError(f"{value!r:.200} is not one of the {len(self.options)} offered")
        return found


def offer_options(form: type[Form], options: Sequence[str]) -> type[Form]:
    """Create a copy of an answer schema whose field `choice` has to be one of the texts that the prompt offers."""
    return create_model(form.__name__, __base__=form, choice=(Annotated[str, Offered(tuple(options))], ...))


# Parsing of untrusted model output to a JSON value that is safe to validate and to store.

MAX_CHARS = 100_000
MAX_CALL_CHARS = 2_000_000
"""Maximum characters of a reply that calls tools: an argument may be a whole file."""
MAX_REPAIRED_CHARS = 20_000
"""Maximum characters of a reply whose JSON is repaired; the time of a repair grows faster than the text."""
MAX_REPLY_DEPTH = 32
MAX_INTEGER = 2**63

THOUGHT_START, THOUGHT_END = "<think>", "</think>"
FENCE = "```"


class ParseError(ValueError):
    """The text contains no JSON value of the required shape, or one that cannot be stored."""


def parse_reply(text: str, schema: Schema, *, most: int = MAX_CHARS, integers: bool = False) -> Any:
    """Parse the JSON value in a model's reply: directly, from a code fence, after a repair, or field by field.

    A reply whose JSON does not end is refused and not repaired, because it was cut.

    Args:
        text: the reply.
        schema: JSON schema of the value.
        most: maximum characters of the reply.
        integers: whether integers beyond 64 bits are allowed.

    Raises:
        ParseError: the reply has no value of the schema's type, or does not end; or the value is too large, too deep,
            or contains NaN, an infinity, an integer beyond 64 bits or an unpaired surrogate.
    """
    if len(text) > most:
        raise ParseError(f"the answer has {len(text):,} characters, {most:,} are allowed")
    content = text.rpartition(THOUGHT_END)[2].strip()
    check_end(content)
    value = _parse_directly(content)
    if not _has_shape(value, schema):
        value = _repair(content, schema)
    if not _has_shape(value, schema):
        value = _parse_fields(content, schema)
    if not _has_shape(value, schema):
        fields = ", ".join(schema.get("properties", ()))
        requested = f"with the fields {fields}" if fields else "of the requested shape"
        raise ParseError(f"the answer is not a JSON {schema.get('type', 'value')} {requested}")
    return _check_storable(value, integers=integers)


def check_end(content: str) -> None:
    """Check that a reply, without the thoughts before it, was not cut.

    Raises:
        ParseError: its JSON does not end, or its thoughts do not.
    """
    if content.startswith(THOUGHT_START):
        raise ParseError("the answer was cut within its thoughts")
    if is_unfinished(content):
        raise ParseError("the answer was cut: its JSON does not end")


def parse_arguments(given: Any) -> Any:
    """Parse the arguments of a call, which models also write as JSON in a text, and with small errors.

    Raises:
        ParseError: they are not JSON, or do not end.
    """
    for _ in range(2):  # JSON in JSON
        if isinstance(given, str):
            given = parse_reply(given or "{}", {}, most=MAX_CALL_CHARS, integers=True)
    return given


def _parse_directly(text: str) -> Any:
    fenced = text.split(FENCE, maxsplit=MAX_REPLY_DEPTH)[1::2]
    for candidate in (text, *fenced):
        try:
            return json.loads(candidate.removeprefix("json"))
        except (ValueError, RecursionError):
            continue
    return None


def _repair(text: str, schema: Schema) -> Any:
    if len(text) > MAX_REPAIRED_CHARS or sum(map(text.count, "{[(")) > MAX_REPAIRED_CHARS // 20:
        return None
    try:
        value: Any = json_repair.loads(text)
    except (ValueError, RecursionError):
        return None
    # several JSON texts in one reply are parsed as a list; the last one is the model's final answer
    several = isinstance(value, list) and schema.get("type") == "object"
    return next((v for v in reversed(value) if _has_shape(v, schema)), None) if several else value


def _parse_fields(text: str, schema: Schema) -> Any:
    """Parse lines `name: value` for the fields of the schema.

    If the schema has only one field and that is an enum, its value alone is accepted too.
    """
    parts = schema.get("properties", {})
    values = {name: value for name in parts if (value := _parse_field(name, text)) is not None}
    if not values and len(parts) == 1:
        [(name, part)] = parts.items()
        stripped = text.strip(" \n\"'`.*")
        return {name: stripped} if stripped in part.get("enum", ()) else None
    return values or None


def _parse_field(name: str, text: str) -> Any:
    match = re.search(rf"(?<!\w){re.escape(name)}[\"'*`]{{0,3}}\s{{0,5}}[:=]([^\n]*)", text)
    if match is None:
        return None
    raw = match[1].strip().rstrip(",;")
    value = _parse_directly(raw)
    return raw.strip("\"'`*") if value is None else value


def _has_shape(value: Any, schema: Schema) -> bool:
    match schema.get("type"):
        case "object":
            properties = schema.get("properties")
            return isinstance(value, dict) and (
                not value or not properties or any(name in properties for name in value)
            )
        case "array":
            return isinstance(value, list)
        case _:
            return value is not None


def _check_storable(value: Any, depth: int = 0, *, integers: bool = False) -> Any:
    """Return the value if JSON, msgpack and UTF-8 can represent it; raise ParseError otherwise."""
    if depth > MAX_REPLY_DEPTH:
        raise ParseError(f"the answer is nested deeper than {MAX_REPLY_DEPTH} levels")
    match value:
        case dict():
            for part in (*value.keys(), *value.values()):
                _check_storable(part, depth + 1, integers=integers)
        case list():
            for part in value:
                _check_storable(part, depth + 1, integers=integers)
        case float() if not math.isfinite(value):
            raise ParseError(f"the answer holds the number {value}")
        case int() if abs(value) >= MAX_INTEGER and not integers:
            raise ParseError("the answer holds an integer beyond 64 bits")
        case str() if any("\ud800" <= c <= "\udfff" for c in value):
            raise ParseError("the answer holds half a surrogate pair")
    return value


# Minimal instances of JSON schemas.


def minimal_instance(schema: Schema) -> Any:
    """Return the minimal instance of a JSON schema: first options, lowest numbers, shortest texts, required fields."""
    return _minimal_node(schema, schema.get("$defs", {}), ())


def _minimal_node(node: Schema, defs: Schema, inside: tuple[str, ...]) -> Any:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return _minimal_node(defs[name], defs, (*inside, name))
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return node["enum"][0]
    options = node.get("anyOf") or node.get("oneOf")
    if options:
        return _minimal_node(_first_nonrecursive(options, inside), defs, inside)
    return _minimal_of_type(node, defs, inside)


def _first_nonrecursive(options: list[Schema], inside: tuple[str, ...]) -> Schema:
    """Return the first option that is not recursive."""
    return next((o for o in options if o.get("$ref", "").rpartition("/")[2] not in inside), options[0])


def _minimal_of_type(node: Schema, defs: Schema, inside: tuple[str, ...]) -> Any:
    match node.get("type", "object"):
        case "object":
            parts = node.get("properties", {})
            return {name: _minimal_node(parts.get(name, {}), defs, inside) for name in node.get("required", ())}
        case "array":
            fixed = node.get("prefixItems", [])
            more = max(node.get("minItems", 0) - len(fixed), 0)
            return [_minimal_node(part, defs, inside) for part in (*fixed, *[node.get("items", {})] * more)]
        case "string":
            return "x" * node.get("minLength", 0)
        case "integer" | "number":
            return _minimal_number(node)
        case "boolean":
            return True
        case _:
            return None


def _minimal_number(node: Schema) -> Any:
    if "minimum" in node:
        return node["minimum"]
    if "exclusiveMinimum" in node:
        return node["exclusiveMinimum"] + 1
    if "exclusiveMaximum" in node:
        return min(0, node["exclusiveMaximum"] - 1)
    return min(0, node.get("maximum", 0))


# Types of the fields of an answer. No bound makes an answer unusable: what is longer is truncated, or read completely.

MAX_READ_ITEMS = 300
"""Maximum number of items that are read from a list in an answer, even if its schema allows fewer.

It bounds the time: the repair of a task graph is quadratic in the number of sub-tasks.
"""


@dataclass(frozen=True)
class Truncated:
    """Annotation of a text or list field of an answer: a longer value is truncated.

    Rejecting it would cost another model call.
    """

    most: int
    """Maximum items of a list, or characters of a text such as an identifier."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(lambda value: value[: self.most], handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        plain = handler(schema)
        return {**plain, "maxLength" if plain["type"] == "string" else "maxItems": self.most}


@dataclass(frozen=True)
class _Marked:
    """Annotation of a field with a key in its JSON schema."""

    key: str

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), self.key: True}


Requested = _Marked(REQUESTED_KEY)
"""Annotation of a field with a default that the JSON schema requires. An answer without it is accepted."""

Reasoning = Annotated[str, _Marked(THOUGHT_KEY)]
"""Type of a text in which the model reasons before the rest of its answer."""

FirstReasoning = Annotated[Reasoning, Requested]
"""Type of a thought, with a default, that the JSON schema requires. An answer without it is accepted."""


def bounded_list(most: int, kind: Any, *, least: int = 0, varies: bool = False) -> Any:
    """Create the type of a list field whose JSON schema bounds the number of items.

    A longer list is not rejected. Its first MAX_READ_ITEMS items are read, or `most` + 1 if that is more, so that the
    caller can see that the list was too long.

    Args:
        most: maximum number of items in the schema.
        kind: type of the items.
        least: minimum number of items in the schema.
        varies: whether `most` differs from request to request (`constant_schema`).
    """
    truncate = AfterValidator(lambda items: items[: max(most + 1, MAX_READ_ITEMS)])
    bounds: dict[str, Any] = {"minItems": least, "maxItems": most, **({"description": AS_MANY} if varies else {})}
    return Annotated[list[kind], Field(json_schema_extra=bounds), truncate]
