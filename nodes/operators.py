"""Calls of operators in all forms in which users may write them, with checks of what they read and return.

An operator is an async or plain function, a bound method, a partial, a callable object, or a LangChain Runnable. It
gets the part of the state that its slot shows and, if it takes a second argument, the runtime. It returns the keys that
its slot declares. Every mistake is reported with the operator, the slot, the value, and what is expected.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, lru_cache
from typing import Any, get_args, get_origin

from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from certigraph.adapters.processes import is_async_callable, run_in_thread
from certigraph.adapters.protocols import Context, Operator
from certigraph.state.endings import Fault

Call = Callable[[Any, Runtime[Context]], Awaitable[Any]]


def operator_label(operator: object) -> str:
    """Return the name of an operator for messages."""
    return str(getattr(operator, "__qualname__", None) or repr(operator))


def to_call(slot: str, operator: Any) -> Call:
    """Convert an operator, in any form in which users may write it, to an async function of (view, runtime).

    Plain functions run in a worker thread, so that they may block.

    Raises:
        TypeError: the object is not an operator, or takes other arguments.
    """
    if getattr(operator, "makes_operator", False):
        name = getattr(operator, "__name__", operator)
        raise TypeError(f"{name} is a factory of operators, not an operator: call it, {slot}={name}(...)")
    if isinstance(operator, type):
        raise TypeError(f"{slot}={operator.__name__} is a class: give an instance, {slot}={operator.__name__}(...)")
    if isinstance(operator, Runnable):
        return _call_of_runnable(operator)
    if isinstance(operator, str):
        advice = f"give the operator itself, a function operator(state, runtime), or use --swap {slot}={operator}"
        raise TypeError(f"{slot}={operator!r} is a name: {advice}")
    if not callable(operator):
        raise TypeError(f"{slot}={operator!r} is not an operator; give a function operator(state, runtime)")
    takes_runtime = _takes_runtime(slot, operator)
    is_async = is_async_callable(operator)

    async def call(view: Any, runtime: Runtime[Context]) -> Any:
        args = (view, runtime) if takes_runtime else (view,)
        answer = operator(*args) if is_async else await run_in_thread(operator, *args)
        return await answer if inspect.isawaitable(answer) else answer

    return call


def _call_of_runnable(runnable: Runnable[Any, Any]) -> Call:
    async def call(view: Any, runtime: Runtime[Context]) -> Any:
        return await runnable.ainvoke(view)

    return call


def _takes_runtime(slot: str, operator: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(operator)
    except (TypeError, ValueError):  # some callables of C have none
        return True
    for takes_runtime, args in ((True, (None, None)), (False, (None,))):
        try:
            signature.bind(*args)
        except TypeError:
            continue
        return takes_runtime
    given = f"{slot}={operator_label(operator)} takes {signature}"
    raise TypeError(f"{given}; an operator takes (state, runtime), or (state) alone")


async def call_operator(operator: Operator, state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
    """Call an operator from inside another operator. It may have any form that a slot accepts."""
    try:
        call = _remembered_call(operator)
    except TypeError:  # an unhashable operator, or none at all, which `to_call` refuses
        call = to_call("argument", operator)
    update: dict[str, Any] = await call(state, runtime)
    return update


@lru_cache(maxsize=256)
def _remembered_call(operator: Operator) -> Call:
    # Inspecting a signature takes longer than the rest of a call, and the same operators are called at every step.
    return to_call("argument", operator)


# What an operator reads.


class View(dict[str, Any]):
    """The part of the state that a slot shows to its operator. Reading any other key raises Fault, also by `get`."""

    def __init__(self, shown: Mapping[str, Any], slot: str, operator: str, declared: frozenset[str] | None) -> None:
        """Wrap the part of the state that the operator may read.

        Args:
            shown: the values by key.
            slot: name of the slot, for messages.
            operator: name of the operator, for messages.
            declared: keys for which `get` returns its default if they are not set. None: all keys.
        """
        super().__init__(shown)
        self._slot, self._operator, self._declared = slot, operator, declared

    def __missing__(self, key: str) -> Any:
        """Raise Fault for a key that the slot does not show."""
        raise Fault(
            "operator",
            f"operator {self._operator} in slot {self._slot} read {key!r}; the slot shows {', '.join(sorted(self))}",
        )

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default if the key is declared but not set."""
        if key in self or self._declared is None or key in self._declared:
            return super().get(key, default)
        return self.__missing__(key)


@cache
def declared_keys(view: Callable[[Any], Any]) -> frozenset[str] | None:
    """Return the keys of the TypedDict that the function `view` is annotated to return; None for other annotations."""
    kind = getattr(view, "__annotations__", {}).get("return")
    return frozenset(kind.__annotations__) if is_typeddict(kind) else None


# What an operator returns.


def check_update(slot: str, writes: Mapping[str, Any], operator: str, update: object) -> dict[str, Any]:
    """Return an operator's update if it has exactly the declared keys, with values of the declared types.

    JSON in place of a record, such as `{"depth": 1}` for a verdict, becomes the record.

    Args:
        slot: name of the slot.
        writes: types of the keys that the operator must return.
        operator: name of the operator.
        update: what the operator returned.

    Raises:
        Fault: ("operator") the update is not a mapping, a key is missing or unknown, or a value has another type.
    """
    returned = f"operator {operator} in slot {slot} returned"
    if not isinstance(update, Mapping):
        hint = "; a function that makes operators is decorated with certigraph.factory" if callable(update) else ""
        raise Fault("operator", f"{returned} {update!r:.100}; it must return {_describe_keys(writes)}{hint}")
    if set(update) != set(writes):
        keys = ", ".join(sorted(map(str, update))) or "no keys"
        raise Fault("operator", f"{returned} {keys}; it must return {_describe_keys(writes)}")
    checked: dict[str, Any] = {}
    for key, kind in writes.items():
        replaces = isinstance(update[key], Overwrite)
        value = update[key].value if replaces else update[key]
        try:
            record = _validator(kind).validate_python(value, strict=True)
        except ValidationError as error:
            problem = _describe_error(error)
            raise Fault(
                "operator", f"{returned} {value!r:.100} as {key}; it must be {describe_type(kind)}{problem}"
            ) from None
        checked[key] = Overwrite(record) if replaces else record
    return checked


@cache
def _validator(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _describe_keys(writes: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key!r}: {describe_type(kind)}" for key, kind in writes.items()) + "}"


def describe_type(kind: Any) -> str:
    """Describe a type in words, such as `a list of certigraph.state.records.Predicate`."""
    items = [item for item in get_args(kind) if item is not ...]
    if get_origin(kind) is not None and len(items) == 1:
        return f"a list of {_type_name(items[0])}"
    return f"a {_type_name(kind)}"


def _type_name(kind: Any) -> str:
    name = getattr(kind, "__name__", str(kind))
    module = getattr(kind, "__module__", "builtins")
    return name if module == "builtins" else f"{module}.{name}"


def _describe_error(error: ValidationError) -> str:
    """Describe the first invalid item of a list; empty if the value as a whole is invalid."""
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return ""
    return f"; item {'.'.join(map(str, first['loc']))} is {first['input']!r:.60}"
