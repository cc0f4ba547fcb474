"""A world that answers by what it is asked, to be stepped in copies or by one at a time."""

from collections.abc import Mapping
from typing import Any

from certigraph.adapters.protocols import Benchmark, Environment, Limits
from certigraph.state.records import Action, Observation, Scores, Task

WHOLE = "WHOLE-canary"
"""The whole task: no sub-task's business but that of the goal."""


class Records(Benchmark):
    """A benchmark of one task, whose world knows some facts."""

    name = "records"
    instant = True

    def __init__(self, facts: Mapping[str, str], *, concurrent: bool = True, **limits: Any) -> None:
        self.facts, self.concurrent = facts, concurrent
        self.limits = Limits(**{"steps": 60, **limits})

    def task(self, task_id: str = "only") -> Task:
        return Task(benchmark=self.name, id=task_id, goal=WHOLE)

    def tasks(self, split: str = "") -> list[Task]:
        return [self.task()]

    def open(self, task: Task) -> "RecordsWorld":
        return RecordsWorld(self)


class RecordsWorld(Environment):
    """The live world of Records. A copy shows what was read in it; a world that all share shows nothing."""

    def __init__(self, records: Records) -> None:
        self.records, self.concurrent = records, records.concurrent
        self.read = list[str]()

    def reset(self) -> Observation:
        self.read.clear()
        return Observation(text="Nothing is read.")

    def step(self, action: Action) -> Observation:
        fact = self.records.facts.get(action.text)
        if fact is None:
            return Observation(text=f"Nothing is known as {action.text!r}.", accepted=False)
        self.read.append(fact)
        return Observation(text=fact)

    def view(self) -> str:
        return "\n".join(self.read) if self.concurrent else "A desk."

    def score(self) -> Scores:
        return Scores(value=float(bool(self.read)))
