"""Mistakes in calls of the Python API: a wrong keyword is Python's TypeError, a wrong field pydantic's error."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers.worlds.support_database import scripted_model
from pydantic import BaseModel, ValidationError

import certigraph
from certigraph.graphs import sdp
from certigraph.state.endings import UnknownName


def look_up(order: int) -> str:
    """Look up an order."""
    return str(order)


AGENT: dict[str, Any] = {"model": scripted_model(), "tools": [look_up]}


@pytest.mark.parametrize(
    ("call", "keyword"),
    [
        (lambda: certigraph.run(grph="sdp"), "grph"),  # type: ignore[call-arg]
        (lambda: certigraph.resume("x", budgets=None), "budgets"),  # type: ignore[call-arg]
        (lambda: certigraph.evaluate("sdp", "blocksworld", swap=()), "swap"),  # type: ignore[call-arg]
        (lambda: certigraph.ablate("sdp", "web", limit=5), "limit"),  # type: ignore[call-arg]
        (lambda: certigraph.agent(tools=[look_up]), "model"),  # type: ignore[call-arg]
        (lambda: certigraph.agent(**AGENT, propse=look_up), "propse"),
        (lambda: sdp.build(propse=look_up), "propse"),  # type: ignore[call-arg]
        (lambda: certigraph.Tools([look_up], chek=look_up), "chek"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_or_missing_keyword_is_a_type_error_that_names_it(call: Callable[[], Any], keyword: str):
    with pytest.raises(TypeError, match=f"'{keyword}'"):
        call()


@pytest.mark.parametrize(
    ("kind", "values", "place"),
    [
        (certigraph.Budget, {"cals": 3}, ("cals",)),
        (certigraph.Budget, {"calls": -1}, ("calls",)),
        (certigraph.Budget, {"seconds": float("inf")}, ("seconds",)),
        (certigraph.Limits, {"steps": "many"}, ("steps",)),
        (certigraph.Context, {"profil": "small"}, ("profil",)),
        (certigraph.Context, {"budget": {"tokens": -1}}, ("budget", "tokens")),
        (certigraph.Context, {"budget": 5}, ("budget",)),
        (certigraph.Context, {"roles": {"planer": "local"}}, ("roles",)),
        (certigraph.Choice, {"limits": 2}, ("limits",)),
        (certigraph.Case, {"id": "7"}, ("goal",)),
    ],
)
def test_a_wrong_or_missing_field_is_an_error_of_pydantic_that_names_it(
    kind: type[BaseModel], values: dict[str, Any], place: tuple[str, ...]
):
    for create in (kind.model_validate, lambda given: kind(**given)):
        with pytest.raises(ValidationError) as refused:
            create(values)
        assert refused.value.errors()[0]["loc"] == place


def test_options_of_a_call_that_are_fields_of_settings_are_checked_as_these():
    with pytest.raises(ValidationError, match="limit"):
        certigraph.evaluate("sdp", "blocksworld", limit=-1)
    with pytest.raises(ValidationError, match="cals"):
        certigraph.run("sdp", "blocksworld", context={"budget": {"cals": 3}})


def test_a_name_that_the_package_lacks_is_an_attribute_error_for_which_python_suggests_another():
    with pytest.raises(AttributeError, match="'agnt'") as raised:
        _ = certigraph.agnt
    assert (raised.value.name, raised.value.obj) == ("agnt", certigraph)


@pytest.mark.parametrize(
    ("name", "known", "answer"),
    [
        ("spd", ["sdp", "react"], "did you mean sdp?"),
        ("force_pass", ["web.force_pas", "capped"], "did you mean web.force_pas?"),
        ("gpt-4o-mini", ["local", "openai:gpt-4o-mini"], "did you mean openai:gpt-4o-mini?"),
        ("best", ["rest", "test"], "known: rest, test"),
    ],
)
def test_an_unknown_name_is_answered_by_the_most_similar_or_all_names(name: str, known: list[str], answer: str):
    assert answer in str(UnknownName(f"no thing {name!r}", name, known))
    if "known" not in answer:
        assert str(UnknownName("no such thing", name, known, "and so on")).endswith(f"{answer} and so on")
