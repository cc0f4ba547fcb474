"""Plan-and-Act and the one-shot plan: when they plan, what of it is acted on, and how their prompts grow."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.models.subtask_models import SubtaskModel
from helpers.worlds.library_world import LibraryBenchmark
from helpers.worlds.records_world import Records

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.graphs import cot, plan_and_act
from certigraph.runtime.result import Result
from certigraph.runtime.run import run

GRAPHS = {"plan_and_act": plan_and_act, "cot": cot}

STEPS = 9


def records(**limits: Any) -> tuple[Records, SubtaskModel]:
    world = Records({f"look {n}": f"fact {n}, {'on and on ' * 8}" for n in range(STEPS)}, **{"steps": STEPS, **limits})
    return world, SubtaskModel({"": [*world.facts]})


def library(**limits: Any) -> tuple[LibraryBenchmark, SubtaskModel]:
    return LibraryBenchmark(**{"steps": STEPS, **limits}), SubtaskModel(
        {"": [f"search[query {n}]" for n in range(STEPS)]}
    )


WORLDS = {"records": records, "library": library}


def played(graph: Any, world: Any, cast: SubtaskModel, out: Path, window: int = 0) -> Result:
    context = Context(chat=ScriptedChat(responder=cast), window=window)
    return run(graph.build(), world, world.tasks()[0], context=context, out=out)


@pytest.mark.parametrize("world", WORLDS)
def test_plan_and_act_plans_again_after_every_action_but_the_last(world: str, tmp_path: Path):
    where, cast = WORLDS[world]()
    result = played(plan_and_act, where, cast, tmp_path)
    assert [entry.operator for entry in cast.requests] == ["plan", *["execute", "replan"] * (STEPS - 1), "execute"]
    assert result.state["replanned"] == STEPS - 1


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_action_is_chosen_with_the_latest_plan_in_sight_and_no_other(graph: str, tmp_path: Path):
    world, cast = records()
    played(GRAPHS[graph], world, cast, tmp_path)
    plans = [n if graph == "plan_and_act" else 0 for n in range(STEPS)]
    for number, prompt in zip(plans, cast.prompts("execute"), strict=True):
        assert prompt.count("PLAN--canary") == 1
        assert f"Plan, step 1: PLAN--canary {number}" in prompt


@pytest.mark.parametrize("world", WORLDS)
def test_a_plan_made_again_is_requested_with_everything_that_was_done(world: str, tmp_path: Path):
    where, cast = WORLDS[world]()
    played(plan_and_act, where, cast, tmp_path)
    prompts = cast.prompts("replan")
    for number, prompt in enumerate(prompts, 1):
        assert [n for n in range(STEPS) if f"{cast.actions[''][n]}\n" in prompt] == [*range(number)]
    grown = [len(later) - len(earlier) for earlier, later in pairwise(prompts)]
    assert min(grown) > 40, "every action adds its thought, itself and its answer"


@pytest.mark.parametrize("world", WORLDS)
def test_a_model_with_a_small_window_sees_the_latest_of_what_was_done(world: str, tmp_path: Path):
    where, cast = WORLDS[world]()
    played(plan_and_act, where, cast, tmp_path, 700)
    *_, last = cast.prompts("replan")
    assert cast.actions[""][STEPS - 2] in last
    assert "left out" in last
    assert len(last) < 3.6 * 700


@pytest.mark.parametrize("world", WORLDS)
def test_a_model_with_a_large_window_sees_all_that_was_done(world: str, tmp_path: Path):
    where, cast = WORLDS[world]()
    played(plan_and_act, where, cast, tmp_path)
    assert all(action in cast.prompts("replan")[-1] for action in cast.actions[""][: STEPS - 1])
