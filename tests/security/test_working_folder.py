"""The working folder is not on the path of Python: a command runs none of its files but those that the user named."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.files.installed_package import BUILD, INSTALLED, WORLD
from helpers.processes.children import child_environment

from certigraph.adapters.imports import import_named
from certigraph.adapters.own_modules import OwnModules, SpawnedProcesses, find_own_modules, own_modules
from certigraph.state.endings import UnknownName

RECORDING = """
import atexit, sys
class Recorder:
    def find_spec(self, name, path=None, target=None):
        if path is None:
            missed.add(name)
missed = set()
sys.meta_path.append(Recorder())
atexit.register(lambda: open(sys.argv.pop(1), "a").write("".join(f"{name}\\n" for name in missed)))
from certigraph.cli import main
main(sys.argv[2:])
"""
"""Program that executes a command and appends to a file which modules were looked for and not found."""

LEAVES_A_MARK = "import pathlib; (pathlib.Path(__file__).parent / f'ran-{__name__}').touch()\nraise ImportError\n"

ENTRY_GROUPS = ("certigraph.benchmarks", "certigraph.graphs", "inspect_ai", "ray_providers", "console_scripts")

COMMAND = (str(Path(sys.executable).with_name("certigraph")),)
MODULE = (sys.executable, "-m", "certigraph")

READING = [
    ["report", "RUN"],
    ["export", "runs", "--to", "parquet", "--out", "exported"],
    ["anatomy", "runs", "--out", "anatomy"],
    ["list"],
    ["doctor"],
]
RUNNING = [
    ["run", "react", "blocksworld", "--model", "scripted:expert", "--out", "more"],
    ["eval", "react", "blocksworld", "--model", "scripted:expert", "--limit", "2", "--out", "evaluated"],
    ["eval", "react", "blocksworld", "--model", "scripted:expert", "--limit", "2", "--workers", "2", "--out", "w"],
]


def call(folder: Path, program: Sequence[str], command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    run = next((folder / "runs").glob("*"), folder)
    words = [str(run) if word == "RUN" else word for word in command]
    environment = child_environment(INSTALLED) | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*program, *words], cwd=folder, env=environment, text=True, capture_output=True, check=False)


def marks(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("ran-*"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and with a file of the name of every module that a command looks for or may look for."""
    folder = tmp_path_factory.mktemp("planted")
    missed = folder.parent / "missed"
    recorder = [sys.executable, "-P", "-c", RECORDING, str(missed)]
    for command in (["run", "react", "blocksworld", "--model", "scripted:expert", "--out", "runs"], *READING[:3]):
        assert call(folder, recorder, command).returncode == 0
    probed = set(missed.read_text().split())
    assert probed & {"chardet", "brotli", "brotlicffi", "simplejson", "socks", "backports"}
    provided = {name for name in packages_distributions() if name.isidentifier()}
    for name in probed | provided | {*sys.stdlib_module_names} | {"langgraph", "certigraph"}:
        (folder / f"{name}.py").write_text(LEAVES_A_MARK)
    (folder / "evil-1.0.dist-info").mkdir()
    (folder / "evil-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    entries = "".join(f"[{group}]\nevil = evil:thing\n" for group in ENTRY_GROUPS)
    (folder / "evil-1.0.dist-info" / "entry_points.txt").write_text(entries)
    (folder / "evil.py").write_text(LEAVES_A_MARK)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", [*READING, *RUNNING], ids=" ".join)
def test_a_command_runs_no_file_of_its_folder(command: list[str], planted: Path):
    done = call(planted, COMMAND, command)
    assert (marks(planted), "evil" in done.stdout) == ([], False)
    assert command == ["doctor"] or done.returncode == 0, done.stderr  # the doctor may find something missing here


@pytest.mark.slow
def test_a_hidden_library_is_not_replaced(tmp_path: Path):
    for name in ("chardet", "langgraph", "rich"):
        (tmp_path / f"{name}.py").write_text(LEAVES_A_MARK)
    for program in (COMMAND, MODULE):
        done = call(tmp_path, program, ["list"])
        assert (done.returncode, marks(tmp_path)) == (0, []), done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules of a user's own, where this process looks for what the user names."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = {*sys.modules}
    (tmp_path / "agents_here").mkdir()
    (tmp_path / "agents_here" / "graphs.py").write_text("import beside_it\nfrom agents_here.parts import part\n")
    (tmp_path / "agents_here" / "parts.py").write_text("part = 5\n")
    for name in ("beside_it", "not_named", "late_one"):
        (tmp_path / f"{name}.py").write_text("value = 7\n")
    (tmp_path / "named_one.py").write_text(
        "from beside_it import value\nfrom importlib import import_module\n"
        "def late():\n    return import_module('late_one').value\n"
        "def probe(library):\n    return library.probe('not_named')\n"
    )
    find_own_modules(OwnModules(str(tmp_path)))
    yield tmp_path
    for name in {*sys.modules} - known:
        if name.partition(".")[0] in {file.stem for file in tmp_path.iterdir()}:
            del sys.modules[name]


def test_what_the_user_named_is_found_with_what_lies_near_it(folder: Path):
    named = import_named("named_one", "graph")
    assert named.value == 7
    assert named.late() == 7  # also when one of its functions imports
    assert import_named("agents_here.graphs:part", "graph") == 5  # a folder without __init__.py is a package too
    assert import_named("agents_here.parts", "graph").part == 5


def test_nothing_else_in_the_folder_is_found(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    site = tmp_path_factory.mktemp("site")
    (site / "library_that_probes.py").write_text(
        "def probe(name):\n    try:\n        __import__(name)\n    except ImportError:\n        return 'absent'\n"
        "found = probe('not_named')\n"
    )
    sys.path.append(str(site))
    with pytest.raises(ModuleNotFoundError):
        import not_named  # noqa: F401
    assert find_spec("not_named") is None
    (folder / "user_of_it.py").write_text("import library_that_probes\nfound = library_that_probes.found\n")
    named = import_named("user_of_it", "graph")
    assert named.found == "absent"  # a library that the user's module imports looks for it
    assert import_named("named_one:probe", "graph")(sys.modules["library_that_probes"]) == "absent"
    assert "not_named" not in sys.modules


def test_what_is_installed_is_never_found_in_the_folder(folder: Path):
    for name in ("langgraph", "json", "rich"):
        (folder / f"{name}.py").write_text(LEAVES_A_MARK + "thing = 1\n")
        with pytest.raises(UnknownName):
            import_named(f"{name}:thing", "graph")
    assert marks(folder) == []


def test_a_similar_module_of_the_folder_is_suggested(folder: Path):
    with pytest.raises(UnknownName, match="did you mean named_one"):
        import_named("named_onee:late", "graph")


@pytest.mark.slow
def test_processes_find_the_same_and_run_nothing_of_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    for name in ("selectors", "pickle", "tempfile", "json", "chardet"):
        (folder / f"{name}.py").write_text(LEAVES_A_MARK)
    import_named("named_one", "thing")
    with SpawnedProcesses(1) as pool:
        assert pool.submit(own_modules).result() == own_modules()
        assert pool.submit(import_named, "named_one:value", "thing").result() == 7
    assert marks(folder) == []
    assert "PYTHONSAFEPATH" not in os.environ


OWN_GRAPH = """
    from pathlib import Path
    import helper_of_mine
    from ownagents.graphs import build

    Path("imported").touch()
    """


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["--workers", "2"], ["--workers", "1", "--ray", "local"]], ids=" ".join)
def test_a_graph_of_the_folder_runs_here_and_in_workers(workers: list[str], tmp_path: Path):
    if "--ray" in workers:
        pytest.importorskip("ray")
    (tmp_path / "graph_of_mine.py").write_text(textwrap.dedent(OWN_GRAPH))
    (tmp_path / "helper_of_mine.py").touch()
    for name in ("chardet", "selectors", "pickle", "json", "httpx", "langgraph"):
        (tmp_path / f"{name}.py").write_text(LEAVES_A_MARK)
    done = call(tmp_path, COMMAND, ["eval", "graph_of_mine:build", WORLD, "--limit", "2", "--out", "e", *workers])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "imported").exists()
    assert marks(tmp_path) == []
    assert BUILD not in done.stderr
