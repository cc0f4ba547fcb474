"""The public names with their parameters, as text: what a user's code may rely on from one version to the next."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import certigraph

MODULE = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=\w)")
"""The modules in front of a name: a public name may move to another module."""


def record_api() -> str:
    """List every public name: functions with their parameters, classes with their fields and methods."""
    lines = [line for name in sorted(dir(certigraph)) for line in _lines_of(name, getattr(certigraph, name))]
    return "\n".join(lines) + "\n"


def _lines_of(name: str, found: Any) -> Iterator[str]:
    if not inspect.isclass(found):
        yield f"{name}{_parameters(found)}" if callable(found) else f"{name}: {type(found).__name__}"
        return
    yield f"class {name}({', '.join(base.__name__ for base in found.__bases__)})"
    fields = getattr(found, "model_fields", None) or getattr(found, "__annotations__", {})
    yield from (f"    {name}.{field}" for field in fields if not field.startswith("_"))
    for method, attribute in sorted(vars(found).items()):
        value = getattr(attribute, "__func__", attribute)  # of a class method or a static method
        if inspect.isfunction(value) and not method.startswith("_"):
            yield f"    {name}.{method}{_parameters(value)}"
        elif isinstance(value, property):
            yield f"    {name}.{method}: property"


def _parameters(function: Any) -> str:
    # names, kinds and defaults; types are mypy's matter
    parameters = inspect.signature(function).parameters.values()
    shown = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in parameters])
    return MODULE.sub("", re.sub(r" at 0x[0-9a-f]+", "", str(shown)))
