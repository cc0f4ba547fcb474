"""A world of a user's own: a counter that is to reach the number of its task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from certigraph.adapters.protocols import Limits
from certigraph.state.records import Action, Observation, Scores, Task


class Counter:
    """One episode: `add` counts up, `stop` ends it."""

    concurrent = False

    def __init__(self, goal: int) -> None:
        self.goal, self.count, self.done = goal, 0, False

    def reset(self) -> Observation:
        return Observation(text="count 0")

    def step(self, action: Action) -> Observation:
        self.count += action.text == "add"
        self.done = action.text == "stop" or self.count >= self.goal
        return Observation(text=f"count {self.count}", done=self.done, solved=self.count >= self.goal)

    def view(self) -> str:
        return f"count {self.count} of {self.goal}"

    def admissible(self) -> list[str] | None:
        return [] if self.done else ["add", "stop"]

    def score(self) -> Scores:
        return Scores(value=min(self.count / self.goal, 1.0))

    def close(self) -> None:
        pass


class Counting:
    """The benchmark. Its tasks name it otherwise than its users do."""

    name = "counting"
    briefing = "A counter that `add` raises by one."
    configurations: Sequence[str] = ("", "tall")
    limits = Limits(steps=6, attempts=2, replans=1)

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        self.data, self.config = data, config

    def tasks(self, split: str = "") -> Sequence[Task]:
        return [self.task(number) for number in (("5",) if self.config == "tall" else ("1", "2", "3"))]

    def task(self, task_id: str) -> Task:
        return Task(benchmark="counting", id=task_id, goal=f"count to {task_id}")

    def open(self, task: Task) -> Counter:
        return Counter(int(task.id))

    def operators(self) -> Mapping[str, Any]:
        return {}

    def expert(self) -> None:
        return None

    def figures(self, runs: Sequence[tuple[str, Any]]) -> dict[str, float]:
        values = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
        return {"n": len(values), "solved": sum(value >= 1 for value in values) / len(values)}


def make() -> Counting:
    return Counting()


instance = Counting()
number = 3


class Needy:
    def __init__(self, shelf: str) -> None:
        self.shelf = shelf


class Partial:
    name = "partial"

    def tasks(self, split: str = "") -> Sequence[Task]:
        return []
