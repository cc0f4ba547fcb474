"""Threat 13, data that stays: a deleted run leaves no file of its own, and nothing else is deleted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.scripted_benchmark import Script

from certigraph import Choice, compare
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.cli.runs import delete_command
from certigraph.runtime.report import write_report
from certigraph.runtime.result import Result
from certigraph.runtime.run import delete, run
from certigraph.state.endings import Fault, UnknownName

GOAL = "a goal like no other"


class Secretive(Script):
    def task(self, task_id: str) -> Any:
        return super().task(task_id).model_copy(update={"goal": GOAL})


def made(out: Path, **given: Any) -> Result:
    context = Context(limits=Limits(steps=1, trials=1), **given)
    return run("clin", Secretive(), context=context, out=out)  # type: ignore[arg-type]


def holding(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_no_file_of_a_deleted_run_is_left_and_others_stay(tmp_path: Path):
    gone, kept = made(tmp_path), made(tmp_path)
    before = {path: path.read_bytes() for path in kept.folder.iterdir()}
    assert holding(gone.folder, GOAL)
    delete(gone.folder)
    assert not gone.folder.exists()
    assert {path.parent for path in holding(tmp_path, GOAL)} == {kept.folder}
    assert holding(tmp_path, gone.folder.name) == []
    assert {path: path.read_bytes() for path in kept.folder.iterdir()} == before


def test_its_line_in_a_journal_goes_and_other_lines_stay(tmp_path: Path):
    gone, kept = made(tmp_path), made(tmp_path)
    journal = tmp_path / "journal-0123456789ab.jsonl"
    lines = ["", json.dumps(["t", 0, gone.folder.name]), json.dumps(["t", 1, kept.folder.name]), '["torn']
    journal.write_text("\n".join(lines))
    delete(gone.folder)
    assert journal.read_text() == "\n".join([lines[0], *lines[2:]])


def test_what_else_may_tell_of_it_is_named(tmp_path: Path):
    (tmp_path / "of-all.eval").write_bytes(b"")
    gone = made(tmp_path, memory="shared", cache=str(tmp_path / "cache"))
    text = "\n".join(delete(gone.folder))
    assert "'shared'" in text and str(tmp_path / "cache") in text and "of-all.eval" in text
    assert (tmp_path / "memory-shared.sqlite").is_file()


@pytest.mark.parametrize("kind", ["a folder of something else", "missing", "a link", "a file", "all runs"])
def test_only_the_folder_of_a_run_is_deleted(kind: str, tmp_path: Path):
    run_folder = made(tmp_path / "runs").folder
    target = {"all runs": tmp_path / "runs", "a file": run_folder / "trajectory.jsonl"}.get(kind, tmp_path / "other")
    if kind == "a link":
        target.symlink_to(run_folder)
    elif kind == "a folder of something else":
        target.mkdir()
        (target / "precious").write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Fault, match=r"holds no run|is a link"):
        delete(target)
    assert sorted(tmp_path.rglob("*")) == before


def _header(**changes: object) -> str:
    return json.dumps({"type": "header", "run_id": "project", "graph": "sdp", **changes}) + "\n"


@pytest.mark.parametrize(
    "first_line",
    ["[]\n", "", "{", '{"type": "header"}\n', _header(type="event"), _header(run_id="another"), _header(run_id=None)],
)
def test_a_project_that_holds_a_file_named_like_a_trajectory_stays(first_line: str, tmp_path: Path):
    project = tmp_path / "project"
    for name in (".git/config", "src/main.py", "report.html"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("precious")
    (project / "trajectory.jsonl").write_text(first_line)
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(Fault, match=r"holds no run|is not the folder of the run"):
        delete_command([project], yes=True)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_the_working_folder_can_be_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = made(tmp_path).folder
    monkeypatch.chdir(folder)
    delete(Path())
    assert not folder.exists()


def test_files_of_others_stay_and_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = made(tmp_path / "runs").folder
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (folder / "notes.txt").write_text("precious")
    (folder / "data").mkdir()
    (folder / "data" / "checkpoints.sqlite").write_text("precious")
    (folder / "checkpoints.sqlite-wal.bak").write_text("precious")
    (folder / "report.html").symlink_to(outside)
    delete_command([folder], yes=True)
    printed = capsys.readouterr().out
    left = {"notes.txt", "data", "checkpoints.sqlite-wal.bak", "report.html"}
    assert {path.name for path in folder.iterdir()} == left
    assert all(name in printed for name in left)
    assert (folder / "data" / "checkpoints.sqlite").read_text() == outside.read_text() == "precious"


def test_every_file_that_a_run_of_any_kind_leaves_is_deleted(tmp_path: Path):
    step = run("step", "blocksworld", "4-0", context=Context(budget=Budget(calls=4)), out=tmp_path, keep_prompts=True)
    write_report(step.trajectory, step.folder / "report.html")
    for companion in ("checkpoints.sqlite-wal", "checkpoints.sqlite-shm", "memory.sqlite-journal"):
        (step.folder / companion).touch()
    names = {path.name for path in step.folder.iterdir()}
    written = {"trajectory.jsonl", "prompts.jsonl", "local.json", "checkpoints.sqlite", "memory.sqlite", "report.html"}
    assert names >= written
    delete(step.folder)
    assert not step.folder.exists()


def test_a_run_that_is_being_written_stays(tmp_path: Path):
    result = made(tmp_path)
    code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    path = str(result.folder / "trajectory.jsonl")
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout and writer.stdout.readline()
        with pytest.raises(Fault, match="another process"):
            delete(result.folder)
        writer.communicate("\n")
    assert result.folder.is_dir()
    delete(result.folder)


@pytest.mark.slow
def test_the_command_asks_nobody_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first, second = made(tmp_path).folder, made(tmp_path).folder
    with pytest.raises(UnknownName, match="--yes"):
        delete_command([first, second])
    with pytest.raises(Fault, match="holds no run"):
        delete_command([first, tmp_path / "none"], yes=True)
    assert first.is_dir() and second.is_dir()
    delete_command([first, second], yes=True)
    assert not first.exists() and not second.exists()
    assert "deleted: " in capsys.readouterr().out


@pytest.mark.slow
def test_what_a_comparison_wrote_about_a_run_is_named_by_its_manifest(tmp_path: Path):
    out = tmp_path / "compared"
    compare(["sdp", "react"], "blocksworld", choice=Choice(limit=1), out=out)
    left = delete(next(out.rglob("trajectory.jsonl")).parent)
    [line] = [line for line in left if "count this run" in line]
    named, _, rest = line.partition(f" in {out}")
    assert {"comparison.html", "rows.csv"} <= set(named.split(", "))
    assert all((out / name).is_file() for name in named.split(", "))
    assert "certigraph compare" in rest
