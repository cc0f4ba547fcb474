"""Worlds and graphs of a user's own on the command line: run, eval, compare, ablate, sweep, resume, report, list."""

import json
import os
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from helpers.files.installed_package import BUILD, GRAPH, INSTALLED, STOP, WORLD

import certigraph
from certigraph.adapters.trajectories import read_trajectory
from certigraph.cli import main
from certigraph.cli.inventory import INVENTORY_FILE, KINDS, collect_inventory
from certigraph.evaluation.comparison import Choice, build_method, parse_methods
from certigraph.evaluation.evaluate import evaluate, evaluate_retry
from certigraph.evaluation.sweep import sweep
from certigraph.evaluation.workers import RunJob
from certigraph.runtime.registry import GRAPHS
from certigraph.runtime.run import run
from certigraph.state.endings import UnknownName

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(INSTALLED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command prints with --json, whatever its exit status is but 2."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    output = capsys.readouterr()
    assert ended.value.code in (0, 1), output.err
    return json.loads(output.out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    output = capsys.readouterr()
    assert ended.value.code == 2
    (line,) = [line for line in output.err.splitlines() if line.startswith("certigraph: ")]
    assert "Traceback" not in output.err
    return line


@pytest.mark.slow
def test_run_and_report(capsys: pytest.CaptureFixture[str]):
    fields = printed(capsys, "run", BUILD, WORLD, "--task", "2")
    assert (fields["graph"], fields["benchmark"], fields["ending"], fields["scores"]["value"]) == (
        BUILD,
        WORLD,
        "goal",
        1,
    )
    stopped = printed(capsys, "run", BUILD, f"{WORLD}:tall", "--swap", f"choose={STOP}")
    assert (stopped["benchmark"], stopped["task"], stopped["ending"]) == (f"{WORLD}:tall", "5", "world_ended")
    with pytest.raises(SystemExit):
        main(["report", stopped["folder"]])
    assert f"choose = {STOP}" in Path(capsys.readouterr().out.strip()).read_text()


def test_the_current_directory_is_importable(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("graphs_in_this_folder.py").write_text("from ownagents.graphs import build\n")
    assert printed(capsys, "run", "graphs_in_this_folder", "counting")["ending"] == "goal"


def test_list_shows_what_is_installed_and_from_where(capsys: pytest.CaptureFixture[str]):
    sys.modules.pop("ownagents.faulty", None)
    names = printed(capsys, "list")
    assert names["installed graphs"]["adder"] == "ownagents.graphs:build, of ownagents 1.2"
    assert "hidden" in names["installed graphs"]["sdp"]
    assert names["installed benchmarks"]["counting"] == "ownagents.worlds:Counting, of ownagents 1.2"
    assert "counting" not in names["benchmarks"]
    assert "ownagents.faulty" not in sys.modules


def test_list_is_what_the_registries_have():
    shipped = json.loads((files("certigraph.cli") / INVENTORY_FILE).read_text(encoding="utf-8"))
    assert shipped == collect_inventory(), "write it again: python -m certigraph.cli.inventory"


def test_list_is_as_it_was_where_nothing_is_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(INSTALLED)])
    assert not [kind for kind in printed(capsys, "list") if kind.startswith("installed")]


@pytest.mark.long
@pytest.mark.slow
def test_compare_and_its_continuation(capsys: pytest.CaptureFixture[str]):
    swaps = ["--swap", f"stopping:choose={STOP}", "--swap", f"{BUILD}:choose=ownagents.graphs:add"]
    compared = ["compare", BUILD, f"stopping={BUILD}", "react", "--on", WORLD, "--limit", "2", *swaps]
    tables = printed(capsys, *compared)
    assert [(method["method"], method["score"]) for method in tables["methods"]] == [
        (BUILD, 100), ("stopping", 0), ("react", 100),
    ]  # fmt: skip
    assert len(tables["rows"]) == 6
    assert printed(capsys, "compare") == tables
    assert printed(capsys, "compare", "--report-only") == tables


def test_methods_with_colons_in_their_names():
    first, second = parse_methods([BUILD, f"b={BUILD}"], [f"{BUILD}:choose={STOP}", "b:choose=ownagents.graphs:add"])
    assert [method.operators["choose"]["name"] for method in (first, second)] == [STOP, "ownagents.graphs:add"]  # type: ignore[index,call-overload]
    with pytest.raises(UnknownName, match="no method 'c'"):
        parse_methods([BUILD], ["c:choose=act"])
    unchecked = build_method("x", "never.imported:build", [f"choose={STOP}"], import_own=False)
    assert unchecked.operators == {"choose": {"name": STOP, "args": {}}}


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ({"methods": "sdp"}, r'methods=.sdp.: give a list of texts, as in \["sdp", "react"\]'),
        ({"methods": []}, "give a list of texts"),
        ({"methods": ["sdp"], "swaps": "validate=always_pass"}, "give a list of texts"),
        ({"methods": ["sdp"], "choice": 5}, r"give certigraph.Choice\(limit=30"),
    ],
)
def test_compare_says_which_form_its_arguments_have(given: Any, form: str):
    with pytest.raises(TypeError, match=form):
        certigraph.compare(**given)


@pytest.mark.slow
def test_compare_in_python(tmp_path: Path):
    given: Any = {"swaps": [f"bare:choose={STOP}"], "choice": Choice(limit=2), "out": tmp_path / "compared"}
    results = certigraph.compare([BUILD, f"bare={BUILD}"], "counting", **given)
    assert {one.method: (one.n, one.score) for one in results.comparison.methods} == {BUILD: (2, 100), "bare": (2, 0)}
    before = sorted((tmp_path / "compared").rglob("trajectory.jsonl"))
    again = certigraph.compare([BUILD, f"bare={BUILD}"], "counting", **given)
    assert again.comparison == results.comparison
    assert sorted((tmp_path / "compared").rglob("trajectory.jsonl")) == before


@pytest.mark.long
@pytest.mark.slow
def test_a_sweep_over_own_names(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "s.yaml"
    file.write_text(
        f"benchmarks: [{{name: '{WORLD}', limit: 1}}, blocksworld]\ntasks: ['3-0']\ngraphs: ['{BUILD}', react]\n"
        f"operators: [{{}}, {{choose: '{STOP}'}}]\n".replace("tasks: ['3-0']\n", "limit: 1\n")
    )
    found = sweep(file, tmp_path / "swept")
    assert found.methods == (BUILD, f"{BUILD} choose={STOP}", "react")
    assert found.left == 0
    line = refused(capsys, "sweep", str(file), "--out", str(tmp_path / "dry"), "--dry-run")
    assert "start the sweep without --dry-run" in line
    file.write_text("benchmarks: [blocksworld]\nlimit: 1\ngraphs: ['never.imported:build', react]\n")
    assert printed(capsys, "sweep", str(file), "--dry-run")["methods"] == ["never.imported:build", "react"]


@pytest.mark.slow
def test_an_evaluation_and_its_retry(tmp_path: Path):
    pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
    done = evaluate(BUILD, WORLD, swaps=[f"choose={STOP}"], ids=["1", "3"], out=tmp_path)
    assert (done.benchmark, done.graph, done.n, done.figures["solved"]) == (WORLD, BUILD, 2, 0.0)
    assert evaluate(GRAPH, "counting:tall", out=tmp_path / "tall").figures["solved"] == 1.0
    again = evaluate_retry(next(tmp_path.glob("*.eval")))
    assert (again.benchmark, again.endings) == (WORLD, {"world_ended": 2})


# --- other processes


def in_another_process(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(INSTALLED)])
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


CLI = "from certigraph.cli import main; main()"


@pytest.mark.slow
def test_the_shell_completes_what_list_takes_without_importing_graphs():
    code = "import atexit, sys; sys.argv[0] = 'certigraph'\n"
    code += "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"

    def completed(words: str) -> set[str]:
        typed = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_CERTIGRAPH_COMPLETE": "complete_bash"}
        done = in_another_process(code + CLI, **typed)
        assert not {"langgraph", "langchain_core", "certigraph.graphs.assembly"} & set(
            done.stderr.split()
        )  # typer has pydantic
        return set(done.stdout.split())

    assert completed("certigraph list ") == {*KINDS, *GRAPHS}
    assert completed("certigraph list graphs ste") == {"step"}


@pytest.mark.long
@pytest.mark.slow
def test_a_killed_run_is_resumed_in_another_process_by_the_names_in_its_header(tmp_path: Path):
    flag = str(tmp_path / "flag")
    swap = "choose=ownagents.graphs:fragile"
    killed = in_another_process(CLI, "run", BUILD, "counting:tall", "--swap", swap, OWN_FLAG=flag)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (folder,) = Path("runs").iterdir()
    assert not read_trajectory(folder).footer
    resumed = in_another_process(CLI, "resume", str(folder), "--json", OWN_FLAG=flag)
    fields = json.loads(resumed.stdout)
    assert (fields["ending"], fields["graph"], fields["benchmark"]) == ("goal", BUILD, "counting:tall")
    assert (fields["scores"]["value"], fields["steps"], read_trajectory(folder).resumes) == (1, 5, 1)


@pytest.mark.slow
def test_a_worker_process_builds_own_graphs_and_worlds(tmp_path: Path):
    started = run(BUILD, WORLD, "1", out=tmp_path / "first").trajectory.header
    job = RunJob(
        graph=started.graph, operators={"choose": {"name": STOP, "args": {}}}, benchmark=started.task.benchmark,
        task="2", context={}, out=str(tmp_path / "jobs"), run="one",  # type: ignore[arg-type]
    )  # fmt: skip
    code = (
        "import asyncio, sys\nfrom certigraph.evaluation.jobs import RunJob, execute_job\n"
        "job = RunJob.model_validate_json(sys.argv[1])\n"
        "print(asyncio.run(execute_job(job)).model_dump_json())\n"
    )
    done = in_another_process(code, job.to_portable().model_dump_json())
    row = json.loads(done.stdout)
    assert (row["id"], row["footer"]["ending"], row["footer"]["scores"]["value"]) == ("2", "world_ended", 0)
