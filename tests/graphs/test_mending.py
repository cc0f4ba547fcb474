"""Anything that a model writes for a task graph is made one, and a task graph stays as it is."""

from dag_strategies import accepted, for_all, graphs, written
from hypothesis import strategies as st

from certigraph.state.tdp import Dag, Node, flaws, mended

new = written.map(lambda nodes: [node.model_copy(update={"status": "pending"}) for node in nodes])


@for_all(new, st.integers(1, 6))
def test_whatever_is_written_is_mended_into_a_graph_that_nothing_is_wrong_with(nodes: list[Node], most: int):
    made = mended(nodes, goal="all of it", most=most)
    assert accepted([*made.nodes])
    assert not list(flaws(made.nodes, most))
    assert mended(made.nodes, goal="all of it", most=most) == (made.nodes, ())
    assert bool(made.notes) == bool(list(flaws(tuple(nodes), most)))


@for_all(graphs())
def test_a_graph_without_flaws_stays_as_it_is(dag: Dag):
    assert mended(dag.nodes, goal="all of it", most=6) == (dag.nodes, ())


@for_all(graphs(), st.integers(1, 5))
def test_of_too_many_nodes_the_goal_and_what_can_be_done_first_are_kept(dag: Dag, most: int):
    kept = Dag(nodes=mended(dag.nodes, goal="all of it", most=most).nodes)
    assert dag.goal is not None
    assert kept.goal is not None
    assert kept.goal.id == dag.goal.id
    assert len(kept.nodes) == min(most, len(dag.nodes))
    assert all(
        kept.by_id[node.id].needs == node.needs for node in dag.nodes if node.id in kept.by_id and node != dag.goal
    )


def test_mending_says_what_it_did():
    nodes = [
        Node(id="a", task="find A", needs=("b",)),
        Node(id="b", task="find B", needs=("a", "z")),
        Node(id="c", task=""),
        Node(id="a", task="find C"),
        Node(id="d", task="find D"),
        Node(id="e", task="find D"),
    ]
    made = mended(nodes, goal="all of it", most=8)
    assert [(node.id, node.needs) for node in made.nodes] == [("a", ()), ("b", ("a",)), ("d", ("b",))]
    assert made.notes == (
        "mended: left out c, without id or text",
        "mended: left out a, the same id again",
        "mended: left out e, the same text again",
        "mended: b needs a",
        "mended: a needs nothing",
        "mended: d needs b",
    )


def test_of_nothing_the_task_itself_is_made():
    made = mended([], goal="all of it", most=8)
    assert made == ((Node(id="task", task="all of it"),), ("mended: the task is its only sub-task",))
