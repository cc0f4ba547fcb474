"""When the exhaustion gate fires: in the graph `react`, and as `ProgressGate` around LangChain's `create_agent`.

    CERTIGRAPH_DATA=... python scripts/audits/gate_in_middleware.py [QUESTIONS]

Both search the paragraphs of `musique:corpus` with the same queries: the question in several wordings, drawn by the
question's id. No language model takes part: the queries are scripted, and so are the answers of the memory.
"""

import random
import sys
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

import certigraph
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.graphs import react
from certigraph.middleware import BeliefMemory, ProgressGate, stack
from certigraph.nodes.conversations import STALE, is_note
from certigraph.state.records import Task
from certigraph.state.run import finish, search

ROUNDS = 12


class ScriptedAgent(GenericFakeChatModel):
    """Gives responses one after another, whatever tools it is offered."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ScriptedAgent":  # type: ignore[override] # noqa: D102
        return self


def draw_queries(task: Task) -> list[str]:
    """Return queries that repeat more and more: parts of the question, at last the same few words again."""
    drawn, words = random.Random(task.id), task.goal.split()
    queries = []
    for number in range(ROUNDS):
        size = max(2, round(len(words) * drawn.uniform(0.3, 0.9)))
        chosen = sorted(drawn.sample(range(len(words)), min(size, len(words))))
        fresh = drawn.random() < 0.6 * (1 - number / ROUNDS)
        queries.append(" ".join(words[place] for place in chosen) if fresh or not queries else queries[-1])
    return queries


def memory() -> certigraph.ScriptedChat:
    """Return a scripted model that updates a belief."""
    return certigraph.ScriptedChat(responder=lambda prompt, schema: minimal_instance(schema))


def fire_in_graph(task: Task, queries: Sequence[str]) -> int | None:
    """Return the round after which the gate ends the search of the graph `react`; None if it does not."""
    left = iter(queries)

    def decide(state: Any) -> dict[str, Any]:
        query = next(left, None)
        return {"thought": "", "action": search(query) if query else finish("unknown")}

    graph = react.build(gate=certigraph.exhaustion_gate(), memory="structured", decide=decide)
    context = certigraph.Context(chat=memory(), limits=certigraph.Limits(rounds=ROUNDS + 2, steps=ROUNDS + 3))
    state = certigraph.run(graph, "musique:corpus", task.id, context=context).state
    return len(state["rounds"]) if state["stagnation"].stop else None


def fire_in_middleware(task: Task, queries: Sequence[str]) -> int | None:
    """Return the round after which `ProgressGate` first notes that nothing new is found; None if it does not."""
    environment = certigraph.load_benchmark("musique:corpus").open(task)
    environment.reset()

    @tool(response_format="content_and_artifact")
    def look_up(query: str) -> tuple[str, list[Document]]:
        """Search the paragraphs."""
        found = environment.step(search(query))
        return found.text, [Document(id=source, page_content="") for source in found.sources]

    replies = [
        AIMessage(
            "", tool_calls=[{"name": "look_up", "args": {"query": query}, "id": f"{number}", "type": "tool_call"}]
        )
        for number, query in enumerate(queries)
    ]
    effects: dict[str, Any] = {"look_up": "repeatable"}
    middleware = stack(ProgressGate(then="note"), BeliefMemory(model=memory(), above=500), effects=effects)
    agent = create_agent(
        ScriptedAgent(messages=iter([*replies, AIMessage("unknown")])), [look_up], middleware=middleware
    )
    messages = agent.invoke({"messages": [("user", task.goal)]})["messages"]
    first = next((place for place, one in enumerate(messages) if is_note(one, STALE)), None)
    return None if first is None else sum(one.type == "tool" for one in messages[:first])


def main(questions: int) -> int:
    """Compare both on so many questions; return the number of those on which they differ."""
    tasks = certigraph.load_benchmark("musique:corpus").tasks()[:questions]
    fired, different = list[int](), 0
    for task in tasks:
        queries = draw_queries(task)
        in_graph, in_middleware = fire_in_graph(task, queries), fire_in_middleware(task, queries)
        fired += [in_graph] if in_graph else []
        if in_graph != in_middleware:
            different += 1
            print(f"{task.id}: graph {in_graph}, middleware {in_middleware}")
    rounds = ", ".join(f"{fired.count(number)} after {number}" for number in sorted(set(fired)))
    print(f"{len(tasks)} questions; fired in {len(fired)} ({rounds}); {different} differ")
    return different


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)))
