"""Threat 9, code by tools: no world runs what an agent writes, and the source names what could."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.files.product import product_files, product_path
from helpers.processes.children import child_environment

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.benchmarks import BENCHMARKS
from certigraph.graphs.catalogue import OPERATORS
from certigraph.state.endings import Fault
from certigraph.state.records import Action

TOOLS = {
    *("search", "lookup", "open", "read", "find", "grep", "symbols", "finish"),
    *("FlightSearch", "AttractionSearch", "AccommodationSearch", "RestaurantSearch", "CitySearch"),
    *("GoogleDistanceMatrix", "NotebookWrite", "MakePlan"),
}
"""All there are: they look up, note, ask a model for a plan, and hand in."""

CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "Popen", "check_output", "check_call", "fork"}
MODULES = {"subprocess", "pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "ctypes", "pty"}

ALLOWED = {
    "benchmarks/scienceworld/simulator.py": "starts ScienceWorld's JVM",
    "runtime/drawings.py": "calls Graphviz, without a shell, on a drawing of a graph",
    "evaluation/worker_processes.py": "starts Python, on code of its own, to execute runs",
    "benchmarks/textworld/world.py": "has TextWorld start Inform 7's compilers, without a shell, on games made here",
    "evaluation/sweep.py": "reads YAML by a subclass of BaseLoader, which makes texts, lists and dicts alone",
    "adapters/rewards.py": "torch's eval(), which sets a network to prediction",
    "studies/reward_heads.py": "torch's eval(), which sets a network to prediction",
}
"""Files that may name one of them, and what for."""


SIGNS = [
    rf"(?<!re\.)\b(?:{'|'.join(CALLS)})\(",
    *MODULES,
    r"yaml\.",
    r"\.load\(",
    "shell=",
    "allow_pickle",
    "pickle_fallback",
]
WORTH_A_LOOK = re.compile("|".join(SIGNS))


def dangers(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if WORTH_A_LOOK.search(text) else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield node.module or ""
        elif isinstance(node, ast.Call):
            yield from _called(node)


def _called(node: ast.Call) -> Iterator[str]:
    called, name = node.func, getattr(node.func, "attr", getattr(node.func, "id", ""))
    on = getattr(getattr(called, "value", None), "id", "")
    if (
        name in CALLS
        and (on or "os") not in ("re", "platform")
        and not (name == "compile" and isinstance(called, ast.Attribute))
    ):
        yield name
    if on == "yaml" and name in ("load", "load_all", "unsafe_load", "full_load"):
        yield f"yaml.{name}"
    if on in ("torch", "numpy", "np") and name == "load" and not _safe(node):
        yield f"{on}.load"
    if any(word.arg in ("shell", "allow_pickle", "pickle_fallback") and _true(word.value) for word in node.keywords):
        yield "shell=True or allow_pickle=True"


def _safe(node: ast.Call) -> bool:
    return any(word.arg in ("allow_pickle", "weights_only") for word in node.keywords)


def _true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


@pytest.mark.slow
def test_code_that_runs_code_is_where_it_is_named_and_nowhere_else():
    found = {product_path(file): calls for file in product_files() if (calls := sorted(set(dangers(file))))}
    assert len(product_files()) > 300
    assert {name: calls for name, calls in found.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "a reason for what is no longer there"


def test_the_walk_finds_what_it_is_for(tmp_path: Path):
    for code in (
        "import subprocess",
        "from pickle import loads",
        "eval('1')",
        "import os; os.system('x')",
        "yaml.load(x)",
        "numpy.load(p, allow_pickle=True)",
        "torch.load(p)",
        "run(x, shell=True)",
    ):
        (tmp_path / "x.py").write_text(code)
        assert list(dangers(tmp_path / "x.py")), code


@pytest.mark.parametrize("name", BENCHMARKS)
def test_no_benchmark_offers_a_tool_that_runs_code(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    benchmark = load_benchmark(name)
    for configuration in ("", *getattr(benchmark, "configurations", ())):
        configured = load_benchmark(f"{name}:{configuration}" if configuration else name)
        assert set(getattr(configured, "tools", None) or ()) <= TOOLS
    assert not {"shell", "bash", "python", "execute_code", "run_code"} & set(OPERATORS)


ORDERS = [
    "touch {0}",
    "python[open('{0}', 'w')]",
    "bash[touch {0}]",
    "search[$(touch {0})]",
    "search[`touch {0}`]",
    "finish[__import__('os').system('touch {0}')]",
    "read[| touch {0}]",
    "grep[-rf; touch {0}]",
    "open[file://{0}]",
]


@pytest.mark.parametrize(
    "name", ["blocksworld", "travelplanner", "travelplanner:tools", "hotpotqa", "musique", "locomo"]
)
def test_worlds_take_orders_for_text(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    benchmark, made = load_benchmark(name), tmp_path / "made"
    for order in ORDERS:
        world = benchmark.open(benchmark.tasks()[0])
        world.reset()
        tool, _, rest = order.format(made).partition("[")
        try:
            world.step(Action(text=order.format(made), kind=tool, args={"text": rest.rstrip("]")}))
        except (Fault, KeyError, ValueError, TypeError):
            pass  # a refusal
        finally:
            world.close()
        assert not made.exists()


@pytest.mark.slow
def test_files_of_the_working_folder_are_found_and_take_the_place_of_no_library(tmp_path: Path):
    for library in ("cmd", "json", "rich", "pydantic", "certigraph"):
        (tmp_path / f"{library}.py").write_text("raise SystemExit('planted')")
    (tmp_path / "mine.py").write_text("from certigraph.nodes.sdp import always_pass as kind")
    command = "from certigraph.cli import main; main(['run', 'sdp', 'blocksworld', '--swap', 'validate=mine:kind'])"
    env = child_environment()
    # -P: Python's own `-c` would put the folder first
    arguments = [sys.executable, "-P", "-c", command]
    done = subprocess.run(arguments, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "planted" not in done.stdout + done.stderr
    assert "accepted unchecked" in done.stdout
