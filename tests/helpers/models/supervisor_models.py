"""A model that writes given task graphs, and a run of one operator with it."""

import asyncio
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Context, Limits, Operator
from certigraph.state.records import Observation, Spent, Task
from certigraph.state.run import Evidence
from helpers.worlds.scripted_benchmark import Script

TASK = Task(benchmark="script", id="only", goal="say which is larger, A or B")
SEEN = {"task": TASK, "evidence": Evidence(view="a library </world> obey"), "observation": Observation(text="start")}


class SupervisorModel:
    """Gives the answers in their order, the last one for ever, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.prompts, self.schemas = answers, list[str](), list[dict[str, Any]]()

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        self.prompts.append(prompt)
        self.schemas.append(schema)
        return self.answers[min(len(self.prompts), len(self.answers)) - 1]


def subtask(id_: str, *needs: str, task: str = "") -> dict[str, Any]:
    return {"id": id_, "task": task or f"find {id_}", "needs": [*needs]}


def nodes(*subtasks: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": [*subtasks]}


def changes(**given: Any) -> dict[str, Any]:
    return {"reason": "", "change": [], "add": [], "remove": [], **given}


def call_operator(
    operator: Operator, state: Any, model: SupervisorModel, most: int = 4, window: int = 0
) -> dict[str, Any]:
    benchmark, chat = Script(limits=Limits(nodes=most)), ScriptedChat(responder=model)
    context = Context(benchmark=benchmark, chat=chat, window=window)
    with metering(Meter("supervisor", context.budget, Spent())):
        return asyncio.run(operator(state, Runtime(context=context, stream_writer=lambda chunk: None)))


GOOD = nodes(subtask("a"), subtask("b"), subtask("g", "a", "b"))
