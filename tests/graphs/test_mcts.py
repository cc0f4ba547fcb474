"""MCTS: statistics add up, UCT picks as it should, a search is reused, and it solves what ReAct does not."""

import asyncio
from itertools import pairwise
from math import log, sqrt
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lookahead import RATING, WatchedBlocks, played

from certigraph.adapters.blocksworld.responder import respond
from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.run import run
from certigraph.graphs import mcts, react
from certigraph.nodes.candidate_lists import listed
from certigraph.nodes.imagine import predicted
from certigraph.nodes.tree import backpropagate, most_visited, select
from certigraph.state.appraising import Foreseen
from certigraph.state.factored import FactoredState, factored
from certigraph.state.records import Task
from certigraph.state.tree import Node, Simulation, below, digest, leaf_of, solution, tally
from certigraph.state.tree import Path as Way


def node(*path: str, place: str = "", reward: float = 0.5, **foreseen: Any) -> Node:
    outcome = Foreseen(action=path[-1], observation=place, **foreseen)
    state = factored({"block": {"location": place or "/".join(path)}})
    return Node(path=path, foreseen=outcome, reward=reward, factored=state, goal=FactoredState())


def passed(**values: float) -> list[Simulation]:
    """Simulations of paths whose actions are letters."""
    return [Simulation(path=tuple(path), value=value) for path, value in values.items()]


TREE = [node("a"), node("b"), node("a", "c")]
PASSES = passed(a=0.2, b=0.6, ac=0.8)


def view(tree: Any = (), passes: Any = (), leaf: Way = (), imagined: Any = (), **more: Any) -> Any:
    task = Task(benchmark="blocksworld", id="4-0", goal="x")
    seen = {"task": task, "tree": tree, "simulations": passes, "leaf": leaf, "imagined": imagined}
    return {"searched": 0, "visited": [], **seen, **more}


def backed(**given: Any) -> dict[str, Any]:
    return asyncio.run(backpropagate(simulations=5)(view(**given), None))  # type: ignore[arg-type]


def test_a_simulation_counts_for_every_node_on_its_path():
    counts = tally(PASSES)
    assert counts.visits == {(): 3, ("a",): 2, ("b",): 1, ("a", "c"): 1}
    assert counts.mean(("a",)) == pytest.approx(0.5)
    assert counts.mean(()) == pytest.approx(1.6 / 3)


def test_uct_is_the_mean_and_what_was_visited_little():
    counts = tally(PASSES)
    assert counts.uct(("a",), 0.3) == pytest.approx(0.5 + 0.3 * sqrt(log(3) / 2))
    assert counts.uct(("a",), 0.0) == pytest.approx(0.5)
    assert counts.uct(("new",), 0.0) == float("inf")


@pytest.mark.parametrize(("c", "leaf"), [(0.0, ("b",)), (0.3, ("b",))])
def test_the_leaf_is_found_by_the_highest_bound(c: float, leaf: Way):
    assert leaf_of(TREE, tally(PASSES), c, Random(0)) == leaf


def test_a_node_that_did_well_often_gives_way_to_one_that_was_hardly_seen():
    many = [*passed(a=0.6), *PASSES[2:], *[Simulation(path=("a", "c"), value=0.6)] * 50, *passed(b=0.5)]
    assert leaf_of(TREE, tally(many), 0.0, Random(0)) == ("a", "c")
    assert leaf_of(TREE, tally(many), 0.3, Random(0)) == ("b",)


def test_equals_are_drawn_the_same_way_for_the_same_seed():
    tree = [node(name) for name in "abcdefgh"]
    counts = tally([Simulation(path=one.path, value=0.5) for one in tree])
    drawn = [leaf_of(tree, counts, 0.3, Random(seed)) for seed in range(20)]
    assert drawn == [leaf_of(tree, counts, 0.3, Random(seed)) for seed in range(20)]
    assert len(set(drawn)) > 1


def taken(tree: list[Node]) -> str:
    return str(asyncio.run(most_visited(view(tree, PASSES), None))["action"].text)  # type: ignore[arg-type]


def test_what_is_new_is_hung_under_the_leaf_and_counted():
    update = backed(tree=TREE, leaf=("b",), imagined=[node("b", "d", reward=0.7)])
    assert [one.path for one in update["tree"]] == [("b", "d")]
    assert update["simulations"] == [Simulation(path=("b", "d"), value=0.7)]
    assert update["searching"]


def test_a_state_that_is_known_is_no_new_node_and_its_leaf_counts_for_nothing():
    update = backed(tree=TREE, leaf=("b",), imagined=[node("b", "d", place="a/c")])
    assert update["tree"] == []
    assert update["simulations"] == [Simulation(path=("b",), value=0.0)]


def test_at_the_root_a_way_back_is_better_than_none():
    imagined = [node("a", place="here")]
    update = backed(imagined=imagined, visited=[digest(imagined[0].factored)])
    assert update["tree"] == imagined


def test_a_way_to_the_goal_is_worth_one_and_ends_the_search():
    update = backed(imagined=[node("a", reward=0.4, solved=True, done=True), node("b", done=True)])
    assert [one.value for one in update["simulations"]] == [1.0, 0.0]
    assert not update["searching"]


def test_the_search_ends_after_its_simulations():
    assert not backed(imagined=[node("a")], searched=4)["searching"]
    assert backed(imagined=[node("a")], searched=3)["searching"]


def test_the_most_visited_action_is_taken_but_for_a_known_way_to_the_goal():
    assert taken(TREE) == "a"
    solved = [*TREE, node("b", "e", solved=True)]
    assert taken(solved) == "b"
    assert solution(solved) == ("b", "e")


def test_what_was_searched_below_an_action_is_kept_without_it():
    tree, passes = below(TREE, PASSES, "a")
    assert [one.path for one in tree] == [("c",)]
    assert passes == [Simulation(path=(), value=0.2), Simulation(path=("c",), value=0.8)]


def searching(**more: Any) -> Any:
    return mcts.build(**RATING, propose=listed, **more)


def test_it_needs_no_model_and_never_returns_to_a_state(tmp_path: Path):
    benchmark = WatchedBlocks()
    result = run(searching(), benchmark, "4-0", context=Context(model="scripted:first"), out=tmp_path)
    assert result.ending == "goal"
    assert result.usage.calls == 0
    views = [turn.observation for turn in result.state["turns"]]
    assert len(set(views)) == len(views)
    assert benchmark.worlds[0].done == [turn.action for turn in result.state["turns"]]


def test_its_visits_add_up_along_a_run(tmp_path: Path):
    result = played(searching(backpropagate=backpropagate(simulations=6)), tmp_path, task="6-1", steps=1)
    expanded = [e.update for e in result.trajectory.events if e.node == "backpropagate"]
    assert len(expanded) == 6
    passes = [Simulation.model_validate(one) for update in expanded for one in update["simulations"]]
    counts = tally(passes)
    assert counts.visits[()] == len(passes)
    ways = [way for way in counts.visits if way]
    assert all(counts.visits[way] <= counts.visits[way[:-1]] for way in ways)
    grown = [one["path"] for update in expanded for one in update["tree"]]
    assert len({tuple(path) for path in grown}) == len(grown)


def test_what_it_searched_before_is_not_searched_again(tmp_path: Path):
    result = played(searching(), tmp_path, respond)
    nodes = [event.node for event in result.trajectory.events]
    known = [after for node, after in pairwise(nodes) if node == "route"]
    assert known[-1] == "choose", "the way to the goal was known"


def test_a_tree_that_was_wrong_is_given_up(tmp_path: Path):
    def wrong(prompt: str, form: dict[str, Any]) -> Any:
        answer = respond(prompt, form)
        return {"outcomes": [f"{text} Or so." for text in answer["outcomes"]]} if "outcomes" in answer else answer

    result = played(searching(imagine=predicted), tmp_path, wrong, steps=2)
    assert result.state["tree"] == result.state["simulations"] == []


def test_it_solves_what_a_random_react_does_not(tmp_path: Path):
    context = Context(model="scripted:random", limits=Limits(steps=12))
    deep = searching(backpropagate=backpropagate(simulations=40))
    plain, searched = (run(g, "blocksworld", "4-1", context=context, out=tmp_path) for g in (react.build(), deep))
    assert (plain.ending, searched.ending) == ("gave_up", "goal")


@pytest.mark.slow
def test_with_statefactorys_reward_it_solves_generated_tasks_without_a_call(tmp_path: Path):
    context = Context(model="scripted:random", limits=Limits(steps=40))
    tasks = [f"4-{seed}" for seed in range(6)]
    searched = [run(mcts.build(propose=listed), "blocksworld", t, context=context, out=tmp_path) for t in tasks]
    plain = [run(react.build(), "blocksworld", t, context=context, out=tmp_path) for t in tasks]
    assert [one.ending for one in searched] == ["goal"] * len(tasks)
    assert {one.usage.calls for one in searched} == {0}
    assert sum(one.ending == "goal" for one in plain) < len(tasks)


def test_select_looks_where_it_is_told(tmp_path: Path):
    narrow = played(searching(select=select(c=0.0, seed=1)), tmp_path / "a", task="5-1", steps=1)
    wide = played(searching(select=select(c=50.0, seed=1)), tmp_path / "b", task="5-1", steps=1)
    assert deepest(wide) <= deepest(narrow)


def deepest(result: Any) -> int:
    updates = [e.update for e in result.trajectory.events if e.node == "select"]
    return max(len(update["leaf"]) for update in updates)
