"""AssistantBench's score of anything against anything, and the pairing behind it."""

import json
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from certigraph.adapters.research.scoring import aligned, best_partners, gold_of, score

LINES = st.lists(st.text("abc de5", min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=5)
OBJECTS = st.lists(st.dictionaries(st.sampled_from("abc"), st.text("xyz1 ", max_size=4), min_size=1), max_size=4)
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text("ab{}[]\"',$%-10 \n", max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=6,
)


def accuracy(prediction: JsonValue, gold: str) -> float:
    return score(prediction, gold).accuracy


@settings(max_examples=200, deadline=None)
@given(ANSWERS, LINES.map("\n".join) | ANSWERS.map(str) | OBJECTS.map(lambda some: "\n".join(map(json.dumps, some))))
def test_any_answer_has_a_score(prediction: Any, gold: str):
    assert 0 <= accuracy(prediction, gold) <= 1


@settings(max_examples=60, deadline=None)
@given(LINES)
def test_the_gold_itself_is_perfect_in_any_order(lines: list[str]):
    gold = "\n".join(lines)
    if gold_of(gold).kind == "texts" and len(lines) > 1:
        assert {accuracy(list(order), gold) for order in permutations(lines)} == {1.0}


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
            pairs = best_partners(table)
            assert sum(table[row][column] for row, column in pairs.items()) == pytest.approx(best)
            assert len(set(pairs.values())) == len(pairs) == min(shape)


def test_thirty_lines_are_paired_as_well_as_by_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    draw = Random(30)
    gains = [[draw.random() for _ in range(30)] for _ in range(30)]
    rows, columns = optimize.linear_sum_assignment(gains, maximize=True)
    assert best_partners(gains) == dict(zip(rows.tolist(), columns.tolist(), strict=True))


def test_whatever_finds_no_partner_counts_nothing():
    assert aligned(["a"], ["a", "b"], lambda one, right: float(one == right)) == 0.5
    assert aligned(["a"], [], lambda one, right: 1.0) == 0.0
