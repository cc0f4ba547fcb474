"""An agent with an executor in a process that ends in the middle of the executor's work."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import certigraph
from helpers.models.scripted_agents import ScriptedAgent, calls

REFUND = ("refund", {"order": 17, "amount": 64.0})
CLOSE = ("close", {"order": 17})


def respond(prompt: str, schema: Any) -> Any:
    if "holds" in schema["properties"]:
        return {"reason": "seen", "evidence": "refunded 64.0 euros of order 17", "reachable": True, "holds": 2}
    return {"reasoning": "", "conditions": ["Order 17 was refunded."]}


def work(folder: str, is_protected: bool) -> None:
    """Begin the work, or go on with it. The first process ends before `close` takes effect, right after a refund."""
    done, begun = Path(folder, "done"), Path(folder, "begun")

    def note(text: str) -> None:
        with done.open("a") as file:
            file.write(f"{text}\n")

    @tool
    def refund(order: int, amount: float) -> str:
        """Refund an amount of an order."""
        note(f"refund {order}")
        return f"refunded {amount} euros of order {order}"

    @tool
    def close(order: int) -> str:
        """Close the ticket of an order."""
        if not begun.exists():
            begun.touch()
            while not done.exists():  # the refund is made at the same time
                time.sleep(0.01)
            time.sleep(0.5)  # its answer is entered
            os._exit(9)
        note(f"close {order}")
        return f"ticket of order {order} is closed"

    tools = [*(certigraph.once([refund]) if is_protected else [refund]), close]
    replies: list[Any] = ["Refunded and closed."] if begun.exists() else [calls(REFUND, CLOSE)]
    model = ScriptedAgent(replies=replies)
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "ask").add_conditional_edges("ask", tools_condition).add_edge("tools", "ask")
    connection = sqlite3.connect(Path(folder, "checkpoints.sqlite"), check_same_thread=False)
    saver = SqliteSaver(connection, serde=certigraph.serializer())
    chat = certigraph.ScriptedChat(responder=respond)
    agent = certigraph.agent("sdp", model=chat, executor=graph.compile(), checkpointer=saver)
    given = None if begun.exists() else {"messages": [("user", "Refund order 17 and close its ticket.")]}
    state = agent.invoke(given, {"configurable": {"thread_id": "1"}})
    Path(folder, "ending").write_text(state["ending"])
