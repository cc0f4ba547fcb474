"""Tests of `state.tdp`."""

import sys
from itertools import pairwise

import pytest
from helpers.worlds.dag_strategies import for_all, graphs, half_run_graphs, is_accepted, written
from hypothesis import strategies as st
from pydantic import ValidationError

from certigraph.state.graph_states import NodeUpdate, fold_state
from certigraph.state.tdp import (
    Dag,
    GraphRevision,
    Node,
    StatusChanges,
    apply_revision,
    decomposition_problems,
    drop_repetitions,
    find_cycle,
    graph_problems,
    new_ids,
    refusal_reasons,
    remaining_capacity,
    repair_nodes,
    sinks,
    update_dag,
)
from certigraph.state.trajectory import serializer

# Task graphs: what is one, and what may run when.

# --- what is a task graph


@pytest.mark.slow
@for_all(written)
def test_a_graph_is_made_exactly_where_nothing_is_wrong_with_its_nodes(nodes: list[Node]):
    assert is_accepted(nodes) == (not list(graph_problems(nodes)))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([Node(id="a", task="")], "sub-tasks without id or text: a"),
        ([Node(id="a", task="x"), Node(id="a", task="y")], "ids used twice: a"),
        ([Node(id="a", task="x", needs=("z",))], "needs that are not a sub-task: a needs z"),
        ([Node(id="a", task="x", needs=("a",))], "sub-tasks that wait for each other: a -> a"),
        ([Node(id="a", task="x", needs=("b",)), Node(id="b", task="y", needs=("a",))], "a -> b -> a"),
        ([Node(id="a", task="x"), Node(id="b", task="y"), Node(id="c", task="z")], "several ends: a, b, c"),
    ],
)
def test_what_is_none_is_refused_with_the_ids_at_fault(nodes: list[Node], message: str):
    with pytest.raises(ValidationError, match=message):
        Dag(nodes=tuple(nodes))


@for_all(written)
def test_each_of_a_cycle_is_needed_by_the_next(nodes: list[Node]):
    cycle = find_cycle({node.id: node for node in nodes}.values())
    needs = {node.id: node.needs for node in nodes}
    assert all(before in needs[after] for before, after in pairwise(cycle))
    assert cycle[:1] == cycle[-1:]


@pytest.mark.slow
@for_all(half_run_graphs())
def test_a_graph_comes_back_from_a_checkpoint_as_it_was(dag: Dag):
    restored = serializer().loads_typed(serializer().dumps_typed(dag))
    assert restored == dag
    assert isinstance(restored.nodes[0], Node)


# --- what may run


@pytest.mark.slow
@for_all(half_run_graphs())
def test_the_order_is_topological_and_what_comes_before_a_node_is_all_it_rests_on(dag: Dag):
    place = {id_: number for number, id_ in enumerate(dag.order())}
    assert sorted(place) == sorted(dag.by_id)
    for node in dag.nodes:
        assert all(place[need] < place[node.id] for need in node.needs)
        assert dag.before(node.id) == {*node.needs, *(id_ for need in node.needs for id_ in dag.before(need))}


@pytest.mark.slow
@for_all(half_run_graphs())
def test_what_is_ready_has_not_run_and_rests_on_completed_nodes_alone(dag: Dag):
    for node in dag.pending:
        assert (node in dag.ready) == all(dag.by_id[need].status == "completed" for need in node.needs)
    assert {*dag.ready} <= {*dag.pending}


@pytest.mark.slow
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


@for_all(graphs(), st.data())
def test_statuses_that_a_run_stores_give_the_graph_that_it_has(dag: Dag, data: st.DataObject):
    updates: list[Dag | StatusChanges] = [dag]
    while batch := dag.ready[: data.draw(st.integers(0, 6))]:
        statuses = {node.id: data.draw(st.sampled_from(("completed", "failed"))) for node in batch}
        dag = dag.with_status(statuses)
        updates.append(StatusChanges(statuses=statuses))
    assert update_dag(Dag(), updates) == dag
    lines = [NodeUpdate({"dag": update.as_json()}) for update in updates]
    assert fold_state("tdp", {}, lines)["dag"] == dag


def test_a_status_of_a_sub_task_that_there_is_not_is_refused_by_its_id():
    with pytest.raises(ValueError, match="no sub-tasks of the task graph: z"):
        update_dag(Dag(nodes=(Node(id="a", task="x"),)), [StatusChanges(statuses={"z": "failed"})])


def test_a_graph_of_ones_own_may_write_anything_under_the_name_of_the_task_graph():
    assert fold_state("mine:graph", {}, [NodeUpdate({"dag": "a->b", "outcomes": []})])["dag"] == "a->b"


@pytest.mark.slow
def test_scheduling_costs_at_most_the_square_of_the_nodes():
    assert calls_to_schedule(200) < 4.5 * calls_to_schedule(100)  # calls, not seconds: no machine is too slow


def calls_to_schedule(size: int) -> int:
    """The calls of Python functions while all nodes are asked for their predecessors and completed, in batches."""
    names = [f"n{number}" for number in range(size)]
    nodes = [Node(id=name, task=name, needs=tuple(names[: n // 8 * 8][-8:])) for n, name in enumerate(names[:-1])]
    dag, calls = Dag(nodes=(*nodes, Node(id=names[-1], task="all", needs=tuple(names[-8:-1])))), 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        while batch := dag.ready:
            assert all(dag.before(node.id) < set(dag.order()) for node in batch)
            dag = dag.with_status({node.id: "completed" for node in batch})
    finally:
        sys.setprofile(before)
    assert not dag.pending
    return calls


# Anything that a model writes for a task graph is made one, and a task graph stays as it is.

new = written.map(lambda nodes: [node.model_copy(update={"status": "pending"}) for node in nodes])


@pytest.mark.slow
@for_all(new, st.integers(1, 6))
def test_whatever_is_written_is_mended_into_a_graph_that_nothing_is_wrong_with(nodes: list[Node], most: int):
    made = repair_nodes(nodes, goal="all of it", most=most)
    assert is_accepted([*made.nodes])
    assert not list(decomposition_problems(made.nodes, most))
    assert repair_nodes(made.nodes, goal="all of it", most=most) == (made.nodes, ())
    assert bool(made.notes) == bool(list(decomposition_problems(tuple(nodes), most)))


@pytest.mark.slow
@for_all(graphs())
def test_a_graph_without_flaws_stays_as_it_is(dag: Dag):
    assert repair_nodes(dag.nodes, goal="all of it", most=6) == (dag.nodes, ())


@pytest.mark.slow
@for_all(graphs(), st.integers(1, 5))
def test_of_too_many_nodes_the_goal_and_what_can_be_done_first_are_kept(dag: Dag, most: int):
    kept = Dag(nodes=repair_nodes(dag.nodes, goal="all of it", most=most).nodes)
    assert dag.goal is not None
    assert kept.goal is not None
    assert kept.goal.id == dag.goal.id
    assert len(kept.nodes) == min(most, len(dag.nodes))
    assert all(
        kept.by_id[node.id].needs == node.needs for node in dag.nodes if node.id in kept.by_id and node != dag.goal
    )


def test_mending_leaves_out_what_is_incomplete_or_repeated_and_joins_the_ends():
    nodes = [
        Node(id="a", task="find A", needs=("b",)),
        Node(id="b", task="find B", needs=("a", "z")),
        Node(id="c", task=""),
        Node(id="a", task="find C"),
        Node(id="d", task="find D"),
        Node(id="e", task="find D"),
    ]
    made = repair_nodes(nodes, goal="all of it", most=8)
    assert [(node.id, node.needs) for node in made.nodes] == [("a", ()), ("b", ("a",)), ("d", ("b",))]
    assert len(made.notes) == 6


def test_of_nothing_the_task_itself_is_made():
    made = repair_nodes([], goal="all of it", most=8)
    assert made == ((Node(id="task", task="all of it"),), ("mended: the task is its only sub-task",))


# Self-Revision changes what is still to come, never what has run.


@st.composite
def revisions(draw: st.DrawFn, dag: Dag) -> GraphRevision:
    """Any revision; mostly one to be refused."""
    known = [node.id for node in dag.nodes] + new_ids(dag, 2)
    some = st.lists(st.sampled_from(known), max_size=2)
    needs = st.lists(st.sampled_from(known), max_size=3, unique=True)
    change, add = ([Node(id=i, task="anew", needs=tuple(draw(needs))) for i in draw(some)] for _ in range(2))
    return GraphRevision(tuple(change), tuple(add), tuple(draw(some)))


@st.composite
def valid_revisions(draw: st.DrawFn, dag: Dag) -> GraphRevision:
    """One that takes nodes out, adds some that rest on completed ones, and leads all that is left to one end."""
    remove = [node.id for node in dag.pending if node != dag.goal and draw(st.booleans())]
    usable = [node.id for node in dag.nodes if node.status == "completed"]
    add = list[Node]()
    for id_ in new_ids(dag, draw(st.integers(0, min(remaining_capacity(dag, 6), 2)))):
        needs = draw(st.lists(st.sampled_from(usable), unique=True)) if usable else []
        add.append(Node(id=id_, task="new", needs=tuple(needs)))
        usable.append(id_)
    dead = {*remove, *(node.id for node in dag.nodes if node.status == "failed")}
    left = [node for node in dag.pending if node.id not in remove]
    kept = [Node(id=n.id, task="anew", needs=tuple(need for need in n.needs if need not in dead)) for n in left]
    return GraphRevision(*_to_one_end(kept, add), tuple(remove))


def _to_one_end(kept: list[Node], add: list[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    ends = [node.id for node in sinks([*kept, *add])]
    first_ends = [node.id for node in sinks(kept)]
    goal = first_ends[-1] if first_ends else (ends or [""])[-1]
    others = tuple(end for end in ends if end != goal)
    joined = (
        [n.model_copy(update={"needs": n.needs + others}) if n.id == goal else n for n in part] for part in (kept, add)
    )
    change, added = joined
    return tuple(change), tuple(added)


@pytest.mark.slow
@for_all(half_run_graphs(), st.data())
def test_a_valid_revision_is_carried_out_and_the_graph_still_knows_what_settles_the_task(dag: Dag, data: st.DataObject):
    revision = data.draw(valid_revisions(dag))
    assert not list(refusal_reasons(dag, revision, 6))
    after = Dag(nodes=apply_revision(dag, revision))
    assert all(after.by_id[node.id] == node for node in (*revision.change, *revision.add))
    assert {*after.by_id} == {*dag.by_id, *(node.id for node in revision.add)} - {*revision.remove}
    goal = after.goal
    while after.ready:
        after = after.with_status({node.id: "completed" for node in after.ready})
    assert not after.pending
    assert after.goal is not None
    assert goal is not None
    assert after.goal.id == goal.id


@pytest.mark.slow
@for_all(half_run_graphs(), st.data())
def test_whatever_the_revision_what_has_run_stays_byte_identical(dag: Dag, data: st.DataObject):
    revision = data.draw(revisions(dag) | valid_revisions(dag))
    if not list(refusal_reasons(dag, revision, 6)):
        dumps = [
            [n.model_dump_json() for n in g.nodes if n.status != "pending"]
            for g in (dag, Dag(nodes=apply_revision(dag, revision)))
        ]
        assert dumps[0] == dumps[1]


DONE = Dag(
    nodes=(
        Node(id="a", task="x", status="completed"),
        Node(id="b", task="y", status="failed"),
        Node(id="c", task="z", needs=("a",)),
        Node(id="g", task="all", needs=("b", "c")),
    )
)


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        (GraphRevision(remove=("a",)), "a: "),
        (GraphRevision(change=(Node(id="b", task="w"),)), "b: "),
        (GraphRevision(remove=("z",)), "no sub-task z"),
        (GraphRevision(remove=("c",)), "g needs c"),
        (GraphRevision(remove=("c", "g")), "c, g: "),
        (GraphRevision(change=(Node(id="c", task="w", needs=("g",)),)), "g -> c -> g"),
        (GraphRevision(change=(Node(id="c", task="w", needs=("b",)),)), "c needs b"),
        (GraphRevision(add=(Node(id="d", task="w"),)), ": g, d"),
        (GraphRevision(add=(Node(id="a", task="w"),)), "twice: a"),
        (GraphRevision(add=tuple(Node(id=f"n{n}", task="w") for n in range(3))), "6 sub-tasks"),
        (GraphRevision(change=(Node(id="c", task="w"),), remove=("c",)), "c: changed twice"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_the_ids(revision: GraphRevision, message: str):
    assert any(message in refusal for refusal in refusal_reasons(DONE, revision, 5))


def test_models_repeat_what_is_there_and_that_is_not_a_change():
    repeated = GraphRevision(change=tuple(node.model_copy(update={"status": "pending"}) for node in DONE.nodes))
    assert drop_repetitions(DONE, repeated) == GraphRevision()


def test_nodes_that_have_failed_do_not_count_towards_the_limit():
    dag = Dag(nodes=(Node(id="a", task="x"), Node(id="g", task="y", needs=("a",))))
    assert (
        remaining_capacity(dag, 3),
        remaining_capacity(dag.with_status({"a": "failed"}), 3),
        remaining_capacity(dag, 1),
    ) == (1, 2, 0)
    assert new_ids(Dag(nodes=(Node(id="n2", task="x"),)), 2) == ["n1", "n3"]
