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
from typing import Any, NamedTuple, ParamSpec, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]

from certigraph.adapters.benchmarks import context_of, load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.models.meter import Meter, metering
from certigraph.adapters.protocols import Operator
from certigraph.state.endings import Fault
from certigraph.state.records import Spent, Task, Usage

P = ParamSpec("P")
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
    """Keys the operator must return, no more and no less: LangGraph would drop or miss them in silence."""
    view: Callable[[Any], Any] = _all
    record: Callable[[Any, Update, Runtime[Context]], Update] = _unchanged
    """Adds the slot's bookkeeping to the operator's answer."""
    skip: Callable[[Any, Runtime[Context]], Update | None] = lambda state, runtime: None
    """An answer that makes asking the operator pointless (its budget is spent), else None."""
    opens_books: bool = False
    """Whether a run begins here: what the thread spent before is another run's."""


def as_node(slot: Slot, operator: Operator) -> RunnableCallable:
    """A node that narrows, meters, checks and records, and serves `invoke` and `ainvoke` alike."""

    async def node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update:
        before = Spent() if slot.opens_books else state.get("spent", Spent())
        meter = Meter(slot.name, context_of(runtime).budget, before)
        started = time.perf_counter()
        try:
            with metering(meter):
                update = await _answer(slot, operator, state, at_home(state, runtime))
        finally:
            usage = meter.usage(time.perf_counter() - started)
            step = config.get("metadata", {}).get("langgraph_step", 0)
            calls = [call.as_json() for call in meter.records]
            runtime.stream_writer({"metered": usage, "superstep": step, "calls": calls})
        return {**update, **_booked(slot, usage)}

    def blocking_node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update:
        return wait_for(node(state, config, runtime))

    return RunnableCallable(blocking_node, node, name=slot.name, trace=False)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code: on the thread's own loop, or, where one runs already, on another's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _loop_of_thread().run_until_complete(coroutine)
    return asyncio.run_coroutine_threadsafe(coroutine, _background_loop()).result()


def at_home(state: Any, runtime: Runtime[Context]) -> Runtime[Context]:
    """The runtime with a context, defaults where the caller gave none, and the task's live benchmark in it."""
    context = context_of(runtime)
    if context.benchmark is not None:
        return runtime
    benchmark = load_benchmark(Task.model_validate(state["task"]).benchmark, context.data)
    return replace(runtime, context=context.model_copy(update={"benchmark": benchmark}))


async def off_loop(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do blocking work without holding up the event loop: in a worker thread where others may be waiting on it."""
    if asyncio.get_running_loop() is getattr(_OF_THREAD, "loop", None):
        return call(*args, **kwargs)
    return await asyncio.to_thread(call, *args, **kwargs)


async def _answer(slot: Slot, operator: Operator, state: Any, runtime: Runtime[Context]) -> Update:
    skipped = slot.skip(state, runtime)
    if skipped is not None:
        return skipped
    update = await operator(slot.view(state), runtime)
    if set(update) != slot.writes:
        name = getattr(operator, "__qualname__", repr(operator))
        told = f"operator {name} in slot {slot.name} returned {sorted(update)}; it must return {sorted(slot.writes)}"
        raise Fault("operator", told)
    return slot.record(state, update, runtime)


def _booked(slot: Slot, usage: Usage) -> Update:
    if slot.opens_books:
        return {"usage": Overwrite([usage]), "spent": Overwrite(usage.spent())}
    return {"usage": [usage], "spent": usage.spent()}


_OF_THREAD = threading.local()


def _loop_of_thread() -> asyncio.AbstractEventLoop:
    # Kept for the thread's next call: opening a loop costs as much as a whole superstep.
    if not hasattr(_OF_THREAD, "loop"):
        _OF_THREAD.loop = asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = _OF_THREAD.loop
    return loop


@lru_cache(maxsize=1)
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="certigraph-loop", daemon=True).start()
    return loop
