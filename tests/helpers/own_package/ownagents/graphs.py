"""Graphs of a user's own: one of plain LangGraph nodes with a slot, and one of certigraph's with other operators."""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from certigraph.adapters.protocols import Context
from certigraph.graphs import react
from certigraph.nodes.world import act, reset
from certigraph.state.records import Action, Task
from certigraph.state.run import RunInput, RunState


async def add(state: Any, runtime: Any) -> dict[str, Any]:
    return {"action": Action(text="add")}


async def stop(state: Any, runtime: Any) -> dict[str, Any]:
    return {"action": Action(text="stop")}


def build(*, choose: Any = add) -> Any:
    """A loop of nodes that LangGraph alone knows, around a slot `choose`."""
    builder = StateGraph(RunState, context_schema=Context, input_schema=RunInput)
    for name, node in {"reset": reset, "choose": choose, "act": act}.items():
        builder.add_node(name, node)
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "choose")
    builder.add_edge("choose", "act")
    builder.add_conditional_edges("act", lambda state: END if state["observation"].done else "choose")
    return builder.compile()


graph = build()


async def keep_adding(state: Any, runtime: Any) -> dict[str, Any]:
    return {"action": Action(text="add"), "thought": "on"}


def reacting(**operators: Any) -> Any:
    """ReAct that always adds."""
    return react.build(**{"decide": keep_adding, **operators})


class Plain(TypedDict, total=False):
    """A state that holds nothing of certigraph's but the task."""

    task: Task
    actions: list[str]
    note: str


def write(state: Plain) -> dict[str, Any]:
    return {"actions": ["add"] * (int(state["task"].id) - (state["task"].id == "3")), "note": "done"}


plain = StateGraph(Plain)  # a builder, which is compiled when it is loaded
plain.add_node("write", write)
plain.add_edge(START, "write")
plain.add_edge("write", END)


def broken() -> Any:
    raise OSError("no\nshelf")


def nothing() -> Any:
    return 7
