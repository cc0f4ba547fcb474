"""Tests of `state.tools`: the written form of calls."""

import keyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.state.tools import ToolCall, create_tool_action, parse_calls

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True).filter(lambda name: name not in keyword.kwlist)
PLAIN = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e9, 1e9) | st.text(max_size=20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(ToolCall, name=NAMES, args=st.dictionaries(NAMES, VALUES, max_size=3))


@pytest.mark.slow
@given(st.lists(CALLS, min_size=1, max_size=3))
def test_calls_are_read_as_they_are_shown(calls: list[ToolCall]):
    assert parse_calls(create_tool_action(calls).text) == calls


def test_quotation_marks_may_be_pythons():
    assert parse_calls("refund(order=17, reason='late')") == [
        ToolCall(name="refund", args={"order": 17, "reason": "late"})
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I look it up.",
        "look_up(17)",
        "look_up(order=number)",
        "look_up(order=open('/etc/passwd'))",
        "tools.look_up(order=17)",
        "look_up(**{'order': 17})",
        "x = look_up(order=17)",
        "look_up(order=17) and more",
        "(" * 5_000,
    ],
)
def test_other_texts_are_not_calls(text: str):
    assert parse_calls(text) == []
