"""Mistakes in the keywords of functions that users call, answered in one line."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter
from types import MappingProxyType
from typing import ParamSpec, TypeVar, get_args

from certigraph.adapters.imports import suggest_names
from certigraph.adapters.protocols import Context
from certigraph.adapters.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

CONTEXT: Mapping[str, type[Settings]] = MappingProxyType({"context": Context})
"""The settings that most functions take."""


def checked_keywords(
    other_names: Mapping[str, str] = MappingProxyType({}), *, settings: Mapping[str, type[Settings]] = CONTEXT
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Create a decorator by which a function answers a wrong or missing keyword with the right one, when it is called.

    Args:
        other_names: keywords of the function by the names that they have in other libraries.
        settings: classes of settings that the function may take, by keyword: their fields are no keywords.

    Raises:
        TypeError: by the decorated function, for a keyword that is not its own or is missing, and for a value without
            a keyword that needs one.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__qualname__.removesuffix(".__init__")
        parameters = inspect.signature(function).parameters

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if mistake := next(_find_mistakes(parameters, len(args), kwargs, other_names, settings), ""):
                raise TypeError(f"{name} {mistake}")
            return function(*args, **kwargs)

        return call

    return decorate


def _find_mistakes(
    parameters: Mapping[str, Parameter],
    places: int,
    given: Collection[str],
    other_names: Mapping[str, str],
    settings: Mapping[str, type[Settings]],
) -> Iterator[str]:
    """Yield what is wrong with `places` values without keyword and the `given` keywords of a call."""
    by_place = [name for name, one in parameters.items() if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    own = [name for name, one in parameters.items() if one.kind is not Parameter.VAR_KEYWORD and name != "self"]
    further = [typed for one in parameters.values() if one.kind is Parameter.VAR_KEYWORD for typed in _keys_of(one)]
    if places > len(by_place):
        taken = [name for name in by_place if name != "self"]
        others = ", ".join(f"{name}=" for name in own if name not in taken)
        yield f"takes only {', '.join(taken)} without a keyword; the others are {others}"
    for name in sorted(set(given) - {*own, *further}):
        near = [other_names[name]] if name in other_names else get_close_matches(name, own, 1, cutoff=0.75)
        if near:
            yield f"has no keyword {name!r}: did you mean {near[0]}?"
        elif holders := [key for key, kind in settings.items() if key in own and name in kind.model_fields]:
            kind = settings[holders[0]].__name__
            yield f"has no keyword {name!r}: give {holders[0]}=certigraph.{kind}({name}=...)"
        elif not further:
            yield f"has no keyword {name!r}: {suggest_names(name, own)}"
    for name in own:
        if parameters[name].default is Parameter.empty and name not in {*given, *by_place[:places]}:
            yield f"needs {name}: give {name}=..."


def _keys_of(further: Parameter) -> Iterator[str]:
    """Yield the keywords that a parameter such as `**operators: Unpack[Operators]` takes."""
    for keys in get_args(further.annotation):
        yield from keys.__annotations__
