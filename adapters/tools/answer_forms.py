"""Forms of answers: what `response_format` may be, the schema that a model is shown, and reading what it gave."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from types import GenericAlias, UnionType
from typing import Any, Protocol, TypeAlias, get_origin

from pydantic import JsonValue, TypeAdapter
from pydantic.errors import PydanticUserError

from certigraph.adapters.models.schemas import Schema, bound_schema
from certigraph.state.tools import ANSWER_ARGUMENT


class ResponseStrategy(Protocol):
    """LangChain's `ToolStrategy` or `ProviderStrategy`. An agent takes its schema and asks for it in its own way."""

    schema: Any


ResponseFormat: TypeAlias = type[Any] | UnionType | GenericAlias | Mapping[str, JsonValue] | ResponseStrategy
"""Form of an answer: a pydantic class, TypedDict, dataclass, union of them, JSON schema, or LangChain's strategy."""

SCHEMA_KEYWORDS = ("type", "properties", "anyOf", "oneOf", "allOf", "$ref", "enum", "const")

MAX_KEPT = 64
"""Maximum number of answers that are kept between their check and their use."""


class ResponseForm:
    """The form of an answer.

    Args:
        form: as `response_format` of an agent.

    Raises:
        TypeError: the form is none of those that `ResponseFormat` names.
    """

    def __init__(self, form: ResponseFormat) -> None:
        given = _unwrap_strategy(form)
        self._adapter = None if isinstance(given, Mapping) else _adapter_of(given)
        schema = dict(given) if self._adapter is None else self._adapter.json_schema()
        try:
            root = bound_schema({**schema, "$defs": {**schema.get("definitions", {}), **schema.get("$defs", {})}})
        except KeyError as error:
            raise TypeError(f"response_format: the JSON schema refers to {error}, which it does not define") from None
        root.pop("definitions", None)
        self._is_object = root.get("type") == "object" and not {"anyOf", "oneOf", "allOf"} & root.keys()
        self.schema = root if self._is_object else _wrap(root)
        """JSON schema of an object that holds an answer: the arguments of `finish`."""
        self._checked: OrderedDict[str, Any] = OrderedDict()
        self._lock = Lock()

    def check(self, args: Mapping[str, Any]) -> str:
        """Return why arguments that a model gave do not have the form; empty if they do."""
        try:
            answer = self._validate(args)
        except ValueError as error:
            return str(error)
        with self._lock:
            self._checked[json.dumps(args)] = answer
            while len(self._checked) > MAX_KEPT:
                self._checked.popitem(last=False)
        return ""

    def read(self, args: Mapping[str, Any]) -> Any:
        """Return the answer in its form: an instance of the class; a dict for a TypedDict or JSON schema.

        Args:
            args: what the model gave.

        Raises:
            ValueError: it does not have the form.
        """
        with self._lock:
            if (key := json.dumps(args)) in self._checked:
                return self._checked.pop(key)
        return self._validate(args)

    def text(self, args: Mapping[str, Any]) -> str:
        """Return what the model gave as JSON text."""
        return json.dumps(args if self._is_object else args[ANSWER_ARGUMENT], ensure_ascii=False)

    def _validate(self, args: Mapping[str, Any]) -> Any:
        if missing := [name for name in self.schema.get("required", ()) if name not in args and not self._adapter]:
            raise ValueError(f"the answer lacks {', '.join(missing)}")
        if not self._is_object and ANSWER_ARGUMENT not in args:
            raise ValueError(f"the answer lacks {ANSWER_ARGUMENT}")
        given = dict(args) if self._is_object else args[ANSWER_ARGUMENT]
        return given if self._adapter is None else self._adapter.validate_json(json.dumps(given))


def _unwrap_strategy(form: Any) -> Any:
    if isinstance(form, Mapping):
        if not any(word in form for word in SCHEMA_KEYWORDS):
            raise TypeError(f"response_format={form!r:.100} is not a JSON schema, such as {EXAMPLE}")
        return form
    if isinstance(form, type) or get_origin(form) is not None:
        return form
    return _unwrap_strategy(form.schema) if hasattr(form, "schema") else form


def _adapter_of(form: Any) -> TypeAdapter[Any]:
    try:
        adapter = TypeAdapter(form)
        adapter.json_schema()
    except (PydanticUserError, NameError, SyntaxError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        kinds = "a pydantic class, a TypedDict, a dataclass or a JSON schema"
        raise TypeError(f"response_format={form!r:.100} is not {kinds} ({reason})") from error
    return adapter


def _wrap(schema: Schema) -> Schema:
    """Return the schema of an object that holds a value of another type, since arguments are always an object."""
    outer = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    value = {key: part for key, part in schema.items() if key != "$defs"}
    return {"type": "object", "properties": {ANSWER_ARGUMENT: value}, "required": [ANSWER_ARGUMENT], **outer}


EXAMPLE = '{"type": "object", "properties": {"total": {"type": "number"}}}'

__all__ = ["ResponseForm", "ResponseFormat", "ResponseStrategy"]
