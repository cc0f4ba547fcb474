"""MCTS in runs: it never returns, its search is reused, its budget holds, and it solves what ReAct does not."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.watched_blocks import RATING, READINGS, WatchedBlocks, extract_as_model, run_blocks

from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.benchmarks.blocksworld.expert import answer_request
from certigraph.graphs import mcts, react
from certigraph.nodes.lookahead import listed, predicted
from certigraph.nodes.mcts import backpropagate
from certigraph.runtime import driver
from certigraph.runtime.run import resume, run
from certigraph.state.search_tree import Simulation, count_visits


def searching(**more: Any) -> Any:
    return mcts.build(**RATING, propose=listed, **more)


@pytest.mark.slow
def test_it_needs_no_model_and_never_returns_to_a_state(tmp_path: Path):
    benchmark = WatchedBlocks()
    result = run(searching(), benchmark, "4-0", context=Context(model="scripted:first"), out=tmp_path)
    assert result.ending == "goal"
    assert result.usage.calls == 0
    views = [turn.observation for turn in result.state["turns"]]
    assert len(set(views)) == len(views)
    assert benchmark.worlds[0].done == [turn.action for turn in result.state["turns"]]


def test_an_answer_that_was_foreseen_in_the_tree_is_not_read_again(tmp_path: Path):
    READINGS.clear()
    graph = mcts.build(
        **{**RATING, "extract": extract_as_model}, propose=listed, backpropagate=backpropagate(simulations=3)
    )
    result = run_blocks(graph, tmp_path, task="6-1", steps=3)
    lived = [turn.observation for turn in result.state["turns"]]
    assert len(READINGS) == len(set(READINGS))
    assert {answer for _, _, answer in READINGS} >= {*lived[:-1]}


def test_its_visits_add_up_along_a_run(tmp_path: Path):
    result = run_blocks(searching(backpropagate=backpropagate(simulations=6)), tmp_path, task="6-1", steps=1)
    expanded = [e.update for e in result.trajectory.events if e.node == "backpropagate"]
    assert len(expanded) == 6
    passes = [Simulation.model_validate(one) for update in expanded for one in update["simulations"]]
    counts = count_visits(passes)
    assert counts.visits[()] == len(passes)
    ways = [way for way in counts.visits if way]
    assert all(counts.visits[way] <= counts.visits[way[:-1]] for way in ways)
    grown = [one["path"] for update in expanded for one in update["tree"]]
    assert len({tuple(path) for path in grown}) == len(grown)


@pytest.mark.slow
def test_what_it_searched_before_is_not_searched_again(tmp_path: Path):
    result = run_blocks(searching(), tmp_path, answer_request)
    nodes = [event.node for event in result.trajectory.events]
    known = [after for node, after in pairwise(nodes) if node == "route"]
    assert known[-1] == "choose", "the way to the goal was known"


@pytest.mark.slow
def test_a_tree_that_was_wrong_is_given_up(tmp_path: Path):
    def wrong(prompt: str, form: dict[str, Any]) -> Any:
        answer = answer_request(prompt, form)
        return {"outcomes": [f"{text} Or so." for text in answer["outcomes"]]} if "outcomes" in answer else answer

    result = run_blocks(searching(imagine=predicted), tmp_path, wrong, steps=2)
    assert result.state["tree"] == result.state["simulations"] == []


@pytest.mark.slow
def test_a_model_as_its_world_model_spends_the_budget_and_goes_on_with_a_larger_one(tmp_path: Path):
    context = Context(budget=Budget(calls=3), limits=Limits(steps=1))
    graph = searching(imagine=predicted, backpropagate=backpropagate(simulations=4))
    stopped = run(graph, "blocksworld", "4-0", context=context, out=tmp_path)
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", 3)
    finished = resume(stopped.folder, budget=Budget(calls=9))
    assert (finished.ending, finished.usage.calls) == ("limit:steps", 4)


def test_imagined_actions_are_not_steps_of_the_world(tmp_path: Path):
    result = run_blocks(searching(backpropagate=backpropagate(simulations=3)), tmp_path, task="6-1", steps=2)
    assert (result.ending, len(result.state["history"])) == ("limit:steps", 2)
    assert len(result.state["visited"]) == 2


@pytest.mark.slow
def test_with_statefactorys_reward_it_solves_generated_tasks_without_a_call(tmp_path: Path):
    context = Context(model="scripted:random", limits=Limits(steps=40))
    tasks = [f"4-{seed}" for seed in range(6)]
    searched = [run(mcts.build(propose=listed), "blocksworld", t, context=context, out=tmp_path) for t in tasks]
    plain = [run(react.build(), "blocksworld", t, context=context, out=tmp_path) for t in tasks]
    assert [one.ending for one in searched] == ["goal"] * len(tasks)
    assert {one.usage.calls for one in searched} == {0}
    assert sum(one.ending == "goal" for one in plain) < len(tasks)


def test_a_run_with_more_supersteps_than_its_limits_allow_ends_as_a_limit_of_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "_max_supersteps", lambda graph, limits: 10)
    context = Context(model="scripted:first")
    result = run(searching(), WatchedBlocks(), "4-0", context=context, out=tmp_path, on_error="ignore")
    assert result.ending == "limit:steps"
    assert "supersteps" in result.message


def test_the_recursion_limit_counts_simulations():
    few, many = (mcts.build(backpropagate=backpropagate(simulations=n)) for n in (10, 1_000))
    limits = Limits(steps=1, trials=1)
    assert driver._max_supersteps(many, limits) - driver._max_supersteps(few, limits) >= 2 * 5 * 990
