"""What SDP's graph is measured against: the same climb as a bare LangGraph loop and as a plain Python loop."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]

from certigraph.evaluation.bench.world import climbed, order, view


class Climb(TypedDict):
    """The least state that the loop needs; every field is a plain last value."""

    rungs: int
    head: int
    height: int
    action: str
    observation: str
    held: bool


BareGraph = CompiledStateGraph[Climb, None, Climb, Climb]
Node = Callable[[Climb], dict[str, Any]]


def ground(rungs: int) -> Climb:
    """The state before the first step."""
    return Climb(rungs=rungs, head=0, height=0, action="", observation=view(0), held=False)


def bare_graph(checkpointer: Checkpointer = None) -> BareGraph:
    """Four small nodes and two conditional edges: plain functions under `invoke`, coroutines under `ainvoke`."""
    builder = StateGraph(Climb)
    for name, node in NODES.items():
        builder.add_node(name, RunnableCallable(node, _awaited(node), name=name, trace=False))
    builder.add_edge(START, "realize")
    builder.add_edge("realize", "act")
    builder.add_edge("act", "validate")
    builder.add_conditional_edges("validate", _after_validate, {"certified": "certify", "retry": "realize"})
    builder.add_conditional_edges("certify", _after_certify, {"advance": "realize", "goal": END})
    return builder.compile(checkpointer=checkpointer, name="bare")


def plain_loop(rungs: int) -> Climb:
    """The same nodes without a graph around them."""
    state = ground(rungs)
    while state["head"] < rungs:
        for node in NODES.values():
            state = cast(Climb, {**state, **node(state)})
    return state


def _realize(state: Climb) -> dict[str, Any]:
    return {"action": order(state["head"] + 1)}


def _act(state: Climb) -> dict[str, Any]:
    height = climbed(state["height"], state["action"])
    return {"height": height, "observation": view(height)}


def _validate(state: Climb) -> dict[str, Any]:
    return {"held": state["observation"] == view(state["head"] + 1)}


def _certify(state: Climb) -> dict[str, Any]:
    return {"head": state["head"] + 1}


NODES: Mapping[str, Node] = {"realize": _realize, "act": _act, "validate": _validate, "certify": _certify}


def _after_validate(state: Climb) -> str:
    return "certified" if state["held"] else "retry"


def _after_certify(state: Climb) -> str:
    return "goal" if state["head"] == state["rungs"] else "advance"


def _awaited(node: Node) -> Callable[[Climb], Awaitable[dict[str, Any]]]:
    async def awaited(state: Climb) -> dict[str, Any]:
        return node(state)

    return awaited
