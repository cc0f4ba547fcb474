"""Whether a tool's function can be called as its schema says, with what LangChain and LangGraph fill in."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, wraps
from typing import Any, cast, get_args, get_type_hints

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, Tool
from pydantic import BaseModel


@cache
def _types_given() -> tuple[type, ...]:
    """Return the types of arguments that LangGraph gives."""
    # importing them takes 0.2 seconds, which worlds without tools need not wait
    from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime

    return InjectedToolCallId, InjectedState, InjectedStore, ToolRuntime


@cache
def _types_filled() -> tuple[type, ...]:
    """Return the types of parameters that a model neither sees nor gives, besides `RunnableConfig`."""
    return *_types_given(), InjectedToolArg, BaseCallbackHandler, BaseCallbackManager, BaseRunManager


Parameter = inspect.Parameter


def function_of(tool: BaseTool) -> Callable[..., Any]:
    """Return the function, plain or async, that is called with a tool's arguments."""
    if isinstance(tool, StructuredTool | Tool):
        called = tool.coroutine or tool.func
        if called is not None:
            return called
    return tool._run if type(tool)._arun is BaseTool._arun else tool._arun


def names_filled(tool: BaseTool) -> set[str]:
    """Return the names that a tool without a schema of its own would show to models, and that no model can give.

    They are the configuration, callbacks and further arguments (`*args`, `**kwargs`) of its method `_run`.
    """
    if tool.args_schema is not None:
        return set()
    parameters, hints = _signature(tool._run)
    return {
        name for name, one in parameters.items() if _is_variadic(one) or _has_type(hints.get(name), _types_filled())
    }


def find_hidden(tool: BaseTool, shown: Iterable[str]) -> list[str]:
    """Return the required arguments that a model is not shown and that LangGraph does not give."""
    form = tool.args_schema
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        return []
    return [
        name
        for name, field in form.model_fields.items()
        if field.is_required()
        and not {name, field.alias} & set(shown)
        and not any(_has_type(part, _types_given()) for part in (field.annotation, *field.metadata))
    ]


def find_disagreement(tool: BaseTool, shown: Iterable[str]) -> str:
    """Return why no call by the tool's schema can reach its function as it is meant; empty if one can.

    Args:
        tool: the tool.
        shown: names of the arguments that a model is shown.
    """
    function, names = function_of(tool), set(shown)
    parameters, hints = _signature(function)
    if type(tool) is Tool and tool.args_schema is None:
        return ""  # LangChain hands its only argument over by place
    own = isinstance(tool, StructuredTool | Tool)
    filled = {name for name in parameters if _has_type(hints.get(name), _types_filled())}
    taken = {"self", "runtime", "run_manager", *(["config"] if own else [])}
    unfilled = {name for name in ("callbacks", "run_manager") if own and name in parameters and name not in filled}
    if lost := sorted((names & taken) | unfilled):
        return f"LangChain keeps the name {lost[0]!r} for a value of its own"
    form = tool.args_schema
    if isinstance(form, type) and issubclass(form, BaseModel):
        names = set(form.model_fields)  # which LangChain hands over, whatever their aliases are
    if gathered := sorted(name for name in names if name in parameters and _is_variadic(parameters[name])):
        return f"the arguments that {gathered[0]!r} takes have no names"
    try:
        inspect.Signature(list(parameters.values())).bind(**dict.fromkeys(names | filled))
    except TypeError as error:
        return str(error).replace("v__", "")
    return ""


def by_keyword(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes every argument by name, those of `*names` as a list and of `**names` as a dict.

    A function that does so already is returned itself.
    """
    parameters, hints = _signature(function)
    if not any(_is_variadic(one) or one.kind is Parameter.POSITIONAL_ONLY for one in parameters.values()):
        return function
    given = {name: hints.get(name, Any) for name in parameters}

    def arrange(values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        by_place, by_name = list[Any](), dict[str, Any]()
        for name, one in parameters.items():
            if one.kind is Parameter.VAR_POSITIONAL:
                by_place += values.get(name) or ()
            elif one.kind is Parameter.VAR_KEYWORD:
                by_name |= values.get(name) or {}
            elif name in values and one.kind is Parameter.KEYWORD_ONLY:
                by_name[name] = values[name]
            elif name in values:
                by_place.append(values[name])
        return by_place, by_name

    @wraps(function)
    def call(**values: Any) -> Any:
        by_place, by_name = arrange(values)
        return function(*by_place, **by_name)

    @wraps(function)
    async def acall(**values: Any) -> Any:
        by_place, by_name = arrange(values)
        return await function(*by_place, **by_name)

    changed: Any = acall if inspect.iscoroutinefunction(function) else call
    changed.__annotations__ = {**hints, **{name: _gathered(one, given[name]) for name, one in parameters.items()}}
    named = [
        one.replace(
            kind=Parameter.KEYWORD_ONLY,
            default=None if _is_variadic(one) else one.default,
            annotation=changed.__annotations__[name],
        )
        for name, one in parameters.items()
        if not (_is_variadic(one) and name in ("args", "kwargs"))  # which stand for anything, and are for other callers
    ]
    changed.__signature__ = inspect.Signature(named)
    return cast(Callable[..., Any], changed)


def _gathered(parameter: Parameter, hint: Any) -> Any:
    """Return the type of all values that a parameter such as `*names` or `**names` takes together."""
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return list[hint] | None
    return dict[str, hint] | None if parameter.kind is Parameter.VAR_KEYWORD else hint


def _signature(function: Callable[..., Any]) -> tuple[dict[str, Parameter], dict[str, Any]]:
    hints: dict[str, Any] = {}
    with suppress(Exception):  # a name in a hint may be known only to type checkers
        hints = get_type_hints(function, include_extras=True)
    try:
        return dict(inspect.signature(function).parameters), hints
    except ValueError:  # a builtin may have none
        anything = [Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)]
        return {one.name: one for one in anything}, hints


def _is_variadic(parameter: Parameter) -> bool:
    return parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _has_type(hint: Any, types: tuple[type, ...]) -> bool:
    """Return whether a type hint is one of some types, or `RunnableConfig`, or holds one as a part or a mark."""
    return any(
        leaf is RunnableConfig or isinstance(leaf, types) or (isinstance(leaf, type) and issubclass(leaf, types))
        for leaf in _leaves(hint)
    )


def _leaves(hint: Any) -> Iterator[Any]:
    yield hint
    yield getattr(hint, "__origin__", None)
    for part in get_args(hint):
        yield from _leaves(part)
