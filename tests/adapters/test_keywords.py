"""Mistakes in keywords of functions and fields of settings, each answered in one line."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers.worlds.support_database import scripted_model

import certigraph
from certigraph.adapters.keywords import checked_keywords
from certigraph.state.endings import UnknownName


def look_up(order: int) -> str:
    """Look up an order."""
    return str(order)


AGENT: dict[str, Any] = {"model": scripted_model(), "tools": [look_up]}


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (
            lambda: certigraph.agent(model=scripted_model(), tool=[look_up]),
            "agent has no keyword 'tool': did you mean tools?",
        ),
        (
            lambda: certigraph.agent(llm=scripted_model(), tools=[look_up]),
            "agent has no keyword 'llm': did you mean model?",
        ),
        (lambda: certigraph.agent(tools=[look_up]), "agent needs model: give model=..."),
        (lambda: certigraph.agent("sdp", scripted_model(), [look_up]), "agent takes only method without a keyword"),
        (lambda: certigraph.agent(**AGENT, propse=look_up), "no operator slot 'propse'; did you mean propose?"),
        (lambda: certigraph.Tools([look_up], chek=look_up), "Tools has no keyword 'chek': did you mean check?"),
        (certigraph.Tools, "Tools needs tools: give tools=..."),
        (lambda: certigraph.run("sdp", model="local"), "run has no keyword 'model': give context=certigraph.Context("),
        (lambda: certigraph.run("sdp", goal="Refund order 17."), "run has no keyword 'goal': did you mean task?"),
        (lambda: certigraph.evaluate("sdp", "web", certigraph.Choice()), "the others are model=, roles="),
        (
            lambda: certigraph.ablate("sdp", "web", limit=5),
            "'limit': give choice=certigraph.Choice(limit=...)",
        ),
    ],
)
def test_a_wrong_or_missing_keyword_is_answered_by_the_right_one(call: Callable[[], Any], answer: str):
    with pytest.raises(TypeError) as raised:
        call()
    assert answer in str(raised.value)


@pytest.mark.parametrize(
    ("values", "answer"),
    [({"limits": 2}, "Choice has no field 'limits'; did you mean limit?"), ({"trials": 0}, "trials=0: it should be")],
)
def test_a_choice_of_tasks_refuses_unknown_fields_and_values(values: dict[str, Any], answer: str):
    with pytest.raises(UnknownName) as raised:
        certigraph.Choice(**values)
    assert answer in str(raised.value)


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"limit": -1}, "limit=-1: it should be"),
        ({"limit": "five"}, "limit=five: give a number"),
        ({"trials": 0}, "trials=0"),
    ],
)
def test_an_evaluation_refuses_what_is_no_choice_of_tasks(options: dict[str, Any], answer: str):
    with pytest.raises(UnknownName) as raised:
        certigraph.evaluate("sdp", "blocksworld", **options)
    assert answer in str(raised.value)


def test_a_function_with_checked_keywords_is_called_as_before():
    @checked_keywords()
    def add(one: int, *, other: int = 2) -> int:
        """Add two numbers."""
        return one + other

    assert (add(1), add(one=1, other=3)) == (3, 4)
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")
