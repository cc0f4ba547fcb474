"""Tests of the rules that decide BlocksWorld's conditions: never wrongly, else not at all."""

from random import Random

import pytest
from helpers.worlds.decisions import held, sentences_of
from hypothesis import given
from hypothesis import strategies as st

from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.blocksworld.conditions import WORDINGS, decide_in_view
from certigraph.benchmarks.blocksworld.domain import (
    HAND_EMPTY,
    BlockFact,
    clear,
    deny_fact,
    format_fact,
    format_facts,
    holding,
    on,
    ontable,
)
from certigraph.state.records import Action, Observation

TOWER = (
    "As observed, the blue block is clear, the orange block is clear, the hand is empty, the orange block is on top of "
    "the red block, the red block is on the table and the blue block is on the table."
)
HELD = (
    "As observed, the red block is clear, the hand is currently holding orange block, the red block is on the table "
    "and the blue block is on top of the yellow block, the blue block is clear and the yellow block is on the table."
)


def decided(condition: str, view: str = TOWER) -> bool | None:
    return held(decide_in_view(condition, view), view)


EXAMPLES = {
    "The red block is on top of the blue block.": ("The orange block is on top of the red block.", TOWER, HELD),
    "The red block is on the table.": ("The blue block is on the table.", TOWER, HELD),
    "The red block is clear.": ("The red block is clear.", HELD, TOWER),
    "The hand is empty.": ("The hand is empty.", TOWER, HELD),
    "The hand is currently holding the red block.": ("The hand is currently holding the orange block.", HELD, TOWER),
}
"""Wording -> a condition in it, a view in which it holds, and one in which it does not."""


@pytest.mark.parametrize("wording", EXAMPLES)
def test_each_recommended_wording_is_decided_either_way(wording: str):
    condition, holds, fails = EXAMPLES[wording]
    assert wording in " ".join(WORDINGS.split())
    assert (decided(condition, holds), decided(condition, fails)) == (True, False)


def test_every_recommended_wording_has_an_example():
    assert sentences_of(WORDINGS) == [*EXAMPLES]
    assert BlocksWorld.wordings == WORDINGS


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("the orange block is on the red block", True),
        ("Orange block is on a red block and the HAND is empty.", True),
        ("The red block is on the blue block", False),
        ("The orange block is on the table.", False),
        ("The hand is holding the blue block.", False),
        ("The hand holds blue block", False),
        ("The blue block is clear, the hand is empty and the red block is clear.", False),
        ("The silver block is clear and the red block is clear.", False),
        ("My goal is that the orange block is on top of the red block.", True),
        ("The silver block is clear.", None),
        ("The silver block is clear and the hand is empty.", None),
        ("The red block is not clear.", None),
        ("The red block is on the table or the hand is empty.", None),
        ("Nothing is on the blue block.", None),
        ("The blue block is clear again.", None),
        ("", None),
    ],
)
def test_wordings_conjunctions_and_what_claims_more(condition: str, holds: bool | None):
    assert decided(condition) is holds


@pytest.mark.parametrize("view", ["", TOWER.partition(", the orange block is on")[0], TOWER.replace("blue", "red")])
def test_a_view_that_is_cut_decides_nothing(view: str):
    assert decided("The red block is clear.", view) is decided("The hand is empty.", view) is None


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_decided_or_left_open(condition: str, view: str):
    assert decided(condition) is decided("The hand is empty.", view) is None


@pytest.mark.parametrize("task_id", ["3-1", "4-0", "6-2", "13-1"])
def test_no_decision_contradicts_the_state(task_id: str):
    benchmark, draw = BlocksWorld(), Random(task_id)
    world = benchmark.open(benchmark.task(task_id))
    seen = world.reset()
    names = world.instance.blocks
    facts = [HAND_EMPTY, *(make(name) for name in names for make in (clear, ontable, holding))]
    facts += [on(name, other) for name in names for other in names if name != other]
    for _ in range(20):
        for fact in facts:
            assert judge(benchmark, fact, seen, world.view()) is (fact in world.state)
            both = {fact, draw.choice(facts)}
            decision = benchmark.decide(format_facts(both), seen, "")
            assert decision is not None and decision.holds is (both <= world.state)
            assert benchmark.decide(deny_fact(fact), seen, world.view()) is None
        seen = world.step(Action(text=draw.choice(world.admissible())))


def judge(benchmark: BlocksWorld, fact: BlockFact, seen: Observation, view: str) -> bool | None:
    decision = benchmark.decide(f"{format_fact(fact).capitalize()}.", seen, view)
    assert decision is None or decision.quote in view
    return decision.holds if decision else None
