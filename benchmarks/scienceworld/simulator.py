"""ScienceWorld's simulator in a JVM: starting Java, and the simulator itself.

The JVM is started by this module. The package's `ScienceWorldEnv` takes no JVM options and lets py4j repeat a step
whose answer was lost; py4j's `launch_gateway` passes every environment variable on and leaves a JVM running if its
start is interrupted.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certigraph.adapters.processes import child_environment, raise_if_cancelled
from certigraph.adapters.protocols import StateCheck
from certigraph.benchmarks.scienceworld.objects import WorldState, read_world
from certigraph.state.endings import Fault

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway


VERSION = "1.2.3"
"""Release of the simulator. Texts and scores of other releases differ."""

# Starting the JVM, deterministic and small, and connecting to it by py4j.

JVM_FLAGS = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-Xmx512m", "-XX:+UseSerialGC")
"""JVM options. hashCode=2 makes the simulator deterministic: its sets iterate in the order of identity hashes."""

SERVER = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
"""py4j's server on a free port of 127.0.0.1; it prints the port and a token, and ends when its input is closed."""

START_TIMEOUT = 120.0
"""Seconds to wait for the JVM to print its port; usually about 1, on a loaded machine 20."""


def launch_jvm() -> tuple["subprocess.Popen[bytes]", "JavaGateway"]:
    """Start the JVM; returns its process and gateway. Its output is discarded, and Ctrl-C does not reach it.

    Raises:
        Fault: ("environment") the package or Java is missing; the message says how to install it.
        CancelledError: the caller was cancelled during the start; the process is ended.
    """
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
        from scienceworld.constants import JAR_PATH
    except ImportError as error:
        fix = "pip install 'certigraph[scienceworld]'"
        raise Fault("environment", f"ScienceWorld needs the package {error.name}: {fix}") from error
    try:
        process, port, token = _start_jvm([*JVM_FLAGS, "-classpath", os.pathsep.join((find_jar_path(), JAR_PATH))])
    except (OSError, ValueError) as error:
        raise _missing_java_fault(str(error)) from error
    # Memory management would call the JVM from Python's garbage collector, at any moment and in any thread.
    parameters = GatewayParameters(port=port, auth_token=token, enable_memory_management=False)
    gateway = JavaGateway(gateway_parameters=parameters, java_process=process)
    gateway.set_gateway_client(_create_client(parameters))
    return process, gateway


def check_java() -> None:
    """Check that Java is installed, without starting it.

    Raises:
        Fault: ("environment") Java is missing; the message says how to install it.
    """
    if shutil.which(_java_command()) is None:
        raise _missing_java_fault(f"there is no {_java_command()}")


def _missing_java_fault(reason: str) -> Fault:
    fix = _INSTALL.get(sys.platform, "install it from https://adoptium.net")
    needed = "ScienceWorld needs Java 17 or newer, `java` on the PATH or under JAVA_HOME"
    return Fault("environment", f"{needed} ({reason}): {fix}")


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process, wait for its end, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in filter(None, (process.stdin, process.stdout)):
        with suppress(OSError):  # closing flushes, and the reader is gone
            pipe.close()


_INSTALL = {
    "linux": "apt install openjdk-17-jre-headless (Debian, Ubuntu), or your system's package of Java 17",
    "darwin": "brew install openjdk@17",
}


def _start_jvm(options: Sequence[str]) -> tuple["subprocess.Popen[bytes]", int, str]:
    # Returns the process, the port that it listens on, and the authentication token.
    process = subprocess.Popen(
        [_java_command(), *options, *SERVER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=child_environment(),
        cwd=tempfile.gettempdir(),  # the simulator writes a table of its object types into its working directory
        process_group=0,
    )  # fmt: skip
    lines: list[bytes] = []
    ready = threading.Event()
    try:
        threading.Thread(target=_read_output, args=(process.stdout, lines, ready), daemon=True).start()
        started = time.monotonic()
        while not ready.wait(0.05):
            raise_if_cancelled()
            if time.monotonic() - started > START_TIMEOUT:
                raise Fault(
                    "environment",
                    f"a JVM of ScienceWorld did not start within {START_TIMEOUT:g} s; this machine may be overloaded. "
                    "Run fewer simulators at once: export CERTIGRAPH_SIMULATORS=1",
                )
        if len(lines) < 2 or not all(lines):  # no line at all where reading failed at once
            raise ValueError(f"it ended with exit status {process.wait()}")
        return process, int(lines[0]), lines[1].decode().strip()
    except BaseException:
        end_process(process)
        raise


def _read_output(output: Any, lines: list[bytes], ready: threading.Event) -> None:
    # Reads the lines with port and token and discards the rest, so that the JVM never blocks on a full pipe.
    try:
        lines += [output.readline(), output.readline()]
        ready.set()
        while output.read(65_536):
            pass
    except (OSError, ValueError):  # closed with its process
        ready.set()


def _java_command() -> str:
    java_home = os.environ.get("JAVA_HOME")
    return str(Path(java_home, "bin", "java")) if java_home else "java"


def _create_client(parameters: Any) -> Any:
    """Create a client that sends every command once.

    py4j's client repeats a command whose answer was lost, which would act twice, and prints failures on the terminal.
    """
    from py4j.java_gateway import GatewayClient
    from py4j.protocol import Py4JNetworkError

    class Once(GatewayClient):  # type: ignore[misc]
        def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
            connection = self._get_connection()
            try:
                answer = connection.send_command(command)
            except Py4JNetworkError:
                connection.close()
                raise
            self._give_back_connection(connection)
            return answer

    return Once(gateway_parameters=parameters)


# The simulator (PyPI scienceworld 1.2.3) in a separate JVM. Its Java interface is called directly, because the
# package's `ScienceWorldEnv` lists all valid actions at every step.


class JavaSimulator:
    """Simulator in a JVM, which starts in about a second. Its methods block; one thread at a time may call them.

    They fail with a `Fault`.

    Raises:
        Fault: ("environment") the package or Java is missing; the message says how to install it.
    """

    def __init__(self) -> None:
        self.process, self._gateway = launch_jvm()
        self._broken = False
        self._state: WorldState | None = None
        try:
            self._server = self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether the simulator can still be used."""
        return not self._broken and self.process.poll() is None

    def load(self, task: str, variation: int, simplification: str, *, gold: bool = False) -> str:
        """Start an episode; with `gold` the simulator also computes the gold path, which takes up to two minutes."""
        if problem := self._call(self._server.load, task, variation, simplification, gold):
            raise Fault("environment", f"ScienceWorld cannot load {task}:{variation} ({simplification!r}): {problem}")
        # Until the first step, the score is that of the previous episode. Looking costs no move.
        return self.step("look around")

    def step(self, text: str) -> str:
        """Return the reply to one line of input."""
        self._state = None
        return str(self._call(self._server.step, text))

    def score(self) -> int:
        """Return the score, 0 to 100; -100 after a fatal mistake."""
        return round(100 * float(self._call(self._server.getScore)))

    def moves(self) -> int:
        """Return the simulated moves so far: looking costs none, `wait` eleven."""
        return int(self._call(self._server.getNumMoves))

    def look(self) -> str:
        """Describe the room; costs no move."""
        return str(self._call(self._server.freeActionLook))

    def inventory(self) -> str:
        """Describe what the agent carries; costs no move."""
        return str(self._call(self._server.freeActionInventory))

    def valid_actions(self) -> list[str]:
        """List every valid action, hundreds to thousands; takes 0.1 to 0.5 s."""
        return self._texts(self._server.getValidActionObjectCombinations)

    def description(self) -> str:
        """Return the text of the task."""
        return str(self._call(self._server.getTaskDescription))

    def check_state(self, condition: str, focus: str) -> StateCheck | None:
        """Check a condition in the simulator's own state, which agents never see; None if it does not decide it.

        Args:
            condition: the condition.
            focus: name of the thing in focus, which the state does not hold.
        """
        if self._state is None:  # reading the tree takes about 0.03 s
            self._state = self.read_state(focus)
        return self._state.check(condition)

    def gold_actions(self) -> list[str]:
        """Return the actions of the gold path (the simulator's own solution), after `load(..., gold=True)`."""
        return self._texts(self._server.getGoldActionSequence)

    def progress(self) -> str:
        """Return the table of the task's subgoals with their status; for recordings only, agents must not see it."""
        return str(self._call(self._server.getGoalProgressStr))

    def read_state(self, focus: str) -> WorldState:
        """Read the state of the world; `focus` is the name of the thing in focus. Agents must not see it."""
        return read_world(self.object_tree(), focus, self.moves())

    def object_tree(self) -> dict[str, Any]:
        """Return everything in the world as a tree of objects; agents must not see it."""
        with tempfile.TemporaryDirectory() as folder:
            if problem := self._call(self._server.getObjectTree, folder):
                raise Fault("environment", f"ScienceWorld has no object tree: {problem}; load a task first")
            tree: dict[str, Any] = json.loads(Path(folder, "objectTree.json").read_text(encoding="utf-8"))
            return tree

    def close(self) -> None:
        """End the simulator."""
        self._broken = True
        self._gateway.close(keep_callback_server=True)
        end_process(self.process)

    def _texts(self, method: Callable[[], Any]) -> list[str]:
        # The list is joined in Java, because py4j would fetch its items one by one.
        items = self._call(method)
        joined = str(self._call(self._gateway.jvm.java.lang.String.join, "\n", items))
        self._call(self._gateway.detach, items)
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
                f"ScienceWorld's Java process {self.process.pid} failed ({str(error)[:200]}). All logged steps "
                "are saved and will be replayed in a new process: resume the run: certigraph resume RUN",
            ) from error
