"""ScienceWorld's simulator in a JVM."""

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
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from certigraph.adapters.processes import child_environment, raise_if_cancelled
from certigraph.state.records import Fault

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway


# What an episode needs of ScienceWorld's simulator: the JVM (`java`) has it, and a recording of it (`twin`).

VERSION = "1.2.3"
"""The simulator's release. Texts and scores of others differ."""


class Simulator(Protocol):
    """One running simulator. Its methods block, want one thread at a time, and raise Fault("environment")."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        ...

    def load(self, task: str, variation: int, simplification: str) -> str:
        """Start an episode; the first look around."""
        ...

    def step(self, text: str) -> str:
        """The reply to one line of input."""
        ...

    def score(self) -> int:
        """0 to 100; -100 after a fatal mistake."""
        ...

    def moves(self) -> int:
        """Simulated moves so far: looking costs none, `wait` eleven."""
        ...

    def look(self) -> str:
        """The room, at no cost."""
        ...

    def inventory(self) -> str:
        """What the agent carries, at no cost."""
        ...

    def valid(self) -> list[str]:
        """Every action that can be meant now, hundreds to thousands; 0.1 to 0.5 s."""
        ...

    def description(self) -> str:
        """The task in words."""
        ...

    def close(self) -> None:
        """End it."""
        ...


# Starts the JVM in which ScienceWorld's simulator runs, deterministic and small, and opens py4j's way into it.
#
# It is not left to the package's `ScienceWorldEnv`, which takes no JVM options and lets py4j repeat a step whose
# answer got lost; nor to py4j's `launch_gateway`, which hands on every environment variable and leaves a JVM behind
# whose start is interrupted.

JVM_FLAGS = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-Xmx512m", "-XX:+UseSerialGC")
"""hashCode=2 makes the simulator deterministic: its sets iterate in the order of identity hashes."""

SERVER = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
"""py4j's server, on a free port of 127.0.0.1; it prints the port and a token, and ends when its input is closed."""

STARTS_WITHIN = 120.0
"""Seconds after which a JVM that has not named its port is given up; about one is usual, twenty on a loaded machine."""


def launch() -> tuple["subprocess.Popen[bytes]", "JavaGateway"]:
    """The JVM's process and the way into it. Its output goes nowhere, and Ctrl-C in the terminal does not reach it.

    Raises:
        Fault: ("environment") the package or Java is missing; says how to install it.
        CancelledError: the caller was cancelled during the start; the process is ended.
    """
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path
        from scienceworld.constants import JAR_PATH
    except ImportError as error:
        fix = "pip install 'certigraph[scienceworld]'"
        raise Fault("environment", f"ScienceWorld needs the package {error.name}: {fix}") from error
    try:
        process, port, token = _started([*JVM_FLAGS, "-classpath", os.pathsep.join((find_jar_path(), JAR_PATH))])
    except (OSError, ValueError) as error:
        raise _without_java(str(error)) from error
    # Memory management would call the JVM from Python's garbage collector, at any moment and in any thread.
    parameters = GatewayParameters(port=port, auth_token=token, enable_memory_management=False)
    gateway = JavaGateway(gateway_parameters=parameters, java_process=process)
    gateway.set_gateway_client(_once(parameters))
    return process, gateway


def find_java() -> None:
    """Make sure, without starting it, that there is a Java. Raises Fault("environment"): says how to install it."""
    if shutil.which(_java()) is None:
        raise _without_java(f"there is no {_java()}")


def _without_java(reason: str) -> Fault:
    fix = _INSTALL.get(sys.platform, "install it from https://adoptium.net")
    needed = "ScienceWorld needs Java 17 or newer, `java` on the PATH or under JAVA_HOME"
    return Fault("environment", f"{needed} ({reason}): {fix}")


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process, wait until it is gone, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in filter(None, (process.stdin, process.stdout)):
        with suppress(OSError):  # what was not written yet cannot be written now
            pipe.close()


_INSTALL = {
    "linux": "apt install openjdk-17-jre-headless (Debian, Ubuntu), or your system's package of Java 17",
    "darwin": "brew install openjdk@17",
}


def _started(options: Sequence[str]) -> tuple["subprocess.Popen[bytes]", int, str]:
    """A JVM that answers, the port that it listens on and the token that it wants."""
    process = subprocess.Popen(
        [_java(), *options, *SERVER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=child_environment(),
        cwd=tempfile.gettempdir(),  # the simulator leaves a table of its object types where it starts
        process_group=0,
    )  # fmt: skip
    lines: list[bytes] = []
    ready = threading.Event()
    try:
        threading.Thread(target=_read, args=(process.stdout, lines, ready), daemon=True).start()
        began = time.monotonic()
        while not ready.wait(0.05):
            raise_if_cancelled()
            if time.monotonic() - began > STARTS_WITHIN:
                raise Fault(
                    "environment",
                    f"a JVM of ScienceWorld did not start within {STARTS_WITHIN:g} s: is this machine overloaded? "
                    "Run fewer at once: export CERTIGRAPH_SIMULATORS=1",
                )
        if not all(lines):
            raise ValueError(f"it ended with exit status {process.wait()}")
        return process, int(lines[0]), lines[1].decode().strip()
    except BaseException:
        end_process(process)
        raise


def _read(output: Any, lines: list[bytes], ready: threading.Event) -> None:
    """Read the lines with port and token, then discard what follows, so that the JVM never waits for a reader."""
    try:
        lines += [output.readline(), output.readline()]
        ready.set()
        while output.read(65_536):
            pass
    except (OSError, ValueError):  # closed with its process
        ready.set()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _once(parameters: Any) -> Any:
    """A client that sends every command once.

    py4j's own repeats a command whose answer got lost, which would act twice, and prints failures on the terminal.
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


# ScienceWorld's simulator (PyPI scienceworld 1.2.3) in a JVM of its own.
#
# Its interface is called directly: the package's own `ScienceWorldEnv` lists all valid actions at every step.


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
