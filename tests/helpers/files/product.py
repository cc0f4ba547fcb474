"""The files of the product, for tests that read its source."""

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]

LINKED = ("state", "adapters", "nodes", "graphs", "middleware", "benchmarks")
"""Folders at the top that src/certigraph links to."""

REAL = ("runtime", "evaluation", "studies", "cli")
"""Folders of src/certigraph."""


def folder_of(name: str) -> Path:
    """The folder that holds a part of the product, not a link to it."""
    return ROOT / name if name in LINKED else ROOT / "src" / "certigraph" / name


@cache
def product_files(*names: str) -> tuple[Path, ...]:
    """The Python files of some parts of the product; without names of all."""
    return tuple(sorted(file for name in names or LINKED + REAL for file in folder_of(name).rglob("*.py")))


def product_path(file: Path) -> str:
    """The path of a file as imports order it: `runtime/run.py`, `adapters/files.py`."""
    return file.relative_to(ROOT).as_posix().removeprefix("src/certigraph/")
