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
from helpers.files.product import LINKED, REAL, ROOT, folder_of, product_files, product_path
from helpers.processes.children import child_path

PACKAGE = ""
"""The package itself, whose public names come from all parts but the command line."""

ORDER = (
    "state",
    "adapters",
    "nodes",
    "graphs",
    "middleware",
    "runtime",
    "evaluation",
    "benchmarks",
    "studies",
    PACKAGE,
    "cli",
)
"""Parts of the product from the ground up. A part may import those that come before it."""

LAYERS = tuple(part for part in ORDER if part != PACKAGE)

APART = {("benchmarks", "evaluation"), ("middleware", "graphs")}
"""Parts of which neither knows the other, although one comes before the other."""

BENCHMARKS_BY_NAME = "certigraph.benchmarks"
"""The one name of a part above that stands below it: the loader finds shipped benchmarks by it."""

SHARED = {"qa", "research"}
"""Folders of benchmarks/ that several benchmarks share."""

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
        return f"{product_path(self.file)}:{self.line} names {self.module}"


@cache
def imports_of(part: str) -> tuple[Import, ...]:
    """What a part imports, for type checkers and within functions too, and the modules that it names in texts."""
    return tuple(found for file in product_files(part) for found in imports_in(file))


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
    """The folders of ours that an import leads to: ("adapters", "models"); none for a module of others."""
    top, *rest = found.module.replace(":", ".").split(".")
    if top != "certigraph":
        return ()
    return tuple(rest[:2]) if rest and rest[0] in LAYERS else (PACKAGE,)


def upward(part: str) -> list[str]:
    """What a part names that does not stand below it."""
    below = set(ORDER[: ORDER.index(part) + 1]) - {other for one, other in APART if one == part}
    found = (i for i in imports_of(part) if target(i) and target(i)[0] not in below)
    return [str(i) for i in found if i.module != BENCHMARKS_BY_NAME]


@pytest.mark.parametrize("part", LAYERS)
def test_arrows_point_down(part: str):
    assert imports_of(part)
    assert upward(part) == []


def test_one_text_below_names_what_stands_above():
    named = [str(i) for part in LAYERS[:7] for i in imports_of(part) if i.module == BENCHMARKS_BY_NAME]
    assert [name.partition(":")[0] for name in named] == ["adapters/imports.py"]


def test_the_layers_are_all_folders_of_the_product():
    packages = {p.parent.name for p in (*ROOT.glob("*/__init__.py"), *ROOT.glob("src/certigraph/*/__init__.py"))}
    assert packages == set(LAYERS) == {*LINKED, *REAL}


def benchmark_folders() -> list[str]:
    inner = (p.name for p in (ROOT / "benchmarks").iterdir() if (p / "__init__.py").is_file())
    return sorted(set(inner) - SHARED)


def test_no_benchmark_knows_another():
    folders = benchmark_folders()
    assert {"blocksworld", "travelplanner"} <= set(folders)
    for folder in folders:
        others = {("benchmarks", other) for other in folders if other != folder}
        own = [i for i in imports_of("benchmarks") if product_path(i.file).startswith(f"benchmarks/{folder}/")]
        assert [str(i) for i in own if target(i) in others] == []


@pytest.mark.parametrize("part", LAYERS[:7])
def test_nothing_below_benchmarks_names_one(part: str):
    """Neither in code nor in messages. Docstrings and comments may cite what a paper measured."""
    words = re.compile("|".join(rf"(?<![a-z]){name}(?![a-z])" for name in benchmark_folders()), re.IGNORECASE)
    found = [
        f"{product_path(file)}:{line}: {text[:60]}"
        for file in product_files(part)
        for line, text in names_and_texts(ast.parse(file.read_text(encoding="utf-8")))
        if words.search(text)
    ]
    assert found == []


def names_and_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names that code uses and the texts in it, but for docstrings."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name | ast.Attribute | ast.arg):
            yield node.lineno, getattr(node, "id", "") or getattr(node, "attr", "") or getattr(node, "arg", "")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


@pytest.mark.parametrize("part", [part for part in LAYERS if part not in ("evaluation", "cli")])
def test_only_evaluation_knows_inspect(part: str):
    assert [str(i) for i in imports_of(part) if i.module.split(".")[0] == "inspect_ai"] == []


def test_report_and_live_view_read_one_fold_and_do_not_know_each_other():
    views = {"report": {"live", "terminal"}, "live": {"report"}, "terminal": {"report", "live"}}
    unwanted = {**views, "history": {"report", "live", "terminal"}, "pages": {"report", "live", "terminal"}}
    imports = {name: [*imports_in(folder_of("runtime") / f"{name}.py")] for name in unwanted}
    known = {
        name: {i.module.split(".")[2] for i in found if target(i)[:1] == ("runtime",)}
        for name, found in imports.items()
    }
    assert {name: known[name] & others for name, others in unwanted.items() if known[name] & others} == {}
    assert all("history" in known[name] for name in views)


def test_every_folder_at_the_top_has_its_link_under_the_import_name():
    for folder in LINKED:
        link = ROOT / "src" / "certigraph" / folder
        assert link.is_symlink(), f"{link} is missing: ln -s ../../{folder} {link}"
        assert str(link.readlink()) == f"../../{folder}"


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


@cache
def modules() -> dict[str, Path]:
    """Every module of the product by its name."""
    files = [*(ROOT / "src" / "certigraph").glob("*.py"), *product_files()]
    dotted = {file: product_path(file).removesuffix(".py").replace("/", ".") for file in files}
    return {f"certigraph.{name}".removesuffix(".__init__"): file for file, name in dotted.items()}


@cache
def module_imports() -> dict[str, set[str]]:
    """The modules that each module imports, wherever in it, those for type checkers included."""
    found: dict[str, set[str]] = {}
    for name, file in modules().items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
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


OPERATORS = {
    "certification": ("nodes.call_checks.check_calls", "nodes.message_checks.judge_end"),
    "effects": ("nodes.wrapped_tools.make_once",),
    "ordered_calls": ("state.tools.find_blocking",),
    "progress": ("nodes.gates.exhaustion_gate",),
    "beliefs": ("nodes.beliefs.to_memory",),
    "commitments": ("nodes.commitments.commit", "nodes.commitments.refuse_beyond_commitment"),
    "budgets": ("adapters.protocols.Budget", "adapters.models.usage.Meter"),
}
"""What each middleware takes from the operators that certigraph's own graphs have."""


@pytest.mark.parametrize("name", OPERATORS)
def test_middleware_has_no_operator_of_its_own(name: str):
    imported = {found.module for found in imports_in(ROOT / "middleware" / f"{name}.py")}
    assert {f"certigraph.{operator}" for operator in OPERATORS[name]} <= imported


def test_middleware_asks_no_model_itself():
    asking = {
        str(found) for found in imports_of("middleware") if found.module.startswith("certigraph.adapters.models.calls")
    }
    assert asking == set()
