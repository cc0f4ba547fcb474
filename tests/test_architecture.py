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
from children import child_path

ROOT = Path(__file__).parent.parent
ARROWS = {
    "state": set[str](),
    "adapters": {"state"},
    "nodes": {"adapters", "state"},
    "graphs": {"nodes", "adapters", "state"},
    "runtime": {"graphs", "nodes", "adapters", "state"},
    "evaluation": {"runtime", "graphs", "nodes", "adapters", "state"},
}
SHARED_ADAPTERS = {"models", "qa", "research", "retrieval", "tools", "web"}
"""Folders under adapters/ that are no benchmark and may be imported by all of them."""

LONGEST = 600
"""Lines of the longest file of the product."""

MODULE = re.compile(r"certigraph(\.\w+)+(:\w+)?")

HEAVY = (
    "torch",
    "inspect_ai",
    "openai",
    "xllamacpp",
    "sentence_transformers",
    "pandas",
    "genai_prices",
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
    "playwright",
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


@pytest.mark.slow
@pytest.mark.parametrize("folder", ARROWS)
def test_arrows_point_one_way(folder: str):
    allowed = ARROWS[folder] | {folder}
    wrong = [str(i) for i in imports_under(folder) if target(i) and target(i)[0] not in allowed]
    assert imports_under(folder)
    assert wrong == []


def test_the_arrows_know_every_folder():
    packages = {p.parent.name for p in ROOT.glob("*/__init__.py")}
    assert packages == set(ARROWS)


@pytest.mark.slow
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


REPORT = {"pages", "report", "report_charts", "report_plan", "report_tasks", "report_episodes"}
LIVE_VIEW = {"live", "terminal"}
FOLD = {"progress", "history", "episodes"}


def test_report_and_live_view_read_one_fold_and_do_not_know_each_other():
    files = {name: ROOT / "runtime" / f"{name}.py" for name in REPORT | LIVE_VIEW | FOLD}
    known = {
        name: {i.module.split(".")[2] for i in imports_in(file) if target(i)[:1] == ("runtime",)}
        for name, file in files.items()
    }
    allowed = {**dict.fromkeys(REPORT, LIVE_VIEW), **dict.fromkeys(LIVE_VIEW, REPORT)}
    allowed |= dict.fromkeys(FOLD, REPORT | LIVE_VIEW)
    assert {name: sorted(known[name] & unwanted) for name, unwanted in allowed.items() if known[name] & unwanted} == {}
    assert all("history" in known[name] for name in ("report", "terminal"))


def test_every_root_package_has_its_link_under_the_import_name():
    for folder in ARROWS:
        link = ROOT / "src" / "certigraph" / folder
        assert link.is_symlink(), f"{link} is missing: ln -s ../../{folder} {link}"
        assert str(link.readlink()) == f"../../{folder}"


def test_the_linter_leaves_the_links_out():
    """A file reached by two ways would be checked, and with --fix changed, twice."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [folder for folder in ARROWS if f'"src/certigraph/{folder}"' not in settings] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import certigraph",
        "import certigraph.cli",
        "import certigraph.graphs.sdp",
        "import certigraph.runtime.run",
        "import certigraph.cli.output, certigraph.cli.output, certigraph.runtime.report",
        "from certigraph.adapters.protocols import Context\n"
        "from certigraph.graphs.sdp import graph\n"
        "context = Context(model='scripted:expert')\n"
        "final = graph.invoke({'task': {'benchmark': 'blocksworld', 'id': '3-0'}}, context=context)\n"
        "assert final['certificates']",
    ],
)
def test_importing_and_a_dry_run_load_nothing_heavy(code: str):
    check = f"{code}\nimport sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    path = {"PYTHONPATH": child_path(), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", check], env=path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr.strip()) == ("[]", "")


@pytest.mark.slow
def test_the_command_line_starts_with_few_modules():
    check = "import sys; import certigraph.cli; print(len(sys.modules), 'pydantic' in sys.modules)"
    environment = {"PYTHONPATH": child_path()}
    done = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=True)
    modules, pydantic = done.stdout.split()
    assert (int(modules) < 300, pydantic) == (True, "False"), done.stdout


def test_no_file_is_longer_than_one_topic():
    lengths = {str(file): len(file.read_text(encoding="utf-8").splitlines()) for file in modules().values()}
    assert {file: n for file, n in lengths.items() if n > LONGEST} == {}


@cache
def modules() -> dict[str, Path]:
    """Every module of the product by its name."""
    files = [*(ROOT / "src" / "certigraph").glob("*.py"), *(ROOT / "src" / "certigraph" / "cli").glob("*.py")]
    roots = [(ROOT / "src", file) for file in files]
    roots += [(ROOT, file) for folder in ARROWS for file in (ROOT / folder).rglob("*.py")]
    named = {".".join(file.relative_to(root).with_suffix("").parts): file for root, file in roots}
    return {
        f"certigraph.{name.removeprefix('certigraph.')}".removesuffix(".__init__"): file for name, file in named.items()
    }


@cache
def module_imports() -> dict[str, set[str]]:
    """The modules that each module imports, wherever in it, but for type checkers alone."""
    found: dict[str, set[str]] = {}
    for name, file in modules().items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        typing_only = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and getattr(block.test, "id", None) == "TYPE_CHECKING"
            for part in block.body
            for node in ast.walk(part)
        }
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and id(node) not in typing_only]
        dotted = {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
        found[name] = {d if d in modules() else d.rpartition(".")[0] for d in dotted} & set(modules()) - {name}
    return found


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """The nodes of a graph that lie on or between cycles: what is left once all ends have been taken away."""
    left = {node: targets & set(edges) for node, targets in edges.items()}
    while ends := [node for node in left if not left[node] & set(left) or not any(node in t for t in left.values())]:
        for node in ends:
            left.pop(node)
    return sorted(left)


@pytest.mark.slow
def test_no_module_imports_another_in_a_cycle():
    assert cycles(module_imports()) == []


@pytest.mark.slow
def test_no_package_imports_another_in_a_cycle():
    packages = {name for name, file in modules().items() if file.name == "__init__.py"}
    edges: dict[str, set[str]] = {}
    for name, targets in module_imports().items():
        # nothing imports `python -m certigraph`, so that it belongs to no package
        here = name if name in packages or name.endswith(".__main__") else name.rpartition(".")[0]
        there = {target if target in packages else target.rpartition(".")[0] for target in targets}
        edges.setdefault(here, set()).update(there - {here})
    assert {"certigraph.state", "certigraph.adapters.models", "certigraph.runtime"} <= set(edges)
    assert cycles(edges) == []
