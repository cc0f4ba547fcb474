"""A ladder to climb, one predicate a rung: a world that costs next to nothing, to measure what surrounds a world."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Limits, Operator
from certigraph.state.records import Action, Observation, Predicate, Scores, Task, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, ValidateView


def order(rung: int) -> str:
    """The action that reaches a rung from the one below."""
    return f"climb to rung {rung}"


def climbed(height: int, text: str) -> int:
    """The height after an action; what is not the next rung changes nothing."""
    return height + 1 if text == order(height + 1) else height


def view(height: int) -> str:
    """What one sees at a height."""
    return f"You stand on rung {height}."


class LadderWorld:
    """One climb. `seconds` is the wall-clock spent inside its methods."""

    concurrent = False

    def __init__(self, rungs: int) -> None:
        self.rungs, self.height, self.seconds = rungs, 0, 0.0

    def reset(self) -> Observation:
        """Back to the ground."""
        with self._timed():
            self.height = 0
            return Observation(text=view(0))

    def step(self, action: Action) -> Observation:
        """Climb one rung."""
        with self._timed():
            self.height = climbed(self.height, action.text)
            return Observation(text=view(self.height), done=self.height == self.rungs)

    def view(self) -> str:
        """Where the climber is."""
        return view(self.height)

    def admissible(self) -> list[str] | None:
        """None: there is nothing to choose."""
        return None

    def score(self) -> Scores:
        """The fraction climbed."""
        return Scores(value=self.height / self.rungs)

    def close(self) -> None:
        """Nothing to release."""

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = perf_counter()
        yield
        self.seconds += perf_counter() - began


class Ladder:
    """One task: a ladder of `rungs` rungs, climbed without a model."""

    name = "ladder"

    def __init__(self, rungs: int) -> None:
        self.rungs = rungs
        self.limits = Limits(steps=rungs)
        self._operators: Mapping[str, Operator] = {"propose": self._propose, "realize": _realize, "validate": _validate}

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The one task."""
        return [self.task(str(self.rungs))]

    def task(self, task_id: str) -> Task:
        """The one task, by its number of rungs."""
        if task_id != str(self.rungs):
            raise KeyError(f"this ladder has no task {task_id!r}; its only one is {str(self.rungs)!r}")
        return Task(benchmark=self.name, id=task_id, goal=view(self.rungs))

    def open(self, task: Task) -> LadderWorld:
        """A climber on the ground."""
        return LadderWorld(self.rungs)

    def operators(self) -> Mapping[str, Operator]:
        """Propose, Realize and Validate; nothing here ever needs Replan."""
        return self._operators

    def expert(self) -> None:
        """None: no question is ever asked."""

    async def _propose(self, state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        rungs = range(1, self.rungs + 1)
        return {"plan": [Predicate(text=view(rung), args={"rung": rung}) for rung in rungs]}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    rung = state["target"].args["rung"]
    return {"action": Action(text=order(int(str(rung))))}


async def _validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    held = state["observation"].text == state["tail"][0].text
    return {"verdict": Verdict(depth=int(held))}
