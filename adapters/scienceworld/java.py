"""ScienceWorld's simulator (PyPI scienceworld 1.2.3) in a JVM of its own.

Its interface is called directly: the package's own `ScienceWorldEnv` lists all valid actions at every step.
"""

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from certigraph.adapters.scienceworld.jvm import end_process, launch
from certigraph.adapters.scienceworld.simulator import Simulator
from certigraph.state.endings import Fault


class JavaSimulator(Simulator):
    """One JVM; it starts in about a second.

    Raises:
        Fault: ("environment") when the package or Java is missing; says how to install them.
    """

    def __init__(self) -> None:
        self.process, self._gateway = launch()
        self._broken = False
        try:
            self._server = self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        except BaseException:
            self.close()
            raise

    @property
    @override
    def alive(self) -> bool:
        return not self._broken and self.process.poll() is None

    @override
    def load(self, task: str, variation: int, simplification: str, *, gold: bool = False) -> str:
        """With `gold` the simulator also makes the gold path, which takes up to two minutes."""
        if problem := self._call(self._server.load, task, variation, simplification, gold):
            raise Fault("environment", f"ScienceWorld cannot load {task}:{variation} ({simplification!r}): {problem}")
        # The score is the previous episode's until the first step, and looking costs no move.
        return self.step("look around")

    @override
    def step(self, text: str) -> str:
        return str(self._call(self._server.step, text))

    @override
    def score(self) -> int:
        return round(100 * float(self._call(self._server.getScore)))

    @override
    def moves(self) -> int:
        return int(self._call(self._server.getNumMoves))

    @override
    def look(self) -> str:
        return str(self._call(self._server.freeActionLook))

    @override
    def inventory(self) -> str:
        return str(self._call(self._server.freeActionInventory))

    @override
    def valid(self) -> list[str]:
        return self._texts(self._server.getValidActionObjectCombinations)

    @override
    def description(self) -> str:
        return str(self._call(self._server.getTaskDescription))

    def gold_actions(self) -> list[str]:
        """The gold path, after `load(..., gold=True)`."""
        return self._texts(self._server.getGoldActionSequence)

    def progress(self) -> str:
        """The table of the task's subgoals, done and not: for recordings, no agent may see it."""
        return str(self._call(self._server.getGoalProgressStr))

    @override
    def close(self) -> None:
        self._broken = True
        self._gateway.close(keep_callback_server=True)
        end_process(self.process)

    def _texts(self, method: Callable[[], Any]) -> list[str]:
        """A Java list, joined there: py4j would fetch it one item at a time."""
        found = self._call(method)
        joined = str(self._call(self._gateway.jvm.java.lang.String.join, "\n", found))
        self._call(self._gateway.detach, found)
        return joined.split("\n") if joined else []

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        from py4j.protocol import Py4JError

        try:
            if self.process.poll() is not None:
                raise Py4JError(f"exit status {self.process.returncode}")
            return method(*args)
        except Py4JError as error:
            self._broken = True
            raise Fault(
                "environment",
                f"ScienceWorld's Java process {self.process.pid} failed ({str(error)[:200]}); nothing that was logged "
                "is lost, a fresh one replays it: resume the run: certigraph resume RUN",
            ) from error
