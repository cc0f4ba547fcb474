"""BlocksWorld's text read into factored states, and its goals into what they need of the present state."""

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorldEnvironment, BlocksWorldFactors
from certigraph.state.records import Action
from certigraph.state.rewards import FactoredState, to_factored, to_mapping

READING = BlocksWorldFactors()
GOAL = "My goal is that the red block is on top of the blue block."
START = (
    "As observed, the red block is clear, the hand is empty, the orange block is on top of the blue block, "
    "the blue block is on the table and the red block is on the table."
)
CLEARED = "As observed, the red block is clear, the hand is currently holding the orange block, "
CLEARED += "the blue block is on the table and the red block is on the table."
LIFTED = "As observed, the blue block is on the table and the hand is currently holding the red block."
DONE = "As observed, the red block is on top of the blue block and the blue block is on the table."


def read(observation: str) -> FactoredState:
    return READING.extract(FactoredState(), GOAL, "", observation)


def wanted(observation: str, goal: str = GOAL) -> dict[str, dict[str, str]]:
    return to_mapping(READING.interpret(goal, read(observation), FactoredState()))


def test_blocks_are_described_with_what_is_below_and_above_them():
    assert to_mapping(read(START)) == {
        "blue block": {"below": "table", "above": "orange block", "grip": "resting"},
        "orange block": {"below": "blue block", "above": "nothing", "grip": "resting"},
        "red block": {"below": "table", "above": "nothing", "grip": "resting"},
    }
    assert to_mapping(read(LIFTED))["red block"] == {"below": "hand", "above": "nothing", "grip": "held"}


def test_a_state_that_another_extractor_gave_is_taken_as_it_is():
    result = to_factored({"red block": {"place": "on the table"}, "agent": {}})
    goal = to_mapping(READING.interpret(GOAL, result, FactoredState()))
    assert goal["red block"]["below"] == "blue block" and "agent" not in goal


def test_what_tells_no_state_changes_none():
    assert READING.extract(read(START), GOAL, "dance", "Nothing is said.") == read(START)


def test_a_block_is_wanted_in_hand_once_its_place_is_free():
    assert wanted(START)["red block"]["grip"] == "later"
    assert wanted(CLEARED)["red block"]["grip"] == "held"
    assert wanted(START)["blue block"] == {"above": "nothing"}


def test_a_goal_that_holds_is_described_as_it_is():
    assert wanted(DONE) == {"red block": {"below": "blue block"}, "blue block": {"above": "red block"}}


def test_a_place_counts_only_on_a_tower_that_is_right():
    both = "My goal is that the red block is on top of the blue block and the blue block is on top of the orange block."
    assert wanted(DONE, both)["red block"]["above"] == "nothing"
    assert wanted(DONE, both)["blue block"]["above"] == "nothing"


@pytest.mark.parametrize("goal", ["", "My goal is that the red block is on top of the red block."])
def test_goals_that_cannot_be_make_no_trouble(goal):
    wanted(START, goal)


@pytest.mark.slow
def test_a_plan_ends_with_all_that_is_wanted():
    benchmark = load_benchmark("blocksworld")
    for task in benchmark.tasks()[:8]:
        world, state = benchmark.open(task), FactoredState()
        assert isinstance(world, BlocksWorldEnvironment)
        for action in ("", *benchmark.demonstration(task)):
            text = world.step(Action(text=action)).text
            state = READING.extract(state, task.goal, action, text)
        goal, now = READING.interpret(task.goal, state, FactoredState()), to_mapping(state)
        assert all(now[entity.identity].items() >= entity.attributes.items() for entity in goal.entities)
