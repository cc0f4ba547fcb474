"""Python processes that begin with the product imported: a test that kills many waits for their runs, not for imports.

What `python -c CODE ARGUMENTS` would do, in a process forked from one that has imported what runs need and has run
nothing. It has a process id, a status and an error output of its own, and is killed like any other. For tests of what
happens at the start of a process (imports, `python -m`, entry points) start a real one instead.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

GRAPHS = ("sdp", "react", "step", "tdp", "clin", "hypotheses", "pbai", "ircot", "memgpt", "iter_retgen", "mcts")
IMPORTED = (
    "pytest",  # the first module of a process that pytest starts
    *(f"certigraph.graphs.{name}" for name in (*GRAPHS, "react_reward")),
    "certigraph.adapters.models.chat_models",
    "certigraph.runtime.run",
    "certigraph.runtime.result",
    "langgraph.checkpoint.sqlite.aio",
    "langgraph.pregel.main",
    "langchain_core.language_models.chat_models",
)
"""Modules that are imported before the first process is forked."""

FORK = get_context("forkserver")
FORK.set_forkserver_preload(list(IMPORTED))


class PreparedProcess:
    """A process that runs some code, as `python -c` would.

    Args:
        code: what it runs.
        arguments: `sys.argv` behind the first.
        env: its environment; the folders of PYTHONPATH come first on its path.
    """

    def __init__(self, code: str, *arguments: object, env: Mapping[str, str]) -> None:
        handle, name = tempfile.mkstemp(prefix="errors-")
        os.close(handle)
        self._errors = Path(name)
        self._process: Any = FORK.Process(target=_execute, args=(code, [*map(str, arguments)], dict(env), name))
        self._process.start()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def finish(self, timeout: float = 60) -> tuple[int, str]:
        """Its status, as `subprocess` gives it, and its error output, once it has ended."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            self._process.join()
            raise AssertionError(f"a process had not ended after {timeout} seconds: {self._errors.read_text()}")
        errors = self._errors.read_text()
        self._errors.unlink()
        return self._process.exitcode, errors


def _execute(code: str, arguments: list[str], env: dict[str, str], errors: str) -> None:
    with open(errors, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor is what is wanted
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.argv = ["-c", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
