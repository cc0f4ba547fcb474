"""The house: which folder may import which, what importing costs, and where a graph can be read."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
ARROWS = {
    "state": set[str](),
    "adapters": {"state"},
    "nodes": {"adapters", "state"},
    "graphs": {"nodes", "adapters", "state"},
    "evaluation": {"graphs", "nodes", "adapters", "state"},
}
SHARED_ADAPTERS = {"faults", "metrics", "models", "multihop", "research", "retrieval", "searching", "web"}
"""Folders under adapters/ that are no benchmark and may be imported by all of them."""

MODULE = re.compile(r"certigraph(\.\w+)+(:\w+)?")

HEAVY = (
    "torch",
    "inspect_ai",
    "openai",
    "xllamacpp",
    "sentence_transformers",
    "pandas",
    "matplotlib",
    "pyarrow",
    "scipy",
    "statsmodels",
    "py4j",
    "scienceworld",
    "alfworld",
    "textworld",
    "spacy",
    "trafilatura",
    "protego",
    "psycopg",
)


class Import(NamedTuple):
    file: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


@cache
def imports_under(folder: str) -> tuple[Import, ...]:
    return tuple(found for file in sorted((ROOT / folder).rglob("*.py")) for found in imports_in(file))


def imports_in(file: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (Import(file, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            yield from (Import(file, node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
            yield Import(file, node.lineno, node.value)  # imported by name


def target(found: Import) -> tuple[str, ...]:
    """The folders of ours that an import leads to: ("adapters", "models")."""
    top, *rest = found.module.replace(":", ".").split(".")
    return tuple(rest[:2]) if top == "certigraph" and rest else ()


def benchmark_folders() -> list[str]:
    inner = (p.name for p in (ROOT / "adapters").iterdir() if (p / "__init__.py").is_file())
    return sorted(set(inner) - SHARED_ADAPTERS)


@pytest.mark.parametrize("folder", ARROWS)
def test_arrows_point_one_way(folder: str):
    allowed = ARROWS[folder] | {folder}
    wrong = [str(i) for i in imports_under(folder) if target(i) and target(i)[0] not in allowed]
    assert imports_under(folder)
    assert wrong == []


def test_the_arrows_know_every_folder():
    packages = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert packages == set(ARROWS)


def test_no_benchmark_knows_another():
    folders = benchmark_folders()
    assert {"blocksworld", "travelplanner"} <= set(folders)
    for folder in folders:
        others = {("adapters", other) for other in folders if other != folder}
        assert [str(i) for i in imports_under(f"adapters/{folder}") if target(i) in others] == []


@pytest.mark.parametrize("folder", ["state", "adapters/models", "nodes", "graphs"])
def test_operators_and_graphs_know_no_benchmark(folder: str):
    benchmarks = {("adapters", name) for name in benchmark_folders()}
    assert [str(i) for i in imports_under(folder) if target(i) in benchmarks] == []


@pytest.mark.parametrize("folder", [f for f in ARROWS if f != "evaluation"])
def test_nothing_below_evaluation_knows_inspect(folder: str):
    assert [str(i) for i in imports_under(folder) if i.module.split(".")[0] == "inspect_ai"] == []


def test_every_root_package_has_its_link_under_the_import_name():
    for folder in ARROWS:
        link = ROOT / "src" / "certigraph" / folder
        assert link.is_symlink(), f"{link} is missing: ln -s ../../{folder} {link}"
        assert str(link.readlink()) == f"../../{folder}"


def test_the_linter_leaves_the_links_out():
    """A file reached by two ways would be checked, and with --fix changed, twice."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [folder for folder in ARROWS if f'"src/certigraph/{folder}"' not in settings] == []


@pytest.mark.parametrize(
    "code",
    [
        "import certigraph",
        "import certigraph.cli",
        "import certigraph.graphs.sdp",
        "import certigraph.evaluation.run",
        "import certigraph.cli.printed, certigraph.cli.watched, certigraph.evaluation.report.report",
        "from certigraph.adapters.context import Context\n"
        "from certigraph.graphs.sdp import graph\n"
        "context = Context(model='scripted:expert')\n"
        "final = graph.invoke({'task': {'benchmark': 'blocksworld', 'id': '3-0'}}, context=context)\n"
        "assert final['certificates']",
    ],
)
def test_importing_and_a_dry_run_load_nothing_heavy(code: str):
    check = f"{code}\nimport sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    path = {"PYTHONPATH": str(ROOT / "src"), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", check], env=path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr.strip()) == ("[]", "")


def test_a_graph_is_read_at_one_sitting():
    lengths = {p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in (ROOT / "graphs").glob("*.py")}
    assert "sdp.py" in lengths
    assert {name: n for name, n in lengths.items() if n >= 150} == {}
