"""Task graphs: what is one, and what may run when."""

import time
from itertools import pairwise

import pytest
from dag_strategies import accepted, for_all, graphs, running, written
from hypothesis import strategies as st
from pydantic import ValidationError

from certigraph.state.serialization import serializer
from certigraph.state.tdp import Dag, Node, cycle_in, problems

# --- what is a task graph


@for_all(written)
def test_a_graph_is_made_exactly_where_nothing_is_wrong_with_its_nodes(nodes: list[Node]):
    assert accepted(nodes) == (not list(problems(nodes)))


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([Node(id="a", task="")], "sub-tasks without id or text: a"),
        ([Node(id="a", task="x"), Node(id="a", task="y")], "ids used twice: a"),
        ([Node(id="a", task="x", needs=("z",))], "needs that are no sub-task: a needs z"),
        ([Node(id="a", task="x", needs=("a",))], "sub-tasks that wait for each other: a -> a"),
        ([Node(id="a", task="x", needs=("b",)), Node(id="b", task="y", needs=("a",))], "a -> b -> a"),
        ([Node(id="a", task="x"), Node(id="b", task="y"), Node(id="c", task="z")], "several ends: a, b, c"),
    ],
)
def test_what_is_none_is_refused_with_the_ids_at_fault(nodes: list[Node], told: str):
    with pytest.raises(ValidationError, match=told):
        Dag(nodes=tuple(nodes))


@for_all(written)
def test_each_of_a_cycle_is_needed_by_the_next(nodes: list[Node]):
    cycle = cycle_in({node.id: node for node in nodes}.values())
    needs = {node.id: node.needs for node in nodes}
    assert all(before in needs[after] for before, after in pairwise(cycle))
    assert cycle[:1] == cycle[-1:]


@for_all(running())
def test_a_graph_comes_back_from_a_checkpoint_as_it_was(dag: Dag):
    restored = serializer().loads_typed(serializer().dumps_typed(dag))
    assert restored == dag
    assert isinstance(restored.nodes[0], Node)


# --- what may run


@for_all(running())
def test_the_order_is_topological_and_what_comes_before_a_node_is_all_it_rests_on(dag: Dag):
    place = {id_: number for number, id_ in enumerate(dag.order())}
    assert sorted(place) == sorted(dag.by_id)
    for node in dag.nodes:
        assert all(place[need] < place[node.id] for need in node.needs)
        assert dag.before(node.id) == {*node.needs, *(id_ for need in node.needs for id_ in dag.before(need))}


@for_all(running())
def test_what_is_ready_has_not_run_and_rests_on_completed_nodes_alone(dag: Dag):
    for node in dag.pending:
        assert (node in dag.ready) == all(dag.by_id[need].status == "completed" for need in node.needs)
    assert {*dag.ready} <= {*dag.pending}


@for_all(graphs(), st.data())
def test_batch_by_batch_every_node_runs_once_and_the_goal_last(dag: Dag, data: st.DataObject):
    goal, ran = dag.goal, list[str]()
    assert goal is not None
    while batch := dag.ready[: data.draw(st.integers(1, 6))]:
        assert (goal.id in [node.id for node in batch]) == (len(dag.pending) == 1)
        ran += [node.id for node in batch]
        dag = dag.with_status({node.id: "completed" for node in batch})
        assert dag.goal is not None
        assert dag.goal.id == goal.id
    assert sorted(ran) == sorted(dag.by_id)


def test_what_needs_a_failed_node_waits_and_the_rest_runs():
    nodes = (Node(id="g", task="z", needs=("a", "b")), Node(id="a", task="x"), Node(id="b", task="y"))
    dag = Dag(nodes=nodes).with_status({"a": "failed"})
    assert [node.id for node in dag.ready] == ["b"]
    assert dag.with_status({"b": "completed"}).ready == ()


def test_statuses_that_no_schedule_gives_are_refused():
    dag = Dag(nodes=(Node(id="a", task="x"), Node(id="b", task="y"), Node(id="g", task="z", needs=("a", "b"))))
    with pytest.raises(ValidationError, match="several ends: a, b"):
        dag.with_status({"g": "completed"})


def test_two_hundred_nodes_are_scheduled_in_no_time():
    names = [f"n{number}" for number in range(200)]
    nodes = [Node(id=name, task=name, needs=tuple(names[: n // 8 * 8][-8:])) for n, name in enumerate(names[:-1])]
    dag = Dag(nodes=(*nodes, Node(id=names[-1], task="all", needs=tuple(names[-8:-1]))))
    began = time.process_time()
    while batch := dag.ready:
        assert all(dag.before(node.id) < set(dag.order()) for node in batch)
        dag = dag.with_status({node.id: "completed" for node in batch})
    assert not dag.pending
    assert time.process_time() - began < 1
