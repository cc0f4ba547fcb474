"""Putting operators into slots: the swap by keyword that every graph offers."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from typing import Any, Self, cast

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from pydantic import JsonValue

from certigraph.adapters.episodes import graph_scope
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.slots import Slot, Spec, as_node, spec_of


class EpisodicGraph(CompiledStateGraph[Any, Context, Any, Any]):
    """A compiled graph that closes the episodes it opened when a run of it ends.

    Every way to run a graph (invoke, batch, events, the development server, a node of another graph) goes through
    `stream` or `astream`. A run ends when it is finished, interrupted, failed, cancelled, or when its stream is
    abandoned; a thread that is continued has its world rebuilt from the log.
    """

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: D102 - as LangGraph's
        chunks: Any = super().stream(input, config, **kwargs)
        scope = graph_scope()
        if scope is None:
            yield from chunks
            return
        try:
            while True:
                with scope.active():  # not across the yield, where the caller's own code runs
                    try:
                        chunk = next(chunks)
                    except StopIteration:
                        return
                yield chunk
        finally:
            try:
                chunks.close()
            finally:
                scope.end()

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: D102
        chunks: Any = super().astream(input, config, **kwargs)
        scope = graph_scope()
        if scope is None:
            async for chunk in chunks:
                yield chunk
            return
        try:
            while True:
                with scope.active():
                    try:
                        chunk = await anext(chunks)
                    except StopAsyncIteration:
                        return
                yield chunk
        finally:
            try:
                await chunks.aclose()
            finally:
                await scope.aend()


class Assembly(StateGraph[Any, Context, Any, Any]):
    """A graph builder whose routers answer where they are asked: LangGraph would send each to a thread of its own.

    What it compiles closes its episodes (`EpisodicGraph`).
    """

    def compile(self, *args: Any, **kwargs: Any) -> EpisodicGraph:
        """As LangGraph's."""
        return EpisodicGraph(**vars(super().compile(*args, **kwargs)))

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Self:
        """As LangGraph's; a `path` that is a plain function is called in place."""
        return super().add_conditional_edges(source, _in_place(path) if inspect.isfunction(path) else path, path_map)


def assemble(
    state: type[Any],
    given: type[Any],
    slots: Sequence[Slot],
    defaults: Mapping[str, object],
    swaps: Mapping[str, object],
) -> Assembly:
    """A graph builder with one node a slot; `swaps` take the place of `defaults`.

    A slot without a default is optional: it becomes a node where a swap brings its operator. The operator's name and
    arguments go into the node's metadata.

    Raises:
        TypeError: a swap names no slot, or is no operator; the message says what would do.
    """
    known = [slot.name for slot in slots]
    if unknown := set(swaps) - set(known):
        raise TypeError(f"no operator slot {', '.join(sorted(unknown))!r}; this graph has: {', '.join(known)}")
    builder = Assembly(state, context_schema=Context, input_schema=given)
    operators = {**defaults, **swaps}
    for slot in (slot for slot in slots if slot.name in operators):
        operator = _checked(slot.name, operators[slot.name])
        spec = spec_of(operator).model_dump(mode="json")
        builder.add_node(slot.name, as_node(slot, operator), metadata={"operator": spec}, input_schema=state)
    return builder


def add_path(builder: Assembly, *nodes: str) -> None:
    """Edges from each node to the next, past those of optional slots that have no operator."""
    present = [node for node in nodes if node in builder.nodes]
    for source, target in pairwise(present):
        builder.add_edge(source, target)


def operators_of(graph: CompiledStateGraph[Any, Context, Any, Any]) -> dict[str, JsonValue]:
    """The specs of a compiled graph's operators, by slot, as `assemble` left them in its metadata."""
    return {name: node.metadata["operator"] for name, node in graph.builder.nodes.items() if node.metadata}


def swapped(operators: Mapping[str, JsonValue], usual: Mapping[str, JsonValue]) -> dict[str, Spec]:
    """Those of the operators that are not the usual ones, by slot."""
    return {slot: Spec.model_validate(spec) for slot, spec in operators.items() if spec != usual.get(slot)}


def _in_place(path: Callable[..., Any]) -> RunnableCallable:
    if inspect.iscoroutinefunction(path):
        return RunnableCallable(None, path, name=path.__name__, trace=False)

    @wraps(path)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return path(*args, **kwargs)

    return RunnableCallable(path, awaited, name=path.__name__, trace=False)


def _checked(slot: str, operator: object) -> Operator:
    if getattr(operator, "makes_operator", False):
        name = getattr(operator, "__name__", operator)
        raise TypeError(f"{name} makes operators and is none: call it, {slot}={name}(...)")
    call = operator if inspect.isfunction(operator) else getattr(operator, "__call__", None)  # noqa: B004 - the method
    if not inspect.iscoroutinefunction(call):
        raise TypeError(f"{slot}={operator!r} is no operator; give an `async def operator(state, runtime)`")
    return cast(Operator, operator)
