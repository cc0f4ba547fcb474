"""Mistakes that a type checker must find: every line that ends with `# wrong`, and no other line."""

from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

import certigraph
from certigraph import (
    Action,
    Benchmark,
    Budget,
    Case,
    Context,
    Environment,
    Limits,
    Observation,
    Operator,
    Scores,
    Task,
    Tools,
    always_pass,
)
from certigraph.graphs import sdp

Budget(calls="forty")  # wrong
Budget(cals=40)  # wrong
Limits(steps=None)  # wrong
Context(model=3)  # wrong
Context(chat="openai:gpt-4o")  # wrong
Context(benchmark="blocksworld")  # wrong
Action()  # wrong
sdp.graph.invoke({"task": {"benchmark": "blocksworld"}})  # wrong
sdp.graph.invoke({"tasks": {"benchmark": "blocksworld", "id": "4-0"}})  # wrong
sdp.build(validate="always_pass")  # wrong
certigraph.run("sdp", 4)  # wrong
certificates = certigraph.run("sdp").state.certificates  # wrong
certigraph.ask(question=3)  # wrong
certigraph.agent("sdq", model="local", tools=[])  # wrong
certigraph.agent("sdp", model=3, tools=[])  # wrong
certigraph.agent("sdp", model="local", tools=["refund"])  # wrong
certigraph.agent("sdp", model="local", tools=[], effects={"refund": "twice"})  # wrong
certigraph.agent("sdp", model="local", tools=[], interrupt_on=["refund"])  # wrong
certigraph.agent("sdp", model="local", tools=[], validate="always_pass")  # wrong
certigraph.agent("sdp", model="local", tools=[], validator=always_pass)  # wrong
certigraph.agent("sdp", model="local", tools=[], response_format={"answer": str})  # wrong
Tools([], [3])  # wrong
Tools([], check=lambda episode: "yes")  # wrong
Case(expected=3)  # wrong
sdp.builder().insert("note", 3)  # wrong


async def three(state: Any, runtime: Runtime[Context], more: int) -> dict[str, Any]:
    return {}


async def text(state: Any, runtime: Runtime[Context]) -> str:
    return ""


first: Operator = three  # wrong
second: Operator = text  # wrong


class NoStep(Environment):
    def reset(self) -> Observation:
        return Observation(text="")

    def score(self) -> Scores:
        return Scores(value=0.0)


NoStep()  # wrong


class Lists(Benchmark):
    name = "lists"
    answers = "yes"  # wrong

    def tasks(self, split: str = "") -> Sequence[Task]:
        return []

    def open(self, task: str) -> Environment:  # wrong
        raise NotImplementedError
