"""Base class of what users set for a run, with one line for each mistake in it."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator

from certigraph.adapters.imports import check_names
from certigraph.state.endings import UnknownName


class Settings(BaseModel):
    """Base class of what users set for a run.

    Raises UnknownName, in one line, for a field that does not exist or is missing, and for a value that is not allowed.
    """

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def update_former(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return values that an earlier version may have written, with the fields of this one."""
        return values

    @model_validator(mode="wrap")
    @classmethod
    def _explain_mistakes(cls, values: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        values = cls.update_former(dict(values)) if isinstance(values, dict) else values
        if info.mode == "json":  # it comes from a file, whose reader names it
            return validate(values)
        check_names(values if isinstance(values, dict) else (), cls.model_fields, f"{cls.__name__} has no field")
        try:
            return validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            if not first["loc"]:
                field = next(iter(cls.model_fields))
                fix = f"give a dict or a {cls.__name__}, as in {cls.__name__}({field}=...)"
                raise UnknownName(f"{values!r:.100} is no {cls.__name__}: {fix}") from None
            if first["type"] == "missing":
                missing = first["loc"][0]
                raise UnknownName(f"{cls.__name__} needs {missing}: write {cls.__name__}({missing}=...)") from None
            raise UnknownName(_explain_mistake(error, cls.model_construct())) from None


def _explain_mistake(error: ValidationError, usual: "Settings") -> str:
    """Say in one line which value of settings is not allowed, what is, and what `usual` has in its place."""
    first = error.errors()[0]
    key, *rest = map(str, first["loc"])
    default = getattr(usual, key, None)
    shown = f"{key}={default}" if isinstance(default, str | int | float) and default != "" else ""
    if first["type"].endswith("_parsing") and shown:
        reason = f"give a number, as in {shown}"
    else:
        reason = first["msg"].replace("Input should", "it should", 1) + (f"; by default {shown}" if shown else "")
    return f"{'.'.join((key, *rest))}={first['input']!s:.100}: {reason}"
