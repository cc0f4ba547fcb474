"""Any world, failing at known rates.

A world crashes or hangs; it never lies. What a step was answered is logged, and whoever opens the world again must get
the same answers. For the same reason the steps of a log that is repeated are spared: they have happened.
"""

import time
from collections import Counter
from typing import Any

from certigraph.adapters.faults.rates import WORLD, Faults
from certigraph.adapters.protocols import Benchmark, Environment
from certigraph.state.records import Action, Observation, Scores, Task


class CrashError(RuntimeError):
    """A world that went down, on purpose."""


class FaultyEnvironment:
    """An environment whose steps fail; everything else is that of `environment`.

    Args:
        environment: the world; a step that fails does not reach it.
        faults: the rates, or the text that names them.
        task: whose world it is, so that tasks fail at different steps.
        trial: which repetition of the task this is.
        spared: how many steps, the first ones, repeat what is logged.
    """

    def __init__(
        self, environment: Environment, faults: Faults | str, *, task: str = "", trial: int = 0, spared: int = 0
    ) -> None:
        self.environment, self.spared = environment, spared
        self.faults = Faults.read(faults) if isinstance(faults, str) else faults
        self.injected = Counter[str]()
        """How many faults of each kind were injected so far."""
        self._what = (task, trial)
        self._asked = 0

    def step(self, action: Action) -> Observation:
        """The world's answer.

        Raises:
            CrashError: the world went down.
            TimeoutError: the step took too long.
        """
        self._asked += 1
        kind = self.faults.strikes(WORLD, *self._what, self._asked, action.text)
        if kind and self._asked > self.spared:
            self._fail(kind)
        return self.environment.step(action)

    @property
    def concurrent(self) -> bool:
        """Whether the world's steps may be parallel."""
        return self.environment.concurrent

    def reset(self) -> Observation:
        """The world's beginning."""
        return self.environment.reset()

    def view(self) -> str:
        """What the world shows now."""
        return self.environment.view()

    def admissible(self) -> list[str] | None:
        """The actions that the world would accept now."""
        return self.environment.admissible()

    def score(self) -> Scores:
        """The benchmark's verdict."""
        return self.environment.score()

    def close(self) -> None:
        """Close the world."""
        self.environment.close()

    def __getattr__(self, name: str) -> Any:
        """Whatever else the world has, such as `sources`."""
        if name == "environment":  # not there yet: a copy that is being made
            raise AttributeError(name)
        return getattr(self.environment, name)

    def _fail(self, kind: str) -> None:
        self.injected[kind] += 1
        if kind == "crash":
            raise CrashError(f"injected crash at step {self._asked}")
        time.sleep(self.faults.delay)
        raise TimeoutError(f"injected hang at step {self._asked}")


class FaultyBenchmark:
    """A benchmark whose worlds fail, each of a task's differently; everything else is that of `benchmark`.

    A world that is opened again repeats the log without being spared, and may fail on the way. In a new process the
    count of openings begins anew: give it `faults.again()`. A run with `Context(faults=...)` sees to both.
    """

    def __init__(self, benchmark: Benchmark, faults: Faults | str) -> None:
        self.benchmark = benchmark
        self.faults = Faults.read(faults) if isinstance(faults, str) else faults
        self._opened = Counter[str]()

    def open(self, task: Task) -> FaultyEnvironment:
        """A world of the task that fails."""
        drawn = self.faults.again(self._opened[task.id])
        self._opened[task.id] += 1
        return FaultyEnvironment(self.benchmark.open(task), drawn, task=task.id)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the benchmark has."""
        if name == "benchmark":
            raise AttributeError(name)
        return getattr(self.benchmark, name)
