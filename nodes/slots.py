"""Slots: what the graph does around an operator, so that an exchanged operator need not repeat it.

A slot names the channels it reads, narrows them to the operator's view, and turns the operator's answer into the
state update with its bookkeeping. `as_node` makes a LangGraph node of a slot and an operator.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]

from certigraph.adapters.benchmarks import context_of, load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.meter import Meter, metering
from certigraph.adapters.protocols import Operator
from certigraph.state.endings import Fault
from certigraph.state.records import Task

T = TypeVar("T")
Update = dict[str, Any]


def _unchanged(state: Mapping[str, Any], update: Update, runtime: Runtime[Context]) -> Update:
    return update


def _all(state: Any) -> Any:
    return state


class Slot(NamedTuple):
    """A place for an operator in a graph."""

    name: str
    writes: frozenset[str]
    """Keys the operator may return; anything else is refused, where LangGraph would drop it in silence."""
    view: Callable[[Any], Any] = _all
    record: Callable[[Any, Update, Runtime[Context]], Update] = _unchanged
    """Adds the slot's bookkeeping to the operator's answer."""
    skip: Callable[[Any, Runtime[Context]], Update | None] = lambda state, runtime: None
    """An answer that makes asking the operator pointless (its budget is spent), else None."""


def as_node(slot: Slot, operator: Operator) -> RunnableCallable:
    """A node that narrows, meters, checks and records, and serves `invoke` and `ainvoke` alike."""

    async def node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update:
        meter = Meter(slot.name, context_of(runtime).budget, state.get("usage", ()))
        started = time.perf_counter()
        try:
            with metering(meter):
                update = await _answer(slot, operator, state, at_home(state, runtime))
        finally:
            usage = meter.usage(time.perf_counter() - started)
            step = config.get("metadata", {}).get("langgraph_step", 0)
            calls = [call.as_json() for call in meter.records]
            runtime.stream_writer({"metered": usage, "superstep": step, "calls": calls})
        return {**update, "usage": [usage]}

    def blocking_node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update:
        return wait_for(node(state, config, runtime))

    return RunnableCallable(blocking_node, node, name=slot.name, trace=False)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code, on one long-lived loop, so that HTTP clients outlive the call."""
    return asyncio.run_coroutine_threadsafe(coroutine, _background_loop()).result()


def at_home(state: Any, runtime: Runtime[Context]) -> Runtime[Context]:
    """The runtime with a context, defaults where the caller gave none, and the task's live benchmark in it."""
    context = context_of(runtime)
    if context.benchmark is None:
        task = Task.model_validate(state["task"])
        context = context.model_copy(update={"benchmark": load_benchmark(task.benchmark, context.data)})
    return replace(runtime, context=context)


async def _answer(slot: Slot, operator: Operator, state: Any, runtime: Runtime[Context]) -> Update:
    skipped = slot.skip(state, runtime)
    if skipped is not None:
        return skipped
    update = await operator(slot.view(state), runtime)
    if unknown := set(update) - slot.writes:
        name = getattr(operator, "__qualname__", repr(operator))
        message = f"operator {name} in slot {slot.name} returned {sorted(unknown)}; it may return {sorted(slot.writes)}"
        raise Fault("operator", message)
    return slot.record(state, update, runtime)


@lru_cache(maxsize=1)
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="certigraph-loop", daemon=True).start()
    return loop
