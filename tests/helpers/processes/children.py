"""The environment of Python processes that tests start, and processes that run a piece of code."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def child_path(*first: Path) -> str:
    """PYTHONPATH of a child process: the given folders, the product, and the helpers of the tests."""
    return os.pathsep.join(map(str, (*first, TESTS.parent / "src", TESTS)))


def child_environment(*first: Path, **changes: str) -> dict[str, str]:
    """The environment of a child process: that of this one with `child_path` and the changes."""
    return {**os.environ, "PYTHONPATH": child_path(*first), **changes}


def run_code(code: str) -> "subprocess.CompletedProcess[bytes]":
    """Run code in a process that finds modules where this one does, and return its status and its output."""
    path = [entry for entry in sys.path if entry]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"]
    return subprocess.run(command, capture_output=True, check=False)
