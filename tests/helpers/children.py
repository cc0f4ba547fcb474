"""The environment of Python processes that tests start."""

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]


def child_path(*first: Path) -> str:
    """PYTHONPATH of a child process: the given folders, the product, and the helpers of the tests."""
    return os.pathsep.join(map(str, (*first, TESTS.parent / "src", TESTS / "helpers")))


def child_environment(*first: Path, **changes: str) -> dict[str, str]:
    """The environment of a child process: that of this one with `child_path` and the changes."""
    return {**os.environ, "PYTHONPATH": child_path(*first), **changes}
