"""The arguments of a call as its tool gets them: after validation, with defaults."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import BaseModel, SecretStr, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_jsonable_python


def form_of_shown(form: type[BaseModel], shown: Collection[str]) -> type[BaseModel]:
    """Return the form of a tool's arguments that demands no other ones than models are shown.

    LangChain fills in the others when it calls the tool.

    Args:
        form: the tool's own form.
        shown: names of the arguments that models are shown.
    """
    hidden: dict[str, Any] = {
        name: (Any, None) for name, field in form.model_fields.items() if not _shown_name(name, field, shown)
    }
    return create_model(form.__name__, __base__=form, **hidden) if hidden else form


def list_received(values: BaseModel, shown: Collection[str]) -> dict[str, Any]:
    """Return validated arguments by the names that models are shown, as values that JSON has.

    Args:
        values: the arguments, validated.
        shown: names of the arguments that models are shown.
    """
    named = {
        _shown_name(name, field, shown): getattr(values, name) for name, field in type(values).model_fields.items()
    }
    named |= values.model_extra or {}
    return {name: to_plain(value) for name, value in named.items() if name}


def _shown_name(name: str, field: FieldInfo, shown: Collection[str]) -> str:
    """Return the name under which models are shown a field; empty if they are not."""
    names = (field.validation_alias, field.alias, name)
    return next((one for one in names if isinstance(one, str) and one in shown), "")


def to_plain(value: Any) -> Any:
    """Return a value as JSON has it, so that rules compare it with what tools answer; other objects stay as they are.

    Numbers of every type stay numbers, and fields of models have the names that a schema shows.
    """
    plain: Any = value
    match value:
        case Enum():
            plain = to_plain(value.value)
        case Decimal():
            plain = float(value)
        case SecretStr():
            plain = value.get_secret_value()
        case BaseModel():
            shown = {name: field.alias or name for name, field in type(value).model_fields.items()}
            plain = {shown.get(name, name): to_plain(part) for name, part in value}
        case Mapping():
            plain = {_to_plain_key(key): to_plain(part) for key, part in value.items()}
        case list() | tuple():
            plain = [to_plain(part) for part in value]
        case set() | frozenset():
            plain = sorted(map(to_plain, value), key=repr)  # in the same order in every process
        case _ if is_dataclass(value) and not isinstance(value, type):
            plain = {one.name: to_plain(getattr(value, one.name)) for one in fields(value)}
        case _:
            with suppress(PydanticSerializationError):
                plain = to_jsonable_python(value, inf_nan_mode="constants")
    return plain


def _to_plain_key(key: Any) -> Any:
    plain = to_plain(key)
    return key if isinstance(plain, list | dict) else plain


__all__ = ["form_of_shown", "list_received", "to_plain"]
