"""Where the benchmarks' real data is, for tests that need it."""

import os
from pathlib import Path

import pytest

ROOT = os.environ.get("CERTIGRAPH_DATA")


def data_folder(benchmark: str) -> Path:
    """The benchmark's folder under CERTIGRAPH_DATA; the test is skipped with the reason where there is none."""
    folder = Path(ROOT or ".").resolve() / benchmark
    if not ROOT or not folder.is_dir():
        pytest.skip(f"needs {benchmark}/ under CERTIGRAPH_DATA, which is {ROOT or 'not set'}")
    return folder
