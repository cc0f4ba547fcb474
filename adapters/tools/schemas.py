"""JSON schemas of tools' arguments, in all forms that servers write: references, unions, tuples, checks, listings."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from certigraph.adapters.models.schemas import Schema

MAX_PARTS = 5_000
"""Maximum number of parts of a schema whose references are replaced by what they refer to."""

MAX_SCHEMA = 100_000
"""Maximum characters of a tool's description and schema, all of which every request sends."""

_ONE = frozenset({"items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains"})
_ONE |= {"propertyNames", "not", "if", "then", "else"}
_SEVERAL = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keys of a schema that hold one schema, a list of schemas, and schemas by name."""

_DROPPED = frozenset({"title", "$schema", "$id", "$defs", "definitions", "$comment"})


def resolve_schema(schema: Schema) -> Schema:
    """Return a schema in which each `$ref` is replaced by what it refers to; one inside itself refers to `$defs`.

    Tuples in the older form `"items": [...]` become `prefixItems`, which means the same.

    Raises:
        ValueError: a `$ref` leads nowhere, or the schema is too large.
    """
    resolver = _Resolver(schema)
    resolved: Schema = resolver.resolve(schema, ())
    while missing := [pointer for pointer in resolver.recursive if _name_of(pointer) not in resolver.defs]:
        for pointer in missing:
            resolver.defs[_name_of(pointer)] = {}
            resolver.defs[_name_of(pointer)] = resolver.resolve(resolver.find(pointer), (pointer,))
    return {**resolved, **({"$defs": resolver.defs} if resolver.defs else {})}


class _Resolver:
    def __init__(self, document: Schema) -> None:
        self._document, self._parts = document, 0
        self.recursive: dict[str, None] = {}
        """Pointers that lead to a part in which they stand."""
        self.defs: dict[str, Any] = {}

    def resolve(self, node: Any, inside: tuple[str, ...]) -> Any:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ValueError(f"it has more than {MAX_PARTS:,} parts")
        if not isinstance(node, dict):
            return node
        if isinstance(pointer := node.get("$ref"), str):
            if pointer in (*inside, "#"):
                self.recursive[pointer] = None
                return {"$ref": f"#/$defs/{_name_of(pointer)}"}
            found = self.find(pointer)
            others = {key: value for key, value in node.items() if key != "$ref"}
            return self.resolve({**found, **others} if isinstance(found, dict) else found, (*inside, pointer))
        return map_parts(_with_tuples(node), lambda part: self.resolve(part, inside))

    def find(self, pointer: str) -> Any:
        """Return the part to which a pointer such as `#/$defs/Row` or `#/properties/row` leads."""
        part: Any = self._document
        try:
            if not pointer.startswith("#"):
                raise KeyError(pointer)
            for step in pointer.removeprefix("#").strip("/").split("/") if pointer != "#" else ():
                name = unquote(step).replace("~1", "/").replace("~0", "~")
                part = part[int(name)] if isinstance(part, list) else part[name]
        except (KeyError, IndexError, TypeError, ValueError):
            raise ValueError(f"its reference {pointer!r:.100} leads nowhere") from None
        return part


def _name_of(pointer: str) -> str:
    return pointer.removeprefix("#").strip("/").replace("/", ".") or "root"


def _with_tuples(node: Schema) -> Schema:
    kept = {key: value for key, value in node.items() if key not in _DROPPED}
    if isinstance(kept.get("items"), list):
        kept["prefixItems"] = kept.pop("items")
        if "additionalItems" in kept:
            kept["items"] = kept.pop("additionalItems")
    return kept


def map_parts(node: Schema, change: Callable[[Any], Any]) -> Schema:
    """Return a schema with a change made to each schema in it."""
    result = dict(node)
    for key, value in node.items():
        if key in _ONE:
            result[key] = change(value)
        elif key in _SEVERAL and isinstance(value, list):
            result[key] = [change(part) for part in value]
        elif key in _NAMED and isinstance(value, dict):
            result[key] = {name: change(part) for name, part in value.items()}
    return result


# What models are shown.


def flatten_schema(schema: Schema) -> Schema:
    """Return a resolved schema of arguments as endpoints take it: all properties at the root, and no union there.

    What the union demands besides is left to the check of a call (`find_misfit`).
    """
    properties, required = _collect(schema)
    properties = {name: part for name, part in properties.items() if part is not False}
    kept = {key: value for key, value in schema.items() if key not in _UNIONS}
    if not required:
        kept.pop("required", None)
    return {**kept, "type": "object", "properties": properties, **({"required": required} if required else {})}


_UNIONS = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas")


def _collect(schema: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the properties of a schema and of all branches of it, and what each way through them requires."""
    if not isinstance(schema, dict):
        return {}, []
    properties = dict(schema.get("properties", {}))
    required = list(schema.get("required", ()))
    for key in _UNIONS:
        branches = schema.get(key, ()) if key in _SEVERAL else [schema.get(key)]
        found = [_collect(branch) for branch in branches if key not in ("not", "if", "dependentSchemas")]
        for parts, _ in found:
            for name, part in parts.items():
                properties[name] = _unite(properties[name], part) if name in properties else part
        needed = [names for _, names in found]
        if key == "allOf":
            required += [name for names in needed for name in names]
        elif key in _SEVERAL and needed:
            required += [name for name in needed[0] if all(name in names for names in needed)]
    return properties, list(dict.fromkeys(required))


def _unite(one: Any, other: Any) -> Any:
    if other in (True, {}) or one == other:
        return one
    if one in (True, {}):
        return other
    options = one["anyOf"] if isinstance(one, dict) and set(one) == {"anyOf"} else [one]
    return {"anyOf": options if other in options else [*options, other]}


def format_tool(name: str, parameters: Schema, description: str) -> str:
    """Format a tool as prompts list it: signature and description, then a line for each argument with a description."""
    properties, required = parameters.get("properties", {}), parameters.get("required", ())
    shown = [f"{one}: {_type_of(part)}{_default_of(part, one in required)}" for one, part in properties.items()]
    shown += [f"/{one}/: {_type_of(part)}" for one, part in parameters.get("patternProperties", {}).items()]
    if others := parameters.get("additionalProperties"):
        shown.append(f"**: {_type_of(others)}")
    described = [(one, " ".join(_descriptions(part))) for one, part in properties.items()]
    arguments = [f"  {one}: {text}".replace("\n", "\n    ") for one, text in described if text]
    signature = f"{name}({', '.join(shown)})" + (f": {description}" if description else "")
    return "\n".join([signature, *arguments]).replace("\n", "\n  ")


def _default_of(part: Any, required: bool) -> str:
    default = part.get("default") if isinstance(part, dict) else None
    if required:
        return ""
    return " (optional)" if default is None else f" = {json.dumps(default, ensure_ascii=False)}"


MOST_LISTED = 100
"""Maximum number of values of an enumeration that a prompt lists."""


def _type_of(part: Any) -> str:
    if not isinstance(part, dict):
        return "any"
    if "enum" in part or "const" in part:
        values = part.get("enum", [part.get("const")])
        more = [f"one of {len(values) - MOST_LISTED:,} more"] if len(values) > MOST_LISTED else []
        return " | ".join([*(json.dumps(value, ensure_ascii=False) for value in values[:MOST_LISTED]), *more])
    if options := _options(part):
        return " | ".join(dict.fromkeys(map(_type_of, options)))
    kind = part.get("type", "any")
    kinds = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    return " | ".join(_list_type(part) if one == "array" else str(one) for one in kinds)


def _list_type(part: Schema) -> str:
    if isinstance(first := part.get("prefixItems"), list):
        return f"[{', '.join(map(_type_of, first))}]"
    item = _type_of(part.get("items", {}))
    return f"list of ({item})" if " | " in item else f"list of {item}"


def _options(part: Schema) -> list[Any]:
    return [
        option
        for key in ("anyOf", "oneOf")
        for option in part.get(key, ())
        if not (isinstance(option, dict) and option.get("type") == "null")
    ]


def _descriptions(part: Any) -> Iterator[str]:
    if not isinstance(part, dict):
        return
    if isinstance(text := part.get("description"), str) and text:
        yield text.strip()
    for inner in (*_options(part)[:1], part.get("items")):
        yield from _descriptions(inner)


# Checks of arguments.


def create_check(schema: Schema) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that says what is wrong with arguments by a resolved schema; it returns "" if they fit.

    Names that the schema does not have are wrong unless it says that others are allowed.
    """
    import jsonschema

    is_open = {"additionalProperties", "unevaluatedProperties"} & set(schema)
    complete = {"type": "object", **schema, **({} if is_open else {"unevaluatedProperties": False})}
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _check_pattern})(complete)
    try:
        validator.check_schema(complete)
    except jsonschema.SchemaError:  # the server itself decides then
        return lambda args: ""
    if any(map(_may_be_slow, _patterns_of_names(schema))):
        return lambda args: ""

    known = _collect(schema)[0]

    def find_misfit(args: Mapping[str, Any]) -> str:
        try:
            errors = list(validator.iter_errors(dict(args)))
        except (re.error, RecursionError):  # of a pattern that Python does not know, of a schema without an end
            return ""
        others = [error for error in errors if error.validator != "unevaluatedProperties"]
        error = jsonschema.exceptions.best_match(iter(others or errors))
        if error is None:
            return ""
        if error.validator in ("unevaluatedProperties", "additionalProperties") and not error.absolute_path:
            return describe_unknown([name for name in args if name not in known], known)
        place = ".".join(map(str, error.absolute_path))
        return " ".join(f"{place}: {error.message:.500}".removeprefix(": ").split())

    return find_misfit


def _check_pattern(validator: Any, pattern: str, value: Any, schema: Schema) -> Iterator[Exception]:
    """Check a text by a pattern as jsonschema does, in time that grows with its length, whatever the pattern is.

    Python's engine takes minutes for 40 characters and `(a+)+$`.
    """
    from jsonschema import ValidationError as Misfit

    if validator.is_type(value, "string") and (matches := _linear_pattern(pattern)):
        try:
            matches.validate_python(value)
        except ValidationError:
            yield Misfit(f"{value!r:.200} does not match {pattern!r:.200}")


@lru_cache(maxsize=256)
def _linear_pattern(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:  # lookarounds and back references are left to the server
        return None


def _patterns_of_names(part: Any) -> Iterator[str]:
    """Yield the patterns of names of arguments in a schema, which jsonschema matches by Python's engine."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key == "patternProperties" and isinstance(value, Mapping):
                yield from value
            yield from _patterns_of_names(value)
    elif isinstance(part, list):
        for one in part:
            yield from _patterns_of_names(one)


def _may_be_slow(pattern: str) -> bool:
    """Return whether a pattern repeats a group, or has more than two repetitions."""
    return bool(re.search(r"\)[*+{]", pattern)) or len(re.findall(r"[*+{]", pattern)) > 2


def describe_unknown(names: Iterable[str], known: Iterable[str]) -> str:
    """Describe arguments that a tool does not have."""
    return f"it has no argument {', '.join(names)}; it has {', '.join(known) or 'none'}"


def describe_alternatives(schema: Schema) -> str:
    """Describe which arguments exclude each other, if the schema is a union: `Give a, or b and c.`; empty otherwise."""
    options = [_required_of(option) for key in ("anyOf", "oneOf") for option in schema.get(key, ())]
    if len(options) < 2 or not all(options):
        return ""
    return f"Give {', or '.join(' and '.join(names) for names in options)}."


def _required_of(option: Any) -> Sequence[str]:
    return option.get("required", ()) if isinstance(option, dict) else ()
