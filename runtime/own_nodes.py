"""Usage of nodes that are no slots: those of a user's own LangGraph graph.

A node of a slot meters itself. A copy of the graph meters the others: what they ask of models counts against the
budget, also where they call a LangChain model directly, and every execution leaves an event in the trajectory.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.runtime import Runtime
from langgraph.types import Command, Overwrite
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from pydantic_core import to_jsonable_python

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.models.usage import (
    Call,
    CallOrigin,
    Meter,
    UsageReport,
    cached_tokens,
    cost_in_usd,
    is_call_open,
    metering,
    price_of,
    report_usage,
    usage_of,
)
from certigraph.adapters.protocols import Context
from certigraph.nodes.slots import node_position
from certigraph.runtime.graph_sources import AnyGraph, slots_of
from certigraph.state.records import Record, Spent


def meter_own_nodes(graph: AnyGraph, spent: Callable[[], Spent]) -> AnyGraph:
    """Return a copy of a graph in which every node is metered; a graph of slots alone is returned as it is.

    Nodes that run a graph stay as they are, because the nodes of that graph report themselves.

    Args:
        graph: the compiled graph.
        spent: returns what the run has spent so far.
    """
    own = own_nodes_of(graph)
    wrapped = {
        name: node.copy({"bound": _metered(name, node.bound, spent)})
        for name, node in graph.nodes.items()
        if name in own and not node.subgraphs
    }
    return graph.copy({"nodes": {**graph.nodes, **wrapped}}) if wrapped else graph


def own_nodes_of(graph: AnyGraph) -> set[str]:
    """Return the names of the nodes that are no slots."""
    return graph.builder.nodes.keys() - set(slots_of(graph))


def _metered(name: str, bound: Any, spent: Callable[[], Spent]) -> RunnableCallable:
    async def node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Any:
        step, place = node_position(config)
        meter = Meter(name, context_of(runtime).budget, spent(), CallOrigin(step, *place))
        started, update = time.perf_counter(), None
        try:
            meter.check()
            metered = merge_configs(config, {"callbacks": [_ChatUsage(meter)]})
            with metering(meter), _child_config(metered):
                async with meter.within_seconds():
                    output = await bound.ainvoke(state, metered)
            update = _update_of(output)
            return output
        finally:
            usage = meter.usage(time.perf_counter() - started)
            report_usage(UsageReport(step, usage, meter.records, place, update))

    return RunnableCallable(None, node, name=name, trace=False)


@contextmanager
def _child_config(config: RunnableConfig) -> Iterator[None]:
    """Give a config to every runnable that is called inside the block without one, as LangGraph does for a node."""
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _update_of(output: Any) -> dict[str, Any]:
    """Return the part of a node's output that the trajectory shows: the keys and values that it wrote."""
    if isinstance(output, Command):
        return _update_of(output.update)
    if isinstance(output, (list, tuple)):
        return {key: value for part in output for key, value in _update_of(part).items()}
    return {key: _to_plain(value) for key, value in output.items()} if isinstance(output, Mapping) else {}


def _to_plain(value: Any) -> Any:
    if isinstance(value, Overwrite):
        return Overwrite(_to_plain(value.value))
    if isinstance(value, (list, tuple)):
        return [_to_plain(part) for part in value]
    return value if isinstance(value, Record) else to_jsonable_python(value, fallback=repr, inf_nan_mode="null")


class _ChatUsage(BaseCallbackHandler):
    """Charges the calls of LangChain models that a node makes itself; `ask` and its like charge their own."""

    raise_error = True
    run_inline = True

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._started: dict[UUID, tuple[float, list[BaseMessage]]] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Check the budget before a request. Raises LimitReached."""
        self._start(run_id, [message for batch in messages for message in batch])

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        """Check the budget before a request. Raises LimitReached."""
        self._start(run_id, [HumanMessage(prompt) for prompt in prompts])

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Charge a request that was answered."""
        self._charge(run_id, response)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Charge a request that failed."""
        self._charge(run_id, LLMResult(generations=[]), failure=type(error).__name__)

    def _start(self, run_id: UUID, messages: Iterable[BaseMessage]) -> None:
        if not is_call_open():
            self._meter.check(calls=1)
            self._started[run_id] = time.perf_counter(), list(messages)

    def _charge(self, run_id: UUID, response: LLMResult, failure: str = "") -> None:
        if run_id not in self._started:
            return
        started, messages = self._started.pop(run_id)
        reply = next((part for batch in response.generations for part in batch), None)
        message: Any = reply.message if isinstance(reply, ChatGeneration) else None
        details = {**(response.llm_output or {}), **getattr(message, "response_metadata", {})}
        model = str(details.get("model_name") or details.get("model") or "unknown")
        usage = usage_of(getattr(message, "usage_metadata", None), messages, reply.text if reply else "")
        stand_in: Any = SimpleNamespace(model_name=model, metadata=None)  # prices are listed by a model's name
        self._meter.charge(
            Call(
                role="",
                model=model,
                schema_name="",
                input_tokens=usage["input_tokens"],
                output_tokens=usage["output_tokens"],
                cached_tokens=cached_tokens(usage),
                usd=cost_in_usd(price_of(stand_in), usage),
                seconds=time.perf_counter() - started,
                failure=failure,
            )
        )
