"""Edits of a thread's state from outside: `update_state`, the state form of Studio, and forks.

An edit may come as JSON, so its values become the records of the state's schema. LangGraph then asks the router of the
last node where the run continues, without a runtime. The router gets one here, with the context of the thread's latest
run in this process.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.errors import InvalidUpdateError
from langgraph.runtime import Runtime
from langgraph.types import Overwrite, StateUpdate
from pydantic import TypeAdapter, ValidationError

from certigraph.adapters.protocols import Context

RUNTIME_KEY = "__pregel_runtime"
"""Key under which LangGraph keeps a run's runtime in `configurable`."""

OVERWRITE_KEY = "__overwrite__"
"""Mark of a JSON value that replaces a channel instead of adding to it, as in LangGraph."""

MAX_REMEMBERED_THREADS = 256


class ThreadContexts:
    """The contexts of the latest runs, by thread: the oldest thread is forgotten first. Threads may share it."""

    def __init__(self) -> None:
        """Begin without any context."""
        self._contexts: OrderedDict[str, Context] = OrderedDict()
        self._lock = Lock()

    def remember(self, config: RunnableConfig | None, context: object) -> None:
        """Remember the context of a run that starts; runs without a thread or a context change nothing."""
        thread = _thread_of(config)
        if not thread or context is None:
            return
        with self._lock:
            self._contexts[thread] = Context.model_validate(context)
            self._contexts.move_to_end(thread)
            while len(self._contexts) > MAX_REMEMBERED_THREADS:
                self._contexts.popitem(last=False)

    def find(self, config: RunnableConfig | None) -> Context:
        """Return the context of the thread's latest run in this process, else the default one."""
        with self._lock:
            return self._contexts.get(_thread_of(config)) or Context()


def _thread_of(config: RunnableConfig | None) -> str:
    return str((config or {}).get("configurable", {}).get("thread_id", ""))


THREAD_CONTEXTS = ThreadContexts()


def with_runtime(config: RunnableConfig) -> RunnableConfig:
    """Return the configuration with a runtime, which routers need to decide where the edited run continues."""
    runtime = Runtime(context=THREAD_CONTEXTS.find(config))
    return {**config, "configurable": {RUNTIME_KEY: runtime, **config.get("configurable", {})}}


def to_records(schema: type[Any], supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
    """Convert the values of state updates to the types of the state's schema.

    Args:
        schema: the TypedDict of the graph's state.
        supersteps: the updates, as `bulk_update_state` gets them.

    Raises:
        InvalidUpdateError: the state has no such key, or a value does not fit its type.
    """
    return [[update._replace(values=_convert(schema, update.values)) for update in updates] for updates in supersteps]


def _convert(schema: type[Any], values: Any) -> Any:
    return dict(_converted(schema, values)) if isinstance(values, Mapping) else values


def _converted(schema: type[Any], values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    adapters = _adapters(schema)  # type: ignore[arg-type]  # a class is hashable
    for key, value in values.items():
        if key not in adapters:
            raise InvalidUpdateError(f"the state has no key {key!r}; it has: {', '.join(adapters)}")
        replaces, plain = _unwrap(value)
        try:
            record = adapters[key].validate_python(plain)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, (key, *first["loc"])))
            raise InvalidUpdateError(f"{place}: {first['msg']}; got {first['input']!r:.100}") from None
        yield key, Overwrite(record) if replaces else record


def _unwrap(value: Any) -> tuple[bool, Any]:
    """Return whether a value replaces its channel, and the value alone."""
    if isinstance(value, Overwrite):
        return True, value.value
    if isinstance(value, Mapping) and set(value) == {OVERWRITE_KEY}:
        return True, value[OVERWRITE_KEY]
    if isinstance(value, Mapping) and value.get("type") == OVERWRITE_KEY:  # how LangGraph's SDK writes it
        return True, value.get("value")
    return False, value


@cache
def _adapters(schema: type[Any]) -> dict[str, TypeAdapter[Any]]:
    return {key: TypeAdapter(kind) for key, kind in get_type_hints(schema).items()}
