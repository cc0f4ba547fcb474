"""Threats 3 and 4, ids that are SQL or paths, and links: a run stays in its folder, whatever its task is called."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.scripted_benchmark import Script

from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.export import _new_path, export
from certigraph.graphs import sdp
from certigraph.runtime.files import MEMORY_FILE, slug_of, unique_slug_of
from certigraph.runtime.report import write_report
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task

PATHS = [
    "../../escaped",
    "/etc/passwd",
    "a\0b",
    "x" * 300,
    "CON",
    "..",
    ".",
    "-rf",
    "--out=/tmp",
    "a\nb\r",
    "nul/../..",
    "\u202egnp.exe",
    "ключ " * 30,
    "\U0001d538" * 90,
    "~root",
    "C:\\x",
    "$(touch escaped)",
    "%2e%2e%2f",
]
SQL = [
    "'; DROP TABLE checkpoints; --",
    "' OR '1'='1",
    '" UNION SELECT * FROM writes --',
    "x') ; DELETE FROM store; --",
    "%",
    "_",
    "*' GLOB '*",
]


class Named(Script):
    """A script whose task is called by somebody who means no good."""

    def __init__(self, called: str, **given: Any) -> None:
        super().__init__(plan=2, **given)
        self.called = called

    def tasks(self, split: str = "") -> list[Task]:
        return [self.task(self.called)]

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.called, id=task_id, goal=self.called)


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as opened:
        return {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


@pytest.mark.slow
@pytest.mark.parametrize("called", PATHS + SQL)
def test_a_run_stays_in_its_folder_and_leaves_tables_alone(called: str, tmp_path: Path):
    out = tmp_path / "inner" / "runs"
    benchmark: Any = Named(called)
    result = run("sdp", benchmark, called, context=Context(limits=Limits(steps=1)), out=out)
    assert result.ending == "limit:steps"
    assert resume(result.folder, benchmark=benchmark, limits=Limits(steps=9)).ending == "goal"
    write_report(result.trajectory, result.folder / "report.html")
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {result.folder}
    assert result.folder.parent == out
    assert len(result.folder.name.encode()) < 256
    assert tables(result.folder / "checkpoints.sqlite") == {"checkpoints", "writes"}
    assert [file.parent for file in export([out], "atif", tmp_path / "exported")] == [tmp_path / "exported"]


@pytest.mark.parametrize("called", PATHS + SQL)
def test_a_memory_is_a_file_next_to_the_runs_whatever_it_is_called(called: str, tmp_path: Path):
    out = tmp_path / "runs"
    context = Context(memory=called, limits=Limits(steps=1, trials=1))
    result = run("clin", Script(), context=context, out=out)  # type: ignore[arg-type]
    [memory] = [path for path in tmp_path.rglob("memory*") if path.suffix == ".sqlite"]
    assert memory.parent == out
    assert "store" in tables(memory)
    assert not (result.folder / MEMORY_FILE).exists()


def test_memories_of_other_names_are_other_files():
    names = [unique_slug_of(text, 60) for text in [*PATHS, *SQL, "a-b", "a/b", "a b", "x" * 299]]
    assert len(set(names)) == len(names)
    assert unique_slug_of("name-1_x", 60) == "name-1_x"


@pytest.mark.parametrize("called", PATHS + SQL)
def test_names_made_of_them_are_plain(called: str):
    for name in (slug_of(called, 60), _new_path(Path(), f"{called}.json", ()).name):
        assert Path(name).name == name and len(name.encode()) < 256 and name.isprintable()


@pytest.mark.parametrize("called", [*PATHS, *SQL, "certigraph.graphs", "__import__('os')"])
def test_names_of_graphs_and_benchmarks_are_looked_up_and_nothing_else(called: str, tmp_path: Path):
    with pytest.raises(UnknownName):
        run(called, "blocksworld", out=tmp_path)
    with pytest.raises(UnknownName):
        run("sdp", called, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- links


@pytest.fixture
def stopped(tmp_path: Path) -> Result:
    script: Any = Script()
    return run("sdp", script, context=Context(limits=Limits(steps=2)), out=tmp_path / "runs", keep_prompts=True)


@pytest.mark.parametrize("name", ["trajectory.jsonl", "checkpoints.sqlite", "local.json", "prompts.jsonl"])
def test_a_file_that_was_replaced_by_a_link_is_not_written_through(name: str, stopped: Result, tmp_path: Path):
    target = tmp_path / "outside"
    shutil.move(stopped.folder / name, target)
    (stopped.folder / name).symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(Fault, match="is a link"):
        resume(stopped.folder, benchmark=Script(), limits=Limits(steps=60))  # type: ignore[arg-type]
    assert target.read_bytes() == before


def test_a_folder_that_is_a_link_is_not_written_to(stopped: Result, tmp_path: Path):
    (tmp_path / "link").symlink_to(stopped.folder)
    before = (stopped.folder / "trajectory.jsonl").read_bytes()
    with pytest.raises(Fault, match="is a link"):
        resume(tmp_path / "link", benchmark=Script(), limits=Limits(steps=60))  # type: ignore[arg-type]
    assert (stopped.folder / "trajectory.jsonl").read_bytes() == before


def test_a_report_is_not_written_through_a_link(stopped: Result, tmp_path: Path):
    (tmp_path / "precious").write_text("precious")
    (stopped.folder / "report.html").symlink_to(tmp_path / "precious")
    with pytest.raises(Fault, match="is a link"):
        write_report(read_trajectory(stopped.folder), stopped.folder / "report.html")
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_report_shows_no_prompts_behind_a_link(stopped: Result, tmp_path: Path):
    shutil.move(stopped.folder / "prompts.jsonl", tmp_path / "outside")
    (stopped.folder / "prompts.jsonl").symlink_to(tmp_path / "outside")
    with pytest.raises(Fault, match="is a link"):
        write_report(read_trajectory(stopped.folder), stopped.folder / "report.html")


def test_an_operator_s_name_is_not_a_path():
    with pytest.raises(TypeError, match="no operator slot"):
        sdp.build(**{"../../x": None})
