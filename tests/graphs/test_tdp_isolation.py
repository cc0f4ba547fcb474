"""TDP's isolation: what goes wrong in a sub-task stays there (section 3.3)."""

from pathlib import Path
from typing import Any

import pytest
from decoupled import NEEDS, Cast, Spoil, canary, decoupled, facts_of, looking, outcomes
from records_world import Records

from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.adapters.protocols import Budget
from certigraph.graphs import tdp
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.gates import judged_gate
from certigraph.nodes.react import execute
from certigraph.runtime.registry import rebuilt_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume
from certigraph.state.records import LimitReached
from certigraph.state.tdp import Dag

SET_ASIDE = "its part of the calls was spent; it begins again with all that is left"

INDEPENDENT = ("a", "c", "e")
"""What does not build on b; d and g do."""


def against_plan(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """What is observed speaks against every plan."""
    going_on = {"status": "needs_more_steps", "off_plan": True, "reason": "NOTHING FITS"}
    return {**answer, **going_on} if "status" in fields else answer


def nonsense(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """The model writes what the world does not know, and sees no end."""
    if "status" in fields:
        return {**answer, "status": "needs_more_steps", "off_plan": False}
    return {field: ["?!"] if field == "steps" else "?!" for field in fields}


def never_done(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """It goes on until its steps are used up."""
    return {**answer, "status": "needs_more_steps", "off_plan": False} if "status" in fields else answer


def given_up(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """Its Supervisor says so."""
    return {**answer, "status": "failed", "reason": "there is none"} if "status" in fields else answer


SPOILS = {spoil.__name__: spoil for spoil in (against_plan, nonsense, never_done, given_up)}


def played(out: Path, spoil: Spoil | None = None, world: Records | None = None, **given: Any) -> tuple[Result, Cast]:
    """A run of the three levels, in which b goes wrong where a spoil is given."""
    cast = Cast(looking([*NEEDS]), spoils={"b": spoil} if spoil else {})
    return decoupled(cast, world or looked_up(), out, **given), cast


def looked_up(*, concurrent: bool = True) -> Records:
    """The world. Nothing but its part of the steps ends a sub-task that goes round in circles."""
    return Records(facts_of([*NEEDS]), concurrent=concurrent, steps=80, repeats=0)


@pytest.mark.parametrize("concurrent", [True, False], ids=["concurrent", "serial"])
@pytest.mark.parametrize("spoil", SPOILS)
def test_independent_outcomes_are_the_same_to_the_byte_whatever_fails(spoil: str, concurrent: bool, tmp_path: Path):
    world = looked_up(concurrent=concurrent)
    well, _ = played(tmp_path / "well", world=world)
    ill, cast = played(tmp_path / "ill", SPOILS[spoil], world)
    assert {id_: outcomes(ill)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}
    failed = [outcome.node for outcome in ill.state["outcomes"] if outcome.status == "failed"]
    assert failed == ["b"]
    assert {asked.subtask for asked in cast.asked} == {"", "a", "b", "c", "e"}, "d and g wait for b"
    assert (well.ending, ill.ending) == ("goal", "gave_up")


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_failure_adds_to_the_run_own_world_only_what_was_done(spoil: str, tmp_path: Path):
    ill, _ = played(tmp_path, SPOILS[spoil])
    taken = {outcome.node: outcome.taken for outcome in ill.state["outcomes"]}
    assert len(ill.state["history"]) == sum(taken.values())
    assert [taken[id_] for id_ in INDEPENDENT] == [2, 2, 2]


def test_a_budget_is_spent_by_one_alone_and_only_after_all_others(tmp_path: Path):
    budget = Budget(calls=60)  # a third of it is more than a and c make, and less than b does
    well, _ = played(tmp_path / "well", budget=budget)
    ill, cast = played(tmp_path / "ill", never_done, budget=budget)
    outcome = next(outcome for outcome in ill.state["outcomes"] if outcome.node == "b")
    assert (outcome.status, outcome.result, outcome.steps) == ("pending", SET_ASIDE, ())
    assert (ill.ending, ill.usage.calls) == ("limit:calls", 60)
    cast.spoils = {}
    again = resume(ill.folder, budget=Budget(), benchmark=looked_up(), chat=ScriptedChat(responder=cast))
    assert again.ending == "goal"
    assert {id_: outcomes(again)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}


def test_a_limit_that_an_operator_meets_ends_the_run_when_no_other_subtask_can_go_on(tmp_path: Path):
    async def stopping(state: Any, runtime: Any) -> dict[str, Any]:
        if state["assignment"] == canary("SPEC", "b"):
            raise LimitReached("tokens", 1, 1)
        return dict(await execute(state, runtime))

    well, _ = played(tmp_path / "well")
    ill, _ = played(tmp_path / "ill", execute=stopping)
    assert [outcome.status for outcome in ill.state["outcomes"] if outcome.node == "b"] == ["pending"]
    assert ill.ending == "limit:tokens"
    assert {id_: outcomes(ill)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}


def test_what_waits_for_a_failed_subtask_goes_on_once_it_is_revised(tmp_path: Path):
    async def without_b(state: Any, runtime: Any) -> dict[str, Any]:
        nodes = [n.model_copy(update={"needs": ("a",)}) if n.id == "d" else n for n in state["dag"].nodes]
        return {"dag": Dag(nodes=tuple(nodes)), "notes": ()}

    ill, cast = played(tmp_path, given_up, revise=without_b)
    assert ill.ending == "goal"
    assert not any(canary("RESULT", "b") in asked.prompt for asked in cast.asked if asked.subtask in ("d", "g"))


def test_a_model_that_gives_no_answer_stops_the_run_and_leaves_the_others_as_they_are(tmp_path: Path):
    well, _ = played(tmp_path / "well")
    ill, cast = played(tmp_path / "ill", lambda prompt, fields, answer: "no idea")
    assert ill.ending == "error:model"
    cast.spoils = {}
    again = resume(ill.folder, benchmark=looked_up(), chat=ScriptedChat(responder=cast))
    assert again.ending == "goal"
    assert {id_: outcomes(again)[id_] for id_ in INDEPENDENT} == {id_: outcomes(well)[id_] for id_ in INDEPENDENT}


def test_a_run_goes_on_with_the_operators_that_were_given_inside_its_subtasks():
    given = operators_of(tdp.build(memory="structured", gate=judged_gate(stance="neutral")))
    assert operators_of(rebuilt_graph("tdp", given)) == given
    assert "neutral" in str(given["solve"])
