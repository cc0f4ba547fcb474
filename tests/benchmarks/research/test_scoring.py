"""Tests of `benchmarks.research.scoring`."""

import gzip
import json
from itertools import permutations
from math import log
from random import Random
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from certigraph.benchmarks.research.scoring import find_best_pairing, mean_best_gain, parse_gold, score_answer

# AssistantBench's official score: each rule worked by hand, and all golden vectors.


def accuracy(prediction: JsonValue, gold: str) -> float:
    return score_answer(prediction, gold).accuracy


@pytest.mark.parametrize("line", range(33))
def test_the_golden_vectors_come_out_to_the_bit(line: int):
    with gzip.open(data_folder("assistantbench") / "scorer_golden.jsonl.gz", "rt", encoding="utf-8") as file:
        row = [json.loads(text) for text in file][line]
    got = score_answer(row["answer"], row["gold_answer"])
    assert (got.accuracy, got.answered) == (row["score"], bool(row["has_ans"]))


@pytest.mark.parametrize(
    ("gold", "kind", "value"),
    [
        ("$55", "number", 55.0),
        ("1148 sqft", "number", 1148.0),
        ("12 square kilometers", "number", 12.0),
        ("14%\n\n", "number", 14.0),
        ("VGT", "texts", ["VGT"]),
        ("a\n \nb", "texts", ["a", "b"]),
        ('{"a": 1}\nb', "texts", ['{"a": 1}', "b"]),
        ("{'a': 'b', 'c': 1}", "json", [{"a": "b", "c": 1}]),
        ('{"a": 1}\n{"a": 2}', "json", [{"a": 1}, {"a": 2}]),
        ("1\n2", "json", [1, 2]),
    ],
)
def test_rule_2_tells_what_a_gold_answer_is(gold: str, kind: str, value: Any):
    assert parse_gold(gold) == (kind, value)


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        (10, "20", 1 - log(2)),
        (20.0, "10", 1 - log(2)),
        ("20", "10", 1 - log(2)),
        ("$20%", "20 sqft", 1.0),
        (1, "100", 0.0),
        (0, "0", 1.0),
        (0, "0.0001", 1.0),
        (0.0002, "0", 1 - log(2)),
        ("1,010", "1010", 0.0),
        ("1,5", "1.5", 1.0),
        (-10, "10", 0.0),
        (-10, "-5", 1.0),
        (float("nan"), "5", 0.0),
        ("inf", "5", 0.0),
        ("about 20", "20", 0.0),
        ("-$108", "-108", 0.0),
        ([20, 20], "20", 0.0),
        ([20], "20", 0.0),
        (["20"], "20", 0.0),
        ([20.0], "20", 0.0),
        ({"a": 20}, "20", 0.0),
        (10**400, "20", 0.0),
    ],
)
def test_numbers_are_cleaned_and_compared_by_their_ratio(prediction: JsonValue, gold: str, expected: float):
    assert accuracy(prediction, gold) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("The Cat!", "cat", 1.0),
        ("well-known cat", "well known cat", 1.0),
        ("cat", "cat dog", 2 / 3),
        ("cat cat", "cat", 1.0),  # sets, not multisets
        ("5 dogs", "5.0 dogs", 1.0),
        ("five dogs", "5 dogs", 0.0),  # the gold's number is missing
        ("5 dogs", "dogs", 2 / 3),  # a number too many is only a word too many
        (5, "5 dogs", 2 / 3),
        ("a", "the", 1.0),  # nothing is left of either
        ("cat", "cat\ndog", 0.5),
        (["dog", "cat"], "cat\ndog", 1.0),
        (["cat", "cow"], "cat", 0.5),
        (["cat", "cat"], "cat\ndog", 0.5),
        ('["cat", "dog"]', "cat\ndog", 1.0),  # rule 1
        (["cat", 5], "cat\ndog", 0.0),
        ([4], "40 True", 1.0),  # rule 4: the list reads "(4.0, True)", without punctuation "40 true"
        ([4], "true story", 0.5),
        (["½"], "½ False", 1.0),
    ],
)
def test_texts_are_sets_of_words_paired_at_their_best(prediction: JsonValue, gold: str, expected: float):
    assert accuracy(prediction, gold) == pytest.approx(expected, abs=1e-12)


ONE = '{"sender": "USPS", "price": "40"}'


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ([{"sender": "usps", "price": 40}], ONE, 1.0),
        ({"sender": "usps", "price": 40}, ONE, 1.0),
        ('{"sender": "usps", "price": "$40"}', ONE, 1.0),
        ([{"sender": "usps", "price": 20}], ONE, (1 + 1 - log(2)) / 2),
        ([{"sender": "usps"}], ONE, 2 * (0.5 * 1.0) / 1.5),  # half the gold's fields, all of its own
        ([{"sender": "usps", "price": "40-50"}], ONE, 0.5),  # a text against a number
        ([{"sender": ["usps"], "price": 40}], ONE, 0.5),
        ([{"sender": None, "price": 40}], ONE, 0.5),
        ([{"x": 1}], ONE, 0.0),
        ([{}], ONE, 0.0),
        ([{"sender": "usps", "price": 40}, {"sender": "dhl"}], ONE, 0.5),
        ([{"sender": "usps", "price": 40}, "dhl"], ONE, 0.5),
        (["usps", {"sender": "usps", "price": 40}], ONE, 0.0),
        ("usps 40", ONE, 0.0),
        (40, ONE, 0.0),
        ([40], ONE, 0.0),
        ('{"a": 1}\n{"b": "x"}', '{"b": "x"}\n{"a": 1}', 1.0),
        ({"area": "5 square kilometers"}, '{"area": "5"}', 0.0),  # that unit is not a number's in objects
    ],
)
def test_objects_are_compared_field_by_field(prediction: JsonValue, gold: str, expected: float):
    assert accuracy(prediction, gold) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("nothing", ["", [], {}, [""], ["", []], None, [None], float("nan"), "nan", [float("nan")]])
def test_what_is_empty_is_not_an_answer(nothing: JsonValue):
    assert (accuracy(nothing, "cat"), score_answer(nothing, "cat").answered) == (0.0, False)


@pytest.mark.parametrize("something", ["x", 0, ["", "x"], [0], "0", {"a": ""}, "true", False])
def test_whatever_is_wrong_is_an_answer(something: JsonValue):
    assert (accuracy(something, "cat"), score_answer(something, "cat").answered) == (0.0, True)


def test_null_and_truth_values_match_no_text():
    assert [accuracy(word, gold) for word, gold in (("true", "True"), ("null", "None"))] == [0.0, 0.0]
    assert accuracy("True", "True") == 1.0  # no JSON, so a text


def test_exact_is_full_accuracy_or_the_same_text():
    got = [score_answer(answer, "The Cat") for answer in ("cat", "The Cat", "dog")]
    assert [(one.exact, one.exact_string) for one in got] == [(True, False), (True, True), (False, False)]


# AssistantBench's score of anything against anything, and the pairing behind it.

LINES = st.lists(st.text("abc de5", min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=5)
OBJECTS = st.lists(st.dictionaries(st.sampled_from("abc"), st.text("xyz1 ", max_size=4), min_size=1), max_size=4)
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text("ab{}[]\"',$%-10 \n", max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(ANSWERS, LINES.map("\n".join) | ANSWERS.map(str) | OBJECTS.map(lambda some: "\n".join(map(json.dumps, some))))
def test_any_answer_has_a_score(prediction: Any, gold: str):
    assert 0 <= accuracy(prediction, gold) <= 1


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(LINES)
def test_the_gold_itself_is_perfect_in_any_order(lines: list[str]):
    gold = "\n".join(lines)
    if parse_gold(gold).kind == "texts" and len(lines) > 1:
        assert {accuracy(list(order), gold) for order in permutations(lines)} == {1.0}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(OBJECTS, OBJECTS.filter(len))
def test_objects_come_in_any_order(predicted: list[JsonValue], gold: list[JsonValue]):
    text = "\n".join(map(json.dumps, gold))
    assert accuracy(list(reversed(predicted)), text) == pytest.approx(accuracy([*predicted], text), abs=1e-9)
    assert accuracy(gold, text) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5), (5, 2), (4, 6), (6, 6)])
def test_the_pairing_is_the_best_there_is(shape: tuple[int, int]):
    draw = Random(sum(shape))
    for _ in range(20):
        gains = [[draw.choice([0.0, 0.5, draw.random()]) for _ in range(shape[1])] for _ in range(shape[0])]
        flipped = list(zip(*gains, strict=True))
        wide = gains if shape[0] <= shape[1] else flipped
        best = max(
            sum(row[place] for row, place in zip(wide, places, strict=True))
            for places in permutations(range(max(shape)), min(shape))
        )
        for table in (gains, flipped):
            pairs = find_best_pairing(table)
            assert sum(table[row][column] for row, column in pairs.items()) == pytest.approx(best)
            assert len(set(pairs.values())) == len(pairs) == min(shape)


def test_thirty_lines_are_paired_as_well_as_by_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    draw = Random(30)
    gains = [[draw.random() for _ in range(30)] for _ in range(30)]
    rows, columns = optimize.linear_sum_assignment(gains, maximize=True)
    assert find_best_pairing(gains) == dict(zip(rows.tolist(), columns.tolist(), strict=True))


def test_whatever_finds_no_partner_counts_nothing():
    assert mean_best_gain(["a"], ["a", "b"], lambda one, right: float(one == right)) == 0.5
    assert mean_best_gain(["a"], [], lambda one, right: 1.0) == 0.0
