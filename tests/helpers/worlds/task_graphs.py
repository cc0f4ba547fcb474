"""A benchmark of task graphs, and the scripted Supervisor, Planner and Executor that carry them out.

Every sub-task takes two actions, the last of which hands the whole task in where the sub-task is the goal. What a
sub-task does and says follows from its id alone, so that runs repeat each other however long their nodes take.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Benchmark, Environment, Limits
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.tdp import Dag, Node

GRAPHS: dict[str, dict[str, tuple[str, ...]]] = {
    "wide": {"a": (), "b": (), "c": (), "goal": ("a", "b", "c")},
    "deep": {"a": (), "b": (), "c": (), "d": ("a", "b"), "e": ("c",), "goal": ("d", "e")},
    "chain": {"a": (), "b": ("a",), "goal": ("b",)},
}
"""Task graphs by the task's id: what each sub-task needs."""

ACTIONS = 2
"""World steps of every sub-task."""

DELIVER = "deliver"


def dag_of(needs: Mapping[str, Sequence[str]]) -> Dag:
    return Dag(nodes=tuple(Node(id=id_, task=f"do {id_}", needs=tuple(before)) for id_, before in needs.items()))


class Jobs(Benchmark):
    """The benchmark. Its worlds may be stepped in copies."""

    name = "jobs"
    briefing = "Jobs are done one by one."
    configurations = ("",)
    instant = True
    concurrent = True

    def __init__(self, data: Path | None = None, config: str = "", *, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(nodes=20, steps=60)
        self.worlds: list[JobWorld] = []

    def tasks(self, split: str = "") -> Sequence[Task]:
        return [self.task(name) for name in GRAPHS]

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.name, id=task_id, goal="do everything")

    def open(self, task: Task) -> "JobWorld":
        self.worlds.append(JobWorld(concurrent=self.concurrent))
        return self.worlds[-1]


class SerialJobs(Jobs):
    """The same of a simulator, which only one can use at a time."""

    name = "serial_jobs"
    concurrent = False


class JobWorld(Environment):
    """The live world: it answers what was done, and has ended once somebody delivered."""

    def __init__(self, *, concurrent: bool) -> None:
        self.concurrent = concurrent
        self.actions = list[str]()

    def reset(self) -> Observation:
        self.actions.clear()
        return Observation(text="nothing is done")

    def step(self, action: Action) -> Observation:
        self.actions.append(action.text)
        done = action.text == DELIVER
        return Observation(text=f"done: {action.text}", done=done, solved=done)

    def score(self) -> Scores:
        return Scores(value=float(self.actions[-1:] == [DELIVER]), parts={"steps": len(self.actions)})


def respond(prompt: str, schema: dict[str, Any]) -> Any:
    """The answer of whichever operator asks."""
    situation, fields = current_situation(), frozenset(schema.get("properties", ()))
    assert situation
    state = situation.state
    if "nodes" in fields:
        needs = GRAPHS[state["task"].id]
        return {"nodes": [{"id": id_, "task": f"do {id_}", "needs": list(before)} for id_, before in needs.items()]}
    if "add" in fields:
        return {"reason": "as planned", "change": [], "add": [], "remove": []}
    if "steps" in fields:
        return {"steps": ["begin it", "end it"]}
    taken, name = len(state["turns"]), subtask_of(state["task"])
    if "action" in fields:
        last = state["last"] and taken == ACTIONS - 1
        return {"thought": "on with it", "action": DELIVER if last else f"{name} {taken + 1}"}
    status = "completed" if taken == ACTIONS else "needs_more_steps"
    return {"reason": "seen", "status": status, "off_plan": False, "guidance": "go on", "result": f"{name} is done"}


def subtask_of(task: Task) -> str:
    """The id of the sub-task whose specification is the task's goal; empty for the whole task."""
    first = task.goal.splitlines()[0]
    return first.removeprefix("do ") if first != "do everything" else ""


Pause = Callable[[str], float]
"""Seconds that a model takes to answer for a sub-task, by its id."""


class SlowModel(ScriptedChat):
    """Answers like `respond`, after a while; `asked` are the node and the sub-task of every call."""

    pause: Pause = lambda subtask: 0.0
    requests: list[tuple[str, str]] = []  # noqa: RUF012 - a pydantic field, which is copied

    def __init__(self, pause: Pause = lambda subtask: 0.0, responder: Any = respond) -> None:
        super().__init__(responder=responder, pause=pause)  # type: ignore[call-arg]

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        situation = current_situation()
        assert situation
        subtask = subtask_of(situation.state["task"])
        self.requests.append((situation.node, subtask))
        await asyncio.sleep(self.pause(subtask))
        return self._generate(messages, **kwargs)
