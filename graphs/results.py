"""The last node of every graph, `result`: how the run ended, why, the world's score, and which operators ran.

A run that a limit or an error stops has no result; the exception says what stopped it.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from pydantic import JsonValue

from certigraph.adapters.benchmarks import benchmark_of, call_world
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.world import Tools
from certigraph.graphs.operator_names import name_running_operators
from certigraph.nodes.slots import node_position
from certigraph.nodes.specs import Spec
from certigraph.nodes.world import score_episode
from certigraph.state.step import best_scores
from certigraph.state.tools import name_ending

RESULT = "result"
"""Name of the node."""

ResultNode = Callable[[Any, RunnableConfig, Runtime[Context]], Awaitable[dict[str, Any]]]


def create_result(method: str, specs: Mapping[str, JsonValue], operators: Mapping[str, Any]) -> ResultNode:
    """Create the node.

    Args:
        method: name of the method, whose module says how a run of it ended.
        specs: the specs of the graph's operators by slot.
        operators: the operators.
    """

    async def result(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> dict[str, Any]:
        module, benchmark = import_module(f"certigraph.graphs.{method}"), benchmark_of(state["task"], runtime)
        ending = module.ending(state)
        if isinstance(benchmark, Tools):
            ending = name_ending(ending, state.get("history", ()), judged=True)
        found = {"ending": ending, "ending_reason": module.message(state) if hasattr(module, "message") else ""}
        if node_position(config)[1].scope:  # a graph inside a node: the outer one scores the world
            return found
        live = await call_world(score_episode, state["task"], runtime, state, runtime)
        named = name_running_operators(specs, operators, state["task"], benchmark)
        texts = {slot: str(Spec.model_validate(spec)) for slot, spec in named.items()}
        return {**found, "scores": best_scores(state, live), "operators": texts}

    return result
