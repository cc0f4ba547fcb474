"""Benchmarks by name: shipped ones, those of a user's own, and what a task's name leads to."""

import asyncio
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from helpers.files.installed_package import INSTALLED, WORLD

from certigraph.adapters import imports
from certigraph.adapters.benchmarks import (
    is_own,
    load_benchmark,
    name_task,
    own_name,
    split_name,
)
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Benchmark, Context, Environment
from certigraph.adapters.tools.world import Case, Tools
from certigraph.graphs import react
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(INSTALLED)


@pytest.mark.parametrize("name", [WORLD, "ownagents.worlds:make", "ownagents.worlds:instance", "counting"])
def test_a_class_a_factory_an_instance_and_an_entry_point_are_loaded_once(name: str):
    benchmark = load_benchmark(name)
    assert benchmark.name == "counting"
    assert load_benchmark(name) is benchmark
    assert own_name(benchmark) == name
    assert name_task(benchmark.task("2"), benchmark).benchmark == name


def test_a_configuration_and_a_data_folder_reach_the_class(tmp_path: Path):
    tall: Any = load_benchmark(f"{WORLD}:tall", str(tmp_path))
    assert (tall.config, tall.data) == ("tall", tmp_path)
    assert [task.id for task in load_benchmark("counting:tall").tasks()] == ["5"]
    assert tall is not load_benchmark(f"{WORLD}:tall")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("blokworld", r"did you mean blocksworld.*module:attribute, for example"),
        ("conting", r"did you mean counting"),
        ("ownagents.worlds:number", "is of type int, not a benchmark"),
        ("ownagents.worlds:Needy", r"cannot be built \(TypeError: .*shelf"),
        ("ownagents.worlds:Partial", "has no open"),
        ("ownagents.worlds:nix", r"cannot be imported \(AttributeError"),
        ("ownagents.nowhere:X", r"cannot be imported \(ModuleNotFoundError"),
        ("broken", "of ownagents 1.2"),
        (f"{WORLD}:small", "no configuration 'small'; known: tall"),
        ("ownagents.worlds:instance:tall", "no configuration 'tall'"),
        ("os:abort", "Python's own library"),
        (":", "unknown benchmark"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(name: str, message: str):
    with pytest.raises(UnknownName, match=message) as raised:
        load_benchmark(name)
    assert "\n" not in str(raised.value)


def test_ours_wins_over_an_entry_point_of_the_same_name_with_a_warning(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    imports._warn_hidden.cache_clear()
    with pytest.warns(UserWarning, match=r"'blocksworld' is certigraph's own; ownagents 1.2 has one"):
        assert type(load_benchmark("blocksworld")).__name__ == "BlocksWorld"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_benchmark("blocksworld")


def test_names_are_split_into_name_and_configuration():
    assert split_name("travelplanner:paper") == ("travelplanner", "paper")
    assert split_name(f"{WORLD}:tall") == (WORLD, "tall")
    assert split_name(WORLD) == (WORLD, "")
    assert split_name("counting:tall") == ("counting", "tall")
    assert not is_own("travelplanner:paper")
    assert is_own("counting:tall")
    assert is_own(WORLD)


def test_a_module_named_like_its_entry_point_keeps_its_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tally.py").write_text("from ownagents.worlds import Counting as Tally\n")
    info = tmp_path / "tally-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tally\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[certigraph.benchmarks]\ntally = tally:Tally\n")
    assert split_name("tally:Tally:tall") == ("tally:Tally", "tall")
    assert split_name("tally:tall") == ("tally", "tall")
    assert load_benchmark("tally:tall").tasks()[0].id == "5"


def test_a_name_from_a_file_imports_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "never_imported.py").write_text("raise RuntimeError")
    for name in ("never_imported:World", "broken"):
        with pytest.raises(UnknownName, match="whose code is not imported"):
            load_benchmark(name, import_own=False)
    assert "never_imported" not in sys.modules
    trusted = load_benchmark(WORLD)
    assert load_benchmark(WORLD, import_own=False) is trusted


@pytest.mark.parametrize("named_by", ["task", "context"])
def test_a_graph_that_is_invoked_finds_the_world_that_a_task_or_the_context_names(named_by: str):
    task = {"benchmark": WORLD if named_by == "task" else "counting-elsewhere", "id": "2"}
    context = Context(model="scripted:first", benchmark=None if named_by == "task" else WORLD)
    state = asyncio.run(react.graph.ainvoke({"task": task}, context=context))  # type: ignore[arg-type]
    assert state["observation"].solved
    assert state["task"].benchmark == WORLD
    assert state["task"].goal == "count to 2"


# A benchmark whose tasks have different tools.


class Shops(Benchmark):
    """Two shops, each with a tool of its own."""

    name = "shops"
    answers = True

    def __init__(self) -> None:
        self.parts = {name: Tools([self._tool(name)], [Case(goal="Buy it.", id=name)]) for name in ("fish", "tea")}

    def _tool(self, name: str) -> Any:
        def buy() -> str:
            """Buy it."""
            return f"bought {name}"

        buy.__name__ = f"buy_{name}"
        return buy

    def tasks(self, split: str = "") -> list[Task]:
        return [task for part in self.parts.values() for task in part.tasks()]

    def for_task(self, task: Task) -> Tools:
        return self.parts[task.id]

    def open(self, task: Task) -> Environment:
        return self.for_task(task).open(task)


def buying(prompt: str, schema: Any) -> Any:
    """Buy first, then hand in the answer."""
    situation = current_situation()
    assert situation is not None
    names = [option["properties"]["name"]["const"] for option in schema["properties"]["calls"]["items"]["anyOf"]]
    chosen = {"name": "finish", "args": {"answer": "done"}} if situation.state["history"] else {"name": names[0]}
    return {"thought": "", "calls": [{"args": {}, **chosen}]}


@pytest.mark.parametrize("given", [{"fish"}, {"tea"}, {"fish", "tea"}])
def test_the_tools_of_a_run_are_those_of_its_task(given: set[str]):
    shops = Shops()
    context = Context(benchmark=shops, chat=ScriptedChat(responder=buying))
    for task in shops.tasks():
        if task.id in given:
            state = react.build().invoke({"task": task}, context=context)
            assert [step.action.text for step in state["history"]] == [f"buy_{task.id}()", "finish[done]"]
            assert f"bought {task.id}" in state["evidence"].view
