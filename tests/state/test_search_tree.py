"""The search tree of MCTS: statistics add up, UCT picks as it should, and what is known is not a new node."""

import asyncio
from math import log, sqrt
from random import Random
from typing import Any

import pytest

from certigraph.nodes.mcts import backpropagate, most_visited, select
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.state.rewards import (
    FactoredState,
    PredictedOutcome,
    digest_of,
    to_factored,
)
from certigraph.state.search_tree import (
    ActionPath,
    SearchNode,
    Simulation,
    children_of,
    count_visits,
    select_leaf,
    shortest_solution,
    subtree_of,
)


def node(*path: str, place: str = "", reward: float = 0.5, **foreseen: Any) -> SearchNode:
    outcome = PredictedOutcome(action=path[-1], observation=place, **foreseen)
    state = to_factored({"block": {"location": place or "/".join(path)}})
    return SearchNode(path=path, foreseen=outcome, reward=reward, factored=state, goal=FactoredState())


def passed(**values: float) -> list[Simulation]:
    """Simulations of paths whose actions are letters."""
    return [Simulation(path=tuple(path), value=value) for path, value in values.items()]


TREE = [node("a"), node("b"), node("a", "c")]
PASSES = passed(a=0.2, b=0.6, ac=0.8)


def view(tree: Any = (), passes: Any = (), leaf: ActionPath = (), imagined: Any = (), **more: Any) -> Any:
    task = Task(benchmark="blocksworld", id="4-0", goal="x")
    seen = {"task": task, "tree": tree, "simulations": passes, "leaf": leaf, "imagined": imagined}
    return {"searched": 0, "visited": [], **seen, **more}


def backed(**given: Any) -> dict[str, Any]:
    return asyncio.run(backpropagate(simulations=5)(view(**given), None))  # type: ignore[arg-type]


def test_a_simulation_counts_for_every_node_on_its_path():
    counts = count_visits(PASSES)
    assert counts.visits == {(): 3, ("a",): 2, ("b",): 1, ("a", "c"): 1}
    assert counts.mean(("a",)) == pytest.approx(0.5)
    assert counts.mean(()) == pytest.approx(1.6 / 3)


def test_uct_is_the_mean_and_what_was_visited_little():
    counts = count_visits(PASSES)
    assert counts.uct(("a",), 0.3) == pytest.approx(0.5 + 0.3 * sqrt(log(3) / 2))
    assert counts.uct(("a",), 0.0) == pytest.approx(0.5)
    assert counts.uct(("new",), 0.0) == float("inf")


@pytest.mark.parametrize(("c", "leaf"), [(0.0, ("b",)), (0.3, ("b",))])
def test_the_leaf_is_found_by_the_highest_bound(c: float, leaf: ActionPath):
    assert select_leaf(TREE, count_visits(PASSES), c, Random(0)) == leaf


def test_a_node_that_did_well_often_gives_way_to_one_that_was_hardly_seen():
    many = [*passed(a=0.6), *PASSES[2:], *[Simulation(path=("a", "c"), value=0.6)] * 50, *passed(b=0.5)]
    assert [selected(many, c=c) for c in (0.0, 0.3)] == [("a", "c"), ("b",)]


def selected(passes: list[Simulation], **options: Any) -> ActionPath:
    return tuple(asyncio.run(select(**options)(view(TREE, passes), None))["leaf"])  # type: ignore[arg-type]


def test_equals_are_drawn_the_same_way_for_the_same_seed():
    tree = [node(name) for name in "abcdefgh"]
    counts = count_visits([Simulation(path=one.path, value=0.5) for one in tree])
    drawn = [select_leaf(tree, counts, 0.3, Random(seed)) for seed in range(20)]
    assert drawn == [select_leaf(tree, counts, 0.3, Random(seed)) for seed in range(20)]
    assert len({selected([], seed=seed) for seed in range(20)}) > 1
    assert len(set(drawn)) > 1


def taken(tree: list[SearchNode]) -> str:
    return str(asyncio.run(most_visited(view(tree, PASSES), None))["action"].text)  # type: ignore[arg-type]


def test_what_is_new_is_hung_under_the_leaf_and_counted():
    update = backed(tree=TREE, leaf=("b",), imagined=[node("b", "d", reward=0.7)])
    assert [one.path for one in update["tree"]] == [("b", "d")]
    assert update["simulations"] == [Simulation(path=("b", "d"), value=0.7)]
    assert update["searching"]


def test_a_state_that_is_known_is_not_a_new_node_and_its_leaf_counts_for_nothing():
    update = backed(tree=TREE, leaf=("b",), imagined=[node("b", "d", place="a/c")])
    assert update["tree"] == []
    assert update["simulations"] == [Simulation(path=("b",), value=0.0)]


def test_at_the_root_a_way_back_is_better_than_none():
    imagined = [node("a", place="here")]
    update = backed(imagined=imagined, visited=[digest_of(imagined[0].factored)])
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
    assert shortest_solution(solved) == ("b", "e")


def test_what_was_searched_below_an_action_is_kept_without_it():
    tree, passes = subtree_of(TREE, PASSES, "a")
    assert [one.path for one in tree] == [("c",)]
    assert passes == [Simulation(path=(), value=0.2), Simulation(path=("c",), value=0.8)]


def test_nothing_imagined_is_nothing_to_choose_from():
    with pytest.raises(Fault, match="let `propose` return an action"):
        taken([])


def test_where_the_world_ended_a_leaf_counts_again_for_what_it_was_worth():
    ended = [node("a", solved=True, done=True), node("b", done=True)]
    assert backed(tree=ended, leaf=("a",))["simulations"] == [Simulation(path=("a",), value=1.0)]
    assert backed(tree=ended, leaf=("b",))["simulations"] == [Simulation(path=("b",), value=0.0)]


def test_a_state_is_the_same_in_whatever_order_it_came_to_be_known():
    facts = {"apple": {"location": "desk", "heat": "warm"}, "agent": {"location": "desk"}}
    other = {name: dict(reversed(has.items())) for name, has in reversed(facts.items())}
    assert digest_of(to_factored(facts)) == digest_of(to_factored(other))
    assert digest_of(to_factored(facts)) != digest_of(to_factored({**facts, "agent": {"location": "shelf"}}))


def test_the_root_of_a_tree_is_nobodys_child():
    first, second = node("a"), node("a", "b")
    root = first.model_copy(update={"path": ()})
    assert children_of([root, first, second], ()) == [first]
    assert children_of([root, first, second], ("a",)) == [second]
