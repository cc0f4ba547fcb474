"""Names for operators: what a run's header records, what the command line accepts, and the way back from both."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, ParamSpec

from pydantic import Field, JsonValue

from certigraph.adapters.protocols import Operator
from certigraph.state.endings import UnknownName
from certigraph.state.records import Record

P = ParamSpec("P")


class Spec(Record):
    """An operator by name and arguments. A name with a colon is a user's own: `module:attribute`."""

    name: str
    args: dict[str, Annotated["Spec | JsonValue", Field(union_mode="left_to_right")]] = Field(default_factory=dict)

    def __str__(self) -> str:
        """The command line's form: `capped:depth=1`."""
        shown = [f"{key}={value}" for key, value in self.args.items()]
        return ":".join([self.name, ",".join(shown)]) if shown else self.name


def factory(make: Callable[P, Operator]) -> Callable[P, Operator]:
    """Decorate an operator factory so that what it makes remembers the call that made it."""

    @wraps(make)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> Operator:
        operator = make(*args, **kwargs)
        given = _flat(inspect.signature(make).bind(*args, **kwargs))
        operator.spec = Spec(name=_name(make), args={k: _plain(v) for k, v in given.items()})  # type: ignore[attr-defined]
        return operator

    remembering.makes_operator = True  # type: ignore[attr-defined]
    return remembering


def _flat(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, those of `**operators` too, as they are given again."""
    given = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= given.pop(name, {})
    return given


def spec_of(operator: Operator) -> Spec:
    """The name and arguments under which an operator can be made again."""
    remembered: Spec | None = getattr(operator, "spec", None)
    return remembered or Spec(name=_name(operator))


def operator_from(spec: Spec, shipped: Mapping[str, Callable[..., Any]]) -> Operator:
    """Make an operator from its spec: shipped ones by name, a user's by import.

    Raises:
        UnknownName: the name is unknown; the message lists the shipped ones.
    """
    made = shipped.get(spec.name) or _imported(spec.name, shipped)
    if not getattr(made, "makes_operator", False):
        if spec.args:
            raise UnknownName(f"operator {spec} takes no arguments: write {spec.name}")
        return made
    args = {k: operator_from(v, shipped) if isinstance(v, Spec) else v for k, v in spec.args.items()}
    operator: Operator = made(**args)
    return operator


def _imported(name: str, shipped: Mapping[str, object]) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    if not attribute:
        near = ", ".join(get_close_matches(name, shipped))
        known = f"did you mean {near}? `certigraph list` has all" if near else f"known: {', '.join(sorted(shipped))}"
        raise UnknownName(f"unknown operator {name!r}; {known}, or module:attribute for your own")
    try:
        found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        told = "put it at the top of a module that Python can import from here"
        raise UnknownName(f"operator {name!r} cannot be imported ({error}): {told}") from error
    return found


def _name(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None) or "__main__"
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name if module.startswith(("certigraph.nodes.", "certigraph.graphs.")) else f"{module}:{name}"


def _plain(value: Any) -> Any:
    return spec_of(value) if callable(value) else value
