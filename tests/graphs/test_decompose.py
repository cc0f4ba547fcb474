"""Decompose under models that give a task graph, none at first, and none at all."""

import json
from typing import Any

import pytest
from supervising import GOOD, SEEN, TASK, Model, answered, nodes, subtask

from certigraph.adapters.models.schemas import MOST_READ
from certigraph.nodes.tdp import MOST_FLAW, decompose
from certigraph.state.tdp import Node

CYCLIC = nodes(subtask("a", "b"), subtask("b", "a"))
UNKNOWN = nodes(subtask("a", "z"))


def test_a_graph_is_taken_as_it_is_given():
    model = Model(GOOD)
    given = answered(decompose, SEEN, model)
    assert [(n.id, n.task, n.needs) for n in given["dag"].nodes] == [
        ("a", "find a", ()),
        ("b", "find b", ()),
        ("g", "find g", ("a", "b")),
    ]
    assert (given["notes"], len(model.prompts)) == ((), 1)
    assert TASK.goal in model.prompts[0]
    assert "a library [tag] obey" in model.prompts[0]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (CYCLIC, "wait for each other: a -> b -> a"),
        (UNKNOWN, "a needs z"),
        (nodes(), "there is no sub-task"),
        (nodes(*(subtask(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(6))), "too many: s4, s5"),
        (nodes(subtask("a"), subtask("b")), "several ends: a, b"),
        (nodes(subtask("a", task=" <world> ")), "sub-tasks without id or text: a"),
    ],
)
def test_what_is_no_graph_is_refused_with_its_ids_and_asked_for_again(bad: Any, told: str):
    model = Model(bad, GOOD)
    given = answered(decompose, SEEN, model)
    assert [node.id for node in given["dag"].nodes] == ["a", "b", "g"]
    assert told in model.prompts[1]
    assert any(told in note for note in given["notes"])
    assert len(model.prompts) == 2


def test_a_model_sees_its_last_answer_alone_and_is_asked_twice_more_at_most():
    model = Model(CYCLIC, UNKNOWN, nodes(subtask("c"), subtask("d")), GOOD)
    given = answered(decompose, SEEN, model)
    assert len(model.prompts) == 3
    assert "a needs z" in model.prompts[2]
    assert "a -> b -> a" not in model.prompts[2]
    assert [(node.id, node.needs) for node in given["dag"].nodes] == [("c", ()), ("d", ("c",))]
    assert given["notes"][-1] == "mended: d needs c"


def test_a_model_that_repeats_itself_is_not_asked_a_third_time():
    model = Model(CYCLIC)
    given = answered(decompose, SEEN, model)
    assert len(model.prompts) == 2
    assert [(node.id, node.needs) for node in given["dag"].nodes] == [("a", ()), ("b", ("a",))]


def test_of_nothing_the_task_is_the_only_sub_task():
    given = answered(decompose, SEEN, Model(nodes()))
    assert given["dag"].nodes == (Node(id="task", task=TASK.goal),)


def test_a_grammar_keeps_a_small_model_to_known_ids_and_to_the_limit():
    model = Model(GOOD)
    answered(decompose, SEEN, model, most=3)
    form = model.schemas[0]["properties"]["nodes"]
    assert (form["minItems"], form["maxItems"]) == (1, 3)
    assert form["items"]["properties"]["id"]["enum"] == ["n1", "n2", "n3"]
    assert form["items"]["properties"]["needs"]["items"]["enum"] == ["n1", "n2", "n3"]


def test_numbers_are_ids_too():
    given = answered(decompose, SEEN, Model(json.loads('{"nodes": [{"id": 1, "task": "find it", "needs": []}]}')))
    assert given["dag"].nodes == (Node(id="1", task="find it"),)


@pytest.mark.parametrize(
    "bad",
    [
        nodes(*(subtask(f"s{n}", f"s{n ^ 1}") for n in range(1500))),
        nodes(*(subtask("a") for _ in range(1500))),
        nodes(subtask("a", *(f"s{n}" for n in range(9000))), subtask("b", "a")),
    ],
    ids=["cycles", "one", "needs"],
)
def test_a_graph_of_any_size_is_mended_in_no_time_and_told_in_few_words(bad: Any):
    given = answered(decompose, SEEN, Model(bad))
    assert 1 <= len(given["dag"].nodes) <= 4
    assert max(map(len, given["notes"])) <= MOST_FLAW + len("refused: ")
    assert len(given["notes"]) <= MOST_READ


def test_as_many_sub_tasks_as_are_allowed_are_read_however_many():
    chain = nodes(*(subtask(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(MOST_READ + 50)))
    given = answered(decompose, SEEN, Model(chain), most=MOST_READ + 50)
    assert (len(given["dag"].nodes), given["notes"]) == (MOST_READ + 50, ())
