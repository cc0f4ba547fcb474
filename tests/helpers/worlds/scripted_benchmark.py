"""A scripted benchmark: its world counts steps, and its validator's verdicts are written down step by step.

Everything follows from the number of world steps, so that replays and resumed runs repeat it exactly.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits, Operator
from certigraph.graphs import sdp
from certigraph.state.records import Action, Observation, Predicate, Scores, Task, Verdict
from certigraph.state.trajectory import TrajectoryLine


class Script(Benchmark):
    """A benchmark of one task.

    Args:
        plan: how many predicates Propose commits to.
        verdicts: a cascade depth, or a whole verdict, for each world step; 1 for every step after them.
        replans: whether Replan has a new tail; without one it gives up.
        done_at: the world step at which the world ends.
        fails: what to raise in `open`, `reset`, `step`, `view`, `score` or `close` of the world.
        echo: what the world answers besides the number of the step.
        pause: seconds that a world step takes.
        score: what the scorer gives, 0 to 1.
    """

    name = "script"
    replans_undone = True

    def __init__(
        self,
        *,
        plan: int = 4,
        verdicts: Sequence[int | Verdict] = (),
        replans: bool = True,
        done_at: int | None = None,
        fails: Mapping[str, Exception] | None = None,
        echo: str = "",
        pause: float = 0.0,
        limits: Limits | None = None,
        score: float = 1.0,
    ) -> None:
        self.plan, self.verdicts, self.replans, self.done_at = plan, verdicts, replans, done_at
        self.fails, self.echo, self.pause = fails or {}, echo, pause
        self.limits = limits or Limits(attempts=3, replans=2, steps=60)
        self.score = score
        self.worlds: list[World] = []

    def tasks(self, split: str = "") -> list[Task]:
        return [self.task("only")]

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.name, id=task_id, goal=f"reach p{self.plan}")

    def open(self, task: Task) -> "World":
        self.fail("open")
        self.worlds.append(World(self))
        return self.worlds[-1]

    def operators(self) -> dict[str, Operator]:
        return {"propose": self._propose, "realize": self._realize, "validate": self._validate, "replan": self._replan}

    def fail(self, method: str) -> None:
        if method in self.fails:
            raise self.fails[method]

    async def _propose(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"plan": predicates("p", self.plan)}

    async def _realize(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"action": Action(text=f"{state['target'].text} try {len(state['attempts']) + 1}")}

    async def _validate(self, state: Any, runtime: Any) -> dict[str, Any]:
        step = state["observation"].data.get("step")
        if step is None:  # the episode is over
            return {"verdict": Verdict(depth=0)}
        verdict = self.verdicts[step - 1] if step <= len(self.verdicts) else 1
        return {
            "verdict": Verdict(depth=min(verdict, len(state["tail"])), reason="scripted")
            if isinstance(verdict, int)
            else verdict
        }

    async def _replan(self, state: Any, runtime: Any) -> dict[str, Any]:
        left = len(state["plan"]) - state["head"]
        return {"plan": predicates(f"r{state['replans'] + 1}-", left) if self.replans else []}


class SlowScript(Script):
    """A script of thirty steps with retries, a cascade and a replan, made as benchmarks are made by name."""

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        super().__init__(plan=24, verdicts=[1, 0, 2, 1, 0, 0, 0, 1, 1, 0, 3], pause=0.02)


class World(Environment):
    """The live world of a Script."""

    def __init__(self, script: Script) -> None:
        self.script, self.actions, self.closed = script, list[str](), False

    def reset(self) -> Observation:
        self.script.fail("reset")
        return Observation(text="start", data={"step": 0})

    def step(self, action: Action) -> Observation:
        self.script.fail("step")
        time.sleep(self.script.pause)
        self.actions.append(action.text)
        number = len(self.actions)
        text = f"step {number} {self.script.echo}"
        return Observation(text=text, data={"step": number}, done=number == self.script.done_at)

    def view(self) -> str:
        self.script.fail("view")
        return f"step {len(self.actions)} {self.script.echo}"

    def score(self) -> Scores:
        self.script.fail("score")
        return Scores(value=self.script.score)

    def close(self) -> None:
        self.closed = True
        self.script.fail("close")


class GarbageModel(ScriptedChat):
    """A model that answers every question with the same unusable text."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        return self.saying("no idea")

    def saying(self, text: str) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def predicates(prefix: str, count: int) -> list[Predicate]:
    return [Predicate(text=f"{prefix}{n}") for n in range(1, count + 1)]


def script_input(script: Script) -> dict[str, Any]:
    return {"task": script.task("only")}


def run_script(script: Script, **operators: Operator) -> dict[str, Any]:
    """The final state of one run of SDP on the script."""
    return sdp.build(**operators).invoke(script_input(script), context=Context(benchmark=script))


def after_events(count: int, act: Callable[[], None]) -> Callable[[TrajectoryLine], None]:
    """A listener that acts when `count` events are written."""
    left = [act, *[lambda: None] * (count - 1)]

    def listener(line: TrajectoryLine) -> None:
        if line.type == "event" and left:
            left.pop()()

    return listener
