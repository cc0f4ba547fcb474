"""Every benchmark's default limits are the paper's, and a world of one's own defines only what makes it."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files.product import product_files, product_path

from certigraph import run
from certigraph.adapters.benchmarks import load_benchmark, usual_limits
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import (
    Benchmark,
    Context,
    Environment,
    Limits,
    Responder,
    complete_benchmark,
    complete_environment,
)
from certigraph.benchmarks import BENCHMARKS
from certigraph.state.endings import GOAL, UnknownName
from certigraph.state.records import Action, Observation, Scores, Task, Usage
from certigraph.state.trajectory import Footer

APPENDIX = {
    "travelplanner": (3, 5, 60),
    "scienceworld": (30, 5, 500),
    "assistantbench": (3, 2, 30),
    "hotpotqa": (3, 2, 20),
    "musique": (3, 2, 25),
}
"""Attempts, replans and steps: SDP, tables of appendix A."""


@pytest.mark.parametrize("name", APPENDIX)
def test_declared_limits_have_the_papers_numbers(name: str):
    limits = usual_limits(name)
    assert (limits.attempts, limits.replans, limits.steps) == APPENDIX[name]


def test_subqueries_and_passages_are_the_papers():
    assert usual_limits("assistantbench").subqueries == 5
    assert {usual_limits(name).passages for name in ("hotpotqa", "musique")} == {10}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_configuration_has_the_limits_that_its_class_declares(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    for config in ("", *load_benchmark(name).configurations):
        configured = f"{name}:{config}" if config else name
        assert load_benchmark(configured).limits == usual_limits(configured)


def test_a_benchmark_the_paper_did_not_run_has_the_defaults():
    assert usual_limits("blocksworld") == Limits()


# Worlds of one's own: what they have to define, and what they get by default.


class Door(Environment):
    """A door that opens at the first push."""

    def __init__(self) -> None:
        self.open = False

    def reset(self) -> Observation:
        return Observation(text="closed")

    def step(self, action: Action) -> Observation:
        self.open = True
        return Observation(text="open", done=True, solved=True)

    def score(self) -> Scores:
        return Scores(value=float(self.open))


class Doors(Benchmark):
    name = "doors"

    def tasks(self, split: str = "") -> list[Task]:
        return [Task(benchmark=self.name, id=id_, goal="open the door") for id_ in ("front", "back")]

    def open(self, task: Task) -> Environment:
        return Door()


class Plain:
    """A benchmark that inherits from nothing."""

    name = "plain"
    answers = True

    def tasks(self, split: str = "") -> list[Task]:
        return [Task(benchmark=self.name, id="only", goal="open the door")]

    def open(self, task: Task) -> Any:
        return PlainDoor()


class PlainDoor:
    concurrent = True

    def reset(self) -> Observation:
        return Observation(text="closed")

    def step(self, action: Action) -> Observation:
        return Observation(text="open", done=True, solved=True)

    def score(self) -> Scores:
        return Scores(value=1.0)


def members(protocol: type) -> set[str]:
    return {name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_shipped_benchmark_has_every_member_itself(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    benchmark = load_benchmark(name)
    assert complete_benchmark(benchmark) is benchmark
    assert {member for member in members(Benchmark) if not hasattr(benchmark, member)} == set()


@pytest.mark.parametrize(("former", "window"), [("small", 4_096), ("full", 0), ("", 0)])
def test_settings_of_an_earlier_version_are_read_with_a_window_in_place_of_a_profile(former: str, window: int):
    saved = {"profile": former, "limits": {"steps": 7, "context": 6_000, "excerpt": 240}}
    for context in (Context.model_validate(saved), Context.model_validate_json(json.dumps(saved)), Context(**saved)):
        assert (context.window, context.limits and context.limits.steps) == (window, 7)


def test_a_small_world_gets_the_defaults():
    doors, task = Doors(), Doors().task("back")
    assert task.id == "back"
    flags = ("answers", "delivers", "signals_goal", "replans_undone", "shortlists", "instant", "queues", "simulated")
    assert [flag for flag in flags if getattr(doors, flag) is not False] == []
    assert (doors.operators(), doors.expert(), doors.knows(task)) == ({}, None, False)
    door = doors.open(task)
    assert (door.view(), door.admissible(), door.sources(), door.concurrent) == ("", None, (), False)


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(UnknownName, match=r"doors has no task 'side'.*front, back"):
        Doors().task("side")


def test_a_benchmark_with_an_expert_knows_its_tasks():
    class Known(Doors):
        def expert(self) -> Responder:
            return lambda prompt, schema: {}

    assert Known().knows(Known().task("back"))


def test_the_default_figures_are_means_over_the_runs():
    usage = Usage(node="all")
    runs = [
        ("front", Footer(ending=GOAL, scores=Scores(value=1.0), usage=usage)),
        ("back", Footer(ending=GOAL, scores=Scores(value=0.5), usage=usage)),
        ("side", Footer(ending="gave_up", usage=usage)),
    ]
    assert Doors().figures(runs) == {"n": 3, "score": 0.5, "goal": pytest.approx(2 / 3)}
    assert Doors().figures([]) == {"n": 0}


@pytest.mark.parametrize(("base", "missing"), [(Benchmark, "open"), (Environment, "step")])
def test_a_world_without_a_needed_method_cannot_be_created(base: type, missing: str):
    others = {name: lambda self: None for name in members(base) if name != missing}
    with pytest.raises(TypeError, match=missing):
        type("Incomplete", (base,), others)()


def test_an_object_of_another_class_keeps_its_own_members_and_gets_the_others():
    plain = Plain()
    completed = complete_benchmark(plain)
    assert (completed.name, completed.answers, completed.instant) == ("plain", True, False)
    assert completed.task("only") == plain.tasks()[0]
    assert complete_benchmark(completed) is completed
    door = complete_environment(PlainDoor())
    assert (door.concurrent, door.view(), door.sources()) == (True, "", ())
    plain.answers = False
    assert completed.answers is False


def test_a_missing_member_without_a_default_is_named_with_the_fix():
    with pytest.raises(AttributeError, match=r"Plain has no 'opened'.*certigraph\.Benchmark"):
        _ = complete_benchmark(Plain()).opened  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"object has no 'step'.*certigraph\.Environment"):
        complete_environment(object()).step(Action(text="push"))  # type: ignore[arg-type]


@pytest.mark.parametrize("benchmark", [Doors(), Plain()], ids=["inherits", "inherits nothing"])
def test_both_kinds_of_worlds_run(benchmark: Any, tmp_path: Path):
    context = Context(chat=ScriptedChat(responder=lambda prompt, schema: minimal_instance(schema)))
    result = run("react", benchmark, context=context, out=tmp_path)
    assert (result.ending, result.scores and result.scores.value) == (GOAL, 1.0)


@pytest.mark.slow
def test_no_member_of_a_world_is_read_by_its_name_in_a_string():
    optional = members(Benchmark) | members(Environment) | {"demonstration", "score_file"}
    found = [
        f"{product_path(file)}:{call.lineno}"
        for file in product_files(
            "adapters", "nodes", "graphs", "benchmarks", "runtime", "evaluation", "studies", "cli"
        )
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr")
        if isinstance(call.args[1], ast.Constant) and call.args[1].value in optional
    ]
    assert found == []


@pytest.mark.slow
def test_no_record_declares_a_default_that_type_checkers_do_not_see():
    """`Field(3)` is a required field for a checker without pydantic's plugin; `Field(default=3)` is not."""
    found = [
        f"{product_path(file)}:{call.lineno}"
        for file in product_files()
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("Field", "PrivateAttr")
        if call.args
    ]
    assert found == []
