"""Runs of agents that were made elsewhere: LangChain's `create_agent`, deepagents, any graph over messages.

Such a graph takes a request in place of a benchmark's task, as an agent of certigraph's does. Its tools, and what its
middleware says of them, are found in the graph.
"""

from collections.abc import Iterable
from typing import Any

from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.world import Tools
from certigraph.graphs.assembly import EpisodicGraph
from certigraph.nodes.executors import find_tools
from certigraph.nodes.outside_agents import OutsideEffects, load_outside_tools
from certigraph.runtime.graph_sources import AnyGraph, slots_of
from certigraph.state.endings import Fault

OWN_MODEL = "its own"
"""What headers name as the model of such an agent: the context of the run has none for it."""


def is_outside_agent(graph: AnyGraph) -> bool:
    """Return whether a graph is an agent that was made elsewhere: it takes messages, and no record of certigraph's."""
    schemas = graph.builder.schemas
    keys = schemas[graph.builder.input_schema].keys()
    own = schemas[graph.builder.state_schema].keys() & {"history", "answers", "task"}
    return not isinstance(graph, EpisodicGraph) and "messages" in keys and not own


def load_tools_of(graph: AnyGraph, cases: Tools | None = None) -> Tools:
    """Return the tools of an agent as a world; `cases` for an agent without a `ToolNode`.

    Args:
        graph: the agent.
        cases: the user's tools with cases, which say what each tool does.
    """
    tools = find_tools(graph)
    if cases and not tools:
        return cases
    effects = dict(cases.effects) if cases else {}
    for hook in _functions_of(graph):
        declared = getattr(getattr(hook, "__self__", None), "effects", None)
        if isinstance(declared, OutsideEffects):
            effects = {**declared.given, **effects}
    return load_outside_tools(tools, effects)


def check_no_schema(graph: AnyGraph, schema: type[Any] | None) -> None:
    """Check that an agent needs no context of a type of its own.

    Args:
        graph: the agent.
        schema: its `context_schema`.

    Raises:
        Fault: ("data") it has one.
    """
    if schema not in (None, Context):
        named = getattr(schema, "__name__", schema)
        reason = f"the agent {graph.name!r} has a context of its own ({named}), which no run keeps"
        raise Fault("data", f"{reason}: use its invoke or stream, or build it without context_schema")


def context_for(graph: AnyGraph, context: Context) -> Any:
    """Return what an agent's tools and middleware read as `runtime.context`: the caller's own, or None.

    Operators of certigraph's in its graph need the context of the run, and so do nodes that are typed for it.
    """
    is_typed = graph.builder.context_schema is Context or slots_of(graph)
    return context if is_typed else context.own


def _functions_of(graph: AnyGraph) -> Iterable[Any]:
    """Return the functions of the graph's nodes; those of middleware are its methods."""
    for node in graph.builder.nodes.values():
        yield getattr(node.runnable, "func", None)
        yield getattr(node.runnable, "afunc", None)


__all__ = ["OWN_MODEL", "check_no_schema", "context_for", "is_outside_agent", "load_tools_of"]
