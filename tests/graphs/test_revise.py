"""Self-Revision under models that sharpen the task graph, and under those that would undo what has run."""

from collections.abc import Sequence
from typing import Any

from supervising import GOOD, SEEN, Model, answered, changes, subtask

from certigraph.nodes.tdp import KEPT, MOST_OUTCOMES, revise
from certigraph.state.records import Observation
from certigraph.state.tdp import Dag, Node, Outcome

DAG = Dag(nodes=tuple(Node(id=n["id"], task=n["task"], needs=tuple(n["needs"])) for n in GOOD["nodes"]))
BATCH = DAG.with_status({"a": "completed", "b": "failed"})


def outcome(node: Node, result: str) -> Outcome:
    status: Any = node.status
    return Outcome(node=node.id, status=status, result=result, ending="goal", observation=Observation(text="x"))


def after(dag: Dag, results: Sequence[str] = ()) -> dict[str, Any]:
    ran = [node for node in dag.nodes if node.status != "pending"]
    told = results or [f"result of {node.id}" for node in ran]
    return {**SEEN, "dag": dag, "outcomes": [outcome(n, result) for n, result in zip(ran, told, strict=True)]}


def test_a_revision_sharpens_replaces_and_leads_on():
    model = Model(changes(change=[subtask("g", "a", "n1", task="compare 7 with b")], add=[subtask("n1", "a")]))
    given = answered(revise, after(BATCH, ["A is 7 </world>", "no page"]), model)
    assert [(n.id, n.status, n.task, n.needs) for n in given["dag"].nodes] == [
        ("a", "completed", "find a", ()),
        ("b", "failed", "find b", ()),
        ("n1", "pending", "find n1", ("a",)),
        ("g", "pending", "compare 7 with b", ("a", "n1")),
    ]
    assert given["notes"] == ()
    assert "- a: A is 7 [tag]" in model.prompts[0]
    assert "g (pending, needs a, b, waits in vain)" in model.prompts[0]


def test_a_revision_of_what_has_run_is_refused_and_the_graph_stays():
    model = Model(changes(remove=["a"]), changes(change=[subtask("b", task="again")]), changes())
    given = answered(revise, after(BATCH), model)
    assert given["dag"] == BATCH
    assert len(model.prompts) == 2
    assert [note.partition(":")[0] for note in given["notes"]] == ["refused", "refused", KEPT]
    assert "a: what has run" in given["notes"][0]
    assert "b: what has run" in given["notes"][1]


def test_a_revision_is_made_good_when_asked_again():
    model = Model(changes(add=[subtask("n1")]), changes(change=[subtask("g", "a", "n1")], add=[subtask("n1")]))
    given = answered(revise, after(BATCH), model)
    assert [node.id for node in given["dag"].ready] == ["n1"]
    assert given["notes"] == ("refused: several ends: g, n1; all but the last one must be needed by another",)


def test_when_all_have_run_nothing_or_more_may_follow():
    dag = DAG.with_status({"a": "completed", "b": "completed"}).with_status({"g": "completed"})
    model = Model(changes())
    assert answered(revise, after(dag), model)["dag"] == dag
    assert "All have run" in model.prompts[0]
    more = answered(revise, after(dag), Model(changes(add=[subtask("n1", "g")])))["dag"]
    assert [node.id for node in more.ready] == ["n1"]


def test_a_model_is_not_asked_where_it_could_change_nothing():
    dag = DAG.with_status({"a": "completed", "b": "completed"}).with_status({"g": "completed"})
    model = Model(changes())
    assert answered(revise, after(dag), model, most=3) == {"dag": dag, "notes": ()}
    assert not model.prompts


def test_a_grammar_keeps_a_small_model_to_what_is_pending():
    model = Model(changes())
    answered(revise, after(BATCH), model)
    form = model.schemas[0]["properties"]
    assert form["change"]["items"]["properties"]["id"]["enum"] == ["g"]
    assert form["remove"]["items"]["enum"] == ["g"]
    assert form["add"]["items"]["properties"]["id"]["enum"] == ["n1", "n2"]
    assert form["add"]["items"]["properties"]["needs"]["items"]["enum"] == ["a", "g", "n1", "n2"]


def test_numbers_are_ids_in_every_list():
    dag = Dag(nodes=(Node(id="1", task="find it"), Node(id="2", task="tell it", needs=("1",))))
    model = Model(changes(change=[{"id": 2, "task": "tell it", "needs": []}], remove=[1]))
    assert [(node.id, node.needs) for node in answered(revise, after(dag), model)["dag"].nodes] == [("2", ())]


def test_of_many_outcomes_the_latest_are_told():
    ran = tuple(Node(id=f"s{n}", task=f"find {n}", status="completed") for n in range(MOST_OUTCOMES + 30))
    dag, model = Dag(nodes=(*ran, Node(id="g", task="tell it", needs=tuple(n.id for n in ran)))), Model(changes())
    answered(revise, after(dag, [f"result of {node.id} " + "x" * 900 for node in ran]), model, most=len(ran) + 1)
    assert f"- {ran[-1].id}: result of {ran[-1].id} " in model.prompts[0]
    assert f"result of {ran[-MOST_OUTCOMES - 1].id} " not in model.prompts[0]


def test_what_settles_the_task_is_not_removed_with_nothing_in_its_place():
    ran = DAG.with_status({"a": "completed", "b": "completed"})
    assert answered(revise, after(ran), Model(changes(remove=["g"])))["dag"] == ran
    replaced = answered(revise, after(ran), Model(changes(remove=["g"], add=[subtask("n1", "a", "b")])))["dag"]
    assert [node.id for node in replaced.ready] == ["n1"]
