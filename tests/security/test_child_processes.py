"""Programs that certigraph starts do not see its keys: their environment is an allow-list."""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.files.product import product_files, product_path
from langchain_core.runnables.graph import Graph

from certigraph.adapters.processes import PASSED_VARIABLES, child_environment
from certigraph.adapters.redaction import ADDRESS_VARIABLES, KEY_VARIABLES
from certigraph.runtime.drawings import draw_png

OWN_WORKERS = {
    "adapters/own_modules.py": "rate actions, also by models that want a key, and read recorded runs",
    "evaluation/ray_cluster.py": "Ray's, whose workers ask models",
    "evaluation/worker_processes.py": "execute runs, which ask models",
}
"""Files that start Python processes of certigraph's own, which run the same code with the same settings."""

SECRETS = {name: f"secret-of-{name.lower()}" for name in (*KEY_VARIABLES, *ADDRESS_VARIABLES)} | {
    "MY_SERVICE_TOKEN": "secret-of-mine"
}


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_what_programs_need_is_handed_on_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME"):
        monkeypatch.setenv(name, f"/{name}")
    given = child_environment()
    assert {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME"} <= given.keys()
    assert not SECRETS.keys() & given.keys()
    assert all(name in PASSED_VARIABLES or name.startswith("LC_") for name in given)
    assert child_environment("MY_SERVICE_TOKEN") == {**given, "MY_SERVICE_TOKEN": "secret-of-mine"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for file in product_files():
        text = file.read_text(encoding="utf-8")
        if any(sign in text for sign in ("subprocess", "multiprocessing", "ProcessPool", "os.", "ray")):
            yield product_path(file), ast.parse(text)


def unlimited(tree: ast.Module) -> Iterator[str]:
    """The calls that start a program without `env=child_environment(...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(map(_starts, (node.func, *node.args))):
            given = next((word.value for word in node.keywords if word.arg == "env"), None)
            name = getattr(getattr(given, "func", None), "id", "")
            if name != "child_environment":
                yield ast.unparse(node.func)


STARTERS = {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
ALONE = {"Popen", "check_call", "check_output", "launch_gateway", "create_subprocess_exec", "create_subprocess_shell"}
OF_OS = ("system", "popen", "startfile", "posix_spawn", "fork", "exec", "spawn")


def _starts(named: ast.expr) -> bool:
    on, name = getattr(getattr(named, "value", None), "id", ""), getattr(named, "attr", getattr(named, "id", ""))
    return name in ALONE or (on == "subprocess" and name in STARTERS) or (on == "os" and name.startswith(OF_OS))


@pytest.mark.slow
def test_every_place_that_starts_a_program_limits_its_environment():
    found = {name: calls for name, tree in sources() if (calls := list(unlimited(tree)))}
    assert found == {"evaluation/worker_processes.py": ["subprocess.Popen"]}  # Python, in OWN_WORKERS


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(['x'])",
        "subprocess.Popen(['x'], env=os.environ)",
        "partial(subprocess.check_output, text=True)",
        "os.execvp('x', [])",
        "asyncio.create_subprocess_exec('x')",
        "launch_gateway(port=0)",
    ],
)
def test_the_walk_finds_what_it_is_for(code: str):
    assert list(unlimited(ast.parse(code)))
    assert not list(unlimited(ast.parse("subprocess.run(['x'], env=child_environment('A'))")))


@pytest.mark.slow
def test_python_processes_are_started_where_it_is_named_and_nowhere_else():
    def starts(tree: ast.Module) -> bool:
        return any(
            (isinstance(node, ast.Name) and node.id in {"ProcessPoolExecutor", "get_context"})
            or (isinstance(node, ast.Attribute) and node.attr == "get_context")
            or (isinstance(node, ast.Call) and ast.unparse(node.func) == "ray.init")
            or ast.unparse(node) == "sys.executable"
            for node in ast.walk(tree)
        )

    assert {name for name, tree in sources() if starts(tree)} == set(OWN_WORKERS)


def test_graphviz_sees_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen = tmp_path / "seen"
    program(tmp_path / "dot", f"env > {seen}")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    draw_png(Graph(), tmp_path / "x.png")
    assert "PATH=" in seen.read_text()
    assert "secret-of" not in seen.read_text()


def program(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.slow
def test_the_compilers_of_textworld_see_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("textworld")
    from certigraph.benchmarks.textworld.world import GameLibrary

    seen = tmp_path / "seen"
    program(tmp_path / "share/inform7/Compilers/ni", f"env > {seen}; exit 1")
    monkeypatch.setenv("INFORM_HOME", str(tmp_path))
    with pytest.raises(Exception, match=r"(?i)compil"):
        GameLibrary(tmp_path / "games").game("cooking-1-0")
    assert "PATH=" in seen.read_text()
    assert "secret-of" not in seen.read_text()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_scienceworlds_jvm_sees_no_key():
    from certigraph.benchmarks.scienceworld.simulator import JavaSimulator

    simulator = JavaSimulator()
    try:
        seen = Path(f"/proc/{simulator.process.pid}/environ").read_bytes()
        assert b"PATH=" in seen
        assert b"secret-of" not in seen
        assert simulator.load("boil", 0, "")
    finally:
        simulator.close()
