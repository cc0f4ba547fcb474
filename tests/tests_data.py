"""Where the benchmarks' real data is, for tests that need it."""

import os
from pathlib import Path

import pytest


def data_folder(benchmark: str) -> Path:
    """The benchmark's folder under CERTIGRAPH_DATA; the test is skipped with the reason where there is none."""
    root = os.environ.get("CERTIGRAPH_DATA")
    folder = Path(root or ".") / benchmark
    if not root or not folder.is_dir():
        pytest.skip(f"needs {benchmark}/ under CERTIGRAPH_DATA, which is {root or 'not set'}")
    return folder
