"""Self-Revision changes what is still to come, never what has run."""

import pytest
from dag_strategies import for_all, running
from hypothesis import strategies as st

from certigraph.state.tdp import Dag, Node, Revision, effective, new_ids, refusals, revised, room, sinks


@st.composite
def revisions(draw: st.DrawFn, dag: Dag) -> Revision:
    """Any revision; mostly one to be refused."""
    known = [node.id for node in dag.nodes] + new_ids(dag, 2)
    some = st.lists(st.sampled_from(known), max_size=2)
    needs = st.lists(st.sampled_from(known), max_size=3, unique=True)
    change, add = ([Node(id=i, task="anew", needs=tuple(draw(needs))) for i in draw(some)] for _ in range(2))
    return Revision(tuple(change), tuple(add), tuple(draw(some)))


@st.composite
def sound_revisions(draw: st.DrawFn, dag: Dag) -> Revision:
    """One that takes nodes out, adds some that rest on completed ones, and leads all that is left to one end."""
    remove = [node.id for node in dag.pending if node != dag.goal and draw(st.booleans())]
    usable = [node.id for node in dag.nodes if node.status == "completed"]
    add = list[Node]()
    for id_ in new_ids(dag, draw(st.integers(0, min(room(dag, 6), 2)))):
        needs = draw(st.lists(st.sampled_from(usable), unique=True)) if usable else []
        add.append(Node(id=id_, task="new", needs=tuple(needs)))
        usable.append(id_)
    dead = {*remove, *(node.id for node in dag.nodes if node.status == "failed")}
    left = [node for node in dag.pending if node.id not in remove]
    kept = [Node(id=n.id, task="anew", needs=tuple(need for need in n.needs if need not in dead)) for n in left]
    return Revision(*_to_one_end(kept, add), tuple(remove))


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


@for_all(running(), st.data())
def test_a_sound_revision_is_carried_out_and_the_graph_still_knows_what_settles_the_task(dag: Dag, data: st.DataObject):
    revision = data.draw(sound_revisions(dag))
    assert not list(refusals(dag, revision, 6))
    after = Dag(nodes=revised(dag, revision))
    assert all(after.by_id[node.id] == node for node in (*revision.change, *revision.add))
    assert {*after.by_id} == {*dag.by_id, *(node.id for node in revision.add)} - {*revision.remove}
    goal = after.goal
    while after.ready:
        after = after.with_status({node.id: "completed" for node in after.ready})
    assert not after.pending
    assert after.goal is not None
    assert goal is not None
    assert after.goal.id == goal.id


@for_all(running(), st.data())
def test_whatever_the_revision_what_has_run_stays_byte_identical(dag: Dag, data: st.DataObject):
    revision = data.draw(revisions(dag) | sound_revisions(dag))
    if not list(refusals(dag, revision, 6)):
        dumps = [
            [n.model_dump_json() for n in g.nodes if n.status != "pending"]
            for g in (dag, Dag(nodes=revised(dag, revision)))
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
    ("revision", "told"),
    [
        (Revision(remove=("a",)), "a: what has run cannot be changed or removed; add a new sub-task with a new id"),
        (Revision(change=(Node(id="b", task="w"),)), "b: what has run cannot be changed"),
        (Revision(remove=("z",)), "there is no sub-task z to change or remove"),
        (Revision(remove=("c",)), "needs that are no sub-task: g needs c"),
        (Revision(remove=("c", "g")), "c, g: without them nothing is left that settles the task"),
        (Revision(change=(Node(id="c", task="w", needs=("g",)),)), "sub-tasks that wait for each other: g -> c -> g"),
        (Revision(change=(Node(id="c", task="w", needs=("b",)),)), "c needs b, which failed: it would never be done"),
        (Revision(add=(Node(id="d", task="w"),)), "several ends: g, d"),
        (Revision(add=(Node(id="a", task="w"),)), "ids used twice: a"),
        (
            Revision(add=tuple(Node(id=f"n{n}", task="w") for n in range(3))),
            "6 sub-tasks that have not failed, at most 5",
        ),
        (Revision(change=(Node(id="c", task="w"),), remove=("c",)), "c: changed twice, or changed and removed"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_the_ids(revision: Revision, told: str):
    assert any(told in refusal for refusal in refusals(DONE, revision, 5))


def test_models_repeat_what_is_there_and_that_is_no_change():
    repeated = Revision(change=tuple(node.model_copy(update={"status": "pending"}) for node in DONE.nodes))
    assert effective(DONE, repeated) == Revision()


def test_room_is_what_the_nodes_leave_that_have_not_failed():
    dag = Dag(nodes=(Node(id="a", task="x"), Node(id="g", task="y", needs=("a",))))
    assert (room(dag, 3), room(dag.with_status({"a": "failed"}), 3), room(dag, 1)) == (1, 2, 0)
    assert new_ids(Dag(nodes=(Node(id="n2", task="x"),)), 2) == ["n1", "n3"]
