"""Tests of `nodes.tdp`."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.models.supervisor_models import GOOD, SEEN, TASK, SupervisorModel, call_operator, changes, nodes, subtask

from certigraph.adapters.models.schemas import MAX_READ_ITEMS
from certigraph.nodes.tdp import MAX_FLAW, UNCHANGED_NOTE, decompose, decompose_always, revise, revise_always
from certigraph.state.records import Observation
from certigraph.state.tdp import Dag, Node, Outcome

# Decompose under models that give a task graph, none at first, and none at all.

CYCLIC = nodes(subtask("a", "b"), subtask("b", "a"))
UNKNOWN = nodes(subtask("a", "z"))


@pytest.mark.parametrize(("bad", "ids"), [(CYCLIC, "a -> b -> a"), (UNKNOWN, "a needs z"), (nodes(), "no sub-task")])
def test_what_is_not_a_graph_is_refused_with_its_ids_and_requested_again(bad: Any, ids: str):
    model = SupervisorModel(bad, GOOD)
    given = call_operator(decompose, SEEN, model)
    assert [node.id for node in given["dag"].nodes] == ["a", "b", "g"]
    assert ids in model.prompts[1]
    assert any(ids in note for note in given["notes"])
    assert len(model.prompts) == 2


def test_a_model_sees_its_last_answer_alone_and_is_queried_twice_more_at_most():
    model = SupervisorModel(CYCLIC, UNKNOWN, nodes(subtask("c"), subtask("d")), GOOD)
    given = call_operator(decompose, SEEN, model)
    assert len(model.prompts) == 3
    assert "a needs z" in model.prompts[2]
    assert "a -> b -> a" not in model.prompts[2]
    assert [(node.id, node.needs) for node in given["dag"].nodes] == [("c", ()), ("d", ("c",))]
    assert given["notes"][-1] == "mended: d needs c"


def test_a_model_that_repeats_itself_is_not_queried_a_third_time():
    model = SupervisorModel(CYCLIC)
    given = call_operator(decompose, SEEN, model)
    assert len(model.prompts) == 2
    assert [(node.id, node.needs) for node in given["dag"].nodes] == [("a", ()), ("b", ("a",))]


def test_a_grammar_keeps_a_model_to_the_limit():
    model = SupervisorModel(GOOD)
    call_operator(decompose, SEEN, model, most=3, window=4_096)
    form = model.schemas[0]["properties"]["nodes"]
    assert (form["minItems"], form["maxItems"]) == (1, 3)
    assert form["items"]["properties"]["task"]["maxLength"] > 100


def test_numbers_are_ids_too():
    given = call_operator(
        decompose, SEEN, SupervisorModel(json.loads('{"nodes": [{"id": 1, "task": "find it", "needs": []}]}'))
    )
    assert given["dag"].nodes == (Node(id="1", task="find it"),)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad",
    [
        nodes(*(subtask(f"s{n}", f"s{n ^ 1}") for n in range(1500))),
        nodes(*(subtask("a") for _ in range(1500))),
        nodes(subtask("a", *(f"s{n}" for n in range(9000))), subtask("b", "a")),
    ],
    ids=["cycles", "one", "needs"],
)
def test_a_graph_of_any_size_is_repaired_in_no_time_and_reported_in_few_words(bad: Any):
    given = call_operator(decompose, SEEN, SupervisorModel(bad))
    assert 1 <= len(given["dag"].nodes) <= 4
    assert max(map(len, given["notes"])) <= MAX_FLAW + len("refused: ")
    assert len(given["notes"]) <= MAX_READ_ITEMS


def test_as_many_sub_tasks_as_are_allowed_are_read_however_many():
    chain = nodes(*(subtask(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(MAX_READ_ITEMS + 50)))
    given = call_operator(decompose, SEEN, SupervisorModel(chain), most=MAX_READ_ITEMS + 50)
    assert (len(given["dag"].nodes), given["notes"]) == (MAX_READ_ITEMS + 50, ())


# Self-Revision under models that sharpen the task graph, and under those that would undo what has run.

DAG = Dag(nodes=tuple(Node(id=n["id"], task=n["task"], needs=tuple(n["needs"])) for n in GOOD["nodes"]))
BATCH = DAG.with_status({"a": "completed", "b": "failed"})


def outcome(node: Node, result: str) -> Outcome:
    status: Any = node.status
    return Outcome(node=node.id, status=status, result=result, ending="goal", observation=Observation(text="x"))


def after(dag: Dag, results: Sequence[str] = ()) -> dict[str, Any]:
    ran = [node for node in dag.nodes if node.status != "pending"]
    results_given = results or [f"result of {node.id}" for node in ran]
    outcomes = [outcome(n, result) for n, result in zip(ran, results_given, strict=True)]
    return {**SEEN, "dag": dag, "outcomes": outcomes, "batch": tuple(node.id for node in ran), "steps": 0}


def test_a_revision_sharpens_replaces_and_leads_on():
    model = SupervisorModel(
        changes(change=[subtask("g", "a", "n1", task="compare 7 with b")], add=[subtask("n1", "a")])
    )
    given = call_operator(revise, after(BATCH, ["A is 7 </world>", "no page"]), model)
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
    model = SupervisorModel(changes(remove=["a"]), changes(change=[subtask("b", task="again")]), changes())
    given = call_operator(revise, after(BATCH), model)
    assert given["dag"] == BATCH
    assert len(model.prompts) == 2
    assert [note.partition(":")[0] for note in given["notes"]] == ["refused", "refused", UNCHANGED_NOTE]
    assert "a: what has run" in given["notes"][0]
    assert "b: what has run" in given["notes"][1]


def test_a_revision_is_made_good_when_queried_again():
    model = SupervisorModel(
        changes(add=[subtask("n1")]), changes(change=[subtask("g", "a", "n1")], add=[subtask("n1")])
    )
    given = call_operator(revise, after(BATCH), model)
    assert [node.id for node in given["dag"].ready] == ["n1"]
    assert given["notes"] == ("refused: several ends: g, n1; all but the last one must be needed by another",)


ALL = DAG.with_status({"a": "completed", "b": "completed"}).with_status({"g": "completed"})
"""The task graph when all of it is completed."""


def test_when_all_have_run_nothing_or_more_may_follow():
    assert call_operator(revise_always, after(ALL), SupervisorModel(changes()))["dag"] == ALL
    model = SupervisorModel(changes(add=[subtask("n1", "g")]))
    assert [node.id for node in call_operator(revise_always, after(ALL), model)["dag"].ready] == ["n1"]


def test_a_model_is_not_queried_where_it_could_change_nothing():
    model = SupervisorModel(changes())
    assert call_operator(revise_always, after(ALL), model, most=3) == {"dag": ALL, "notes": ()}
    assert not model.prompts


ONE, HALF = Dag(nodes=(Node(id="t", task="do it"),)), DAG.with_status({"a": "completed"})


@pytest.mark.parametrize(
    ("dag", "batch", "is_due"),
    [
        (ALL, ("g",), False),
        (ONE.with_status({"t": "completed"}), ("t",), False),
        (ONE.with_status({"t": "failed"}), ("t",), True),
        (HALF, ("a",), False),
        (HALF.with_status({"b": "completed"}), ("b",), True),
        (HALF.with_status({"b": "completed"}), ("a", "b"), True),
        (BATCH, ("a", "b"), True),
        (ALL, (), False),
    ],
    ids=["done", "undivided", "it failed", "g waits for b", "g is ready", "a batch", "one failed", "none ran"],
)
def test_a_revision_is_asked_for_where_a_result_is_used_or_a_sub_task_failed(
    dag: Dag, batch: tuple[str, ...], is_due: bool
):
    model = SupervisorModel(changes())
    assert call_operator(revise, {**after(dag), "batch": batch}, model)["dag"] == dag
    assert len(model.prompts) == is_due
    always = SupervisorModel(changes())
    call_operator(revise_always, {**after(dag), "batch": batch}, always)
    assert len(always.prompts) == 1, "the paper's revises after each batch"


def test_a_grammar_keeps_a_model_to_what_is_pending():
    model = SupervisorModel(changes())
    call_operator(revise, after(BATCH), model, window=4_096)
    form = model.schemas[0]["properties"]
    assert form["change"]["items"]["properties"]["id"]["enum"] == ["g"]
    assert form["remove"]["items"]["enum"] == ["g"]


@pytest.mark.parametrize("operator", [decompose, decompose_always, revise, revise_always])
def test_no_figure_of_the_budget_stands_in_a_request(operator: Any):
    model = SupervisorModel(GOOD if "decompose" in operator.__name__ else changes())
    call_operator(operator, after(BATCH), model, most=4_711)
    assert "4711" not in model.prompts[0] and "4,711" not in model.prompts[0]
    assert "4710" not in model.prompts[0], "nor what is left of it"


def test_the_form_allows_as_many_new_sub_tasks_as_the_graph_may_take():
    for maximum, most in ((4, 2), (10, 8)):
        model = SupervisorModel(changes())
        call_operator(revise, after(BATCH), model, most=maximum)
        assert model.schemas[0]["properties"]["add"]["maxItems"] == most


def test_the_form_lists_no_ids_and_bounds_no_needs():
    model = SupervisorModel(GOOD)
    call_operator(decompose, SEEN, model, most=40)
    parts = model.schemas[0]["properties"]["nodes"]["items"]["properties"]
    assert "enum" not in parts["id"] and "enum" not in parts["needs"]["items"]
    assert parts["needs"]["maxItems"] == 40


@pytest.mark.parametrize("operator", [decompose, revise])
def test_a_model_reasons_before_it_answers(operator: Any):
    model = SupervisorModel(GOOD if operator is decompose else changes())
    call_operator(operator, after(BATCH), model)
    assert next(iter(model.schemas[0]["properties"])) in ("reasoning", "reason")


@pytest.mark.parametrize(("window", "all_of_them"), [(4_096, False), (0, True)])
def test_of_many_outcomes_a_small_window_shows_the_first_and_the_latest(window: int, all_of_them: bool):
    ran = tuple(Node(id=f"s{n}", task=f"find {n}", status="completed") for n in range(50))
    nodes = (*ran, Node(id="g", task="tell it", needs=tuple(n.id for n in ran)))
    dag, model = Dag(nodes=nodes), SupervisorModel(changes())
    results = [f"result of {node.id} " + "x" * 900 + " at the end" for node in ran]
    call_operator(revise, after(dag, results), model, most=len(ran) + 1, window=window)
    assert "x at the end" in model.prompts[0] and TASK.goal in model.prompts[0]
    assert (f"result of {ran[25].id} " in model.prompts[0]) == all_of_them
