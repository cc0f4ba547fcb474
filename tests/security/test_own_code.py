"""Files that name code are read without running it: trajectories, plans, logs and sweeps of somebody else's."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from helpers.files.installed_package import BUILD, INSTALLED, WORLD

from certigraph.adapters.protocols import Context
from certigraph.cli import main
from certigraph.evaluation.comparison import PLAN_FILE
from certigraph.graphs import react
from certigraph.runtime.run import run
from certigraph.state.endings import UnknownName

FORGED = {BUILD: "planted_code:build", WORLD: "planted_code:World", "counting": "broken"}
"""What a stranger puts in place of the names: a module that lies in the current directory, and an entry point."""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code that leaves a file where it is imported; a run and a comparison that name it lie there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(INSTALLED)
    monkeypatch.syspath_prepend(tmp_path)
    folder = run(BUILD, WORLD, "2", out=tmp_path / "runs").folder
    with pytest.raises(SystemExit):
        main(["compare", BUILD, "react", "--on", WORLD, "--limit", "2", "--out", "cmp"])
    flag = tmp_path / "imported"
    for name in ("planted_code", "ownagents"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "planted_code.py").write_text(f"from pathlib import Path\nPath({str(flag)!r}).touch()\n")
    for file in (folder / "trajectory.jsonl", tmp_path / "cmp" / PLAN_FILE, *tmp_path.glob("cmp/**/trajectory.jsonl")):
        text = file.read_text()
        for ours, forged in FORGED.items():
            text = text.replace(ours, forged)
        file.write_text(text)
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["report", "RUN"],
        ["export", "runs", "--to", "atif"],
        ["export", "runs", "--to", "parquet"],
        ["anatomy", "runs"],
        ["judge", "runs", "--rubric", "strings"],
        ["compare", "--out", "cmp", "--report-only"],
        ["ablate", "react", "blocksworld", "--out", "cmp", "--report-only"],
        ["study", "cgdp", "--out", "cmp", "--report-only"],
        ["sweep", "s.yaml", "--dry-run"],
        ["list"],
        ["delete", "RUN", "--yes"],
    ],
)
def test_reading_imports_nothing(command: list[str], planted: Path, capsys: pytest.CaptureFixture[str]):
    (planted / "s.yaml").write_text("benchmarks: ['planted_code:World']\ngraphs: ['planted_code:build', react]\n")
    (folder,) = (planted / "runs").iterdir()
    with pytest.raises(SystemExit) as ended:
        main([str(folder) if part == "RUN" else part for part in command])
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    assert not (planted / "imported").exists()
    assert "planted_code" not in sys.modules
    if command[0] in ("report", "anatomy", "compare", "ablate"):
        assert ended.value.code in (0, 1), output.err


@pytest.mark.slow
def test_resuming_imports_what_the_header_names(planted: Path, capsys: pytest.CaptureFixture[str]):
    (folder,) = (planted / "runs").iterdir()
    trajectory = folder / "trajectory.jsonl"
    trajectory.write_text("".join(trajectory.read_text().splitlines(keepends=True)[:-1]))  # without its footer
    with pytest.raises(SystemExit):
        main(["resume", str(folder)])
    assert "planted_code" in capsys.readouterr().err
    assert (planted / "imported").exists()
    assert json.loads(trajectory.read_text().partition("\n")[0])["graph"] == "planted_code:build"


@pytest.mark.slow
@pytest.mark.parametrize(("listed", "imported"), [("", False), ("elsewhere, planted", False), ("planted_code", True)])
def test_the_input_of_a_graph_imports_what_is_listed_alone(
    listed: str, imported: bool, planted: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CERTIGRAPH_IMPORTS", listed)
    task = {"benchmark": "planted_code:World", "id": "2", "goal": "count"}
    with pytest.raises(UnknownName, match="cannot be imported" if imported else "CERTIGRAPH_IMPORTS"):
        react.build().invoke({"task": task}, context=Context(model="scripted:first"))
    assert (planted / "imported").exists() is imported
