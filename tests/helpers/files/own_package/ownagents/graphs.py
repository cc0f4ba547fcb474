"""Graphs of a user's own: one of plain LangGraph nodes with a slot, and one of certigraph's with other operators."""

import os
import signal
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

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


def fragile(state: Any, runtime: Any) -> dict[str, Any]:
    """Adds; the first process that comes to the second step is killed there."""
    flag = Path(os.environ["OWN_FLAG"])
    if len(state["history"]) == 1 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"action": Action(text="add")}


class Chatting(TypedDict, total=False):
    """The state of a chat, without a task."""

    messages: Annotated[list[AnyMessage], add_messages]


class Talker:
    """A node that calls a LangChain model itself, as often as it is set to."""

    def __init__(self, model: Any, times: int) -> None:
        self.model, self.times = model, times

    async def talk(self, state: Chatting) -> dict[str, Any]:
        return {"messages": [await self.model.ainvoke(state["messages"]) for _ in range(self.times)]}


def chatting(model: Any, times: int = 1) -> Any:
    builder = StateGraph(Chatting)
    builder.add_node("talk", Talker(model, times).talk)
    builder.add_edge(START, "talk")
    builder.add_edge("talk", END)
    return builder.compile(name="chatting")
