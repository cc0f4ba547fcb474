"""A graph that is invoked without a model says once that a script answers; one whose model is named says nothing."""

import warnings

import pytest

from certigraph import Context, ScriptedModelWarning
from certigraph.adapters.models.calls import warn_of_default
from certigraph.adapters.models.chat_models import describe_model, describe_models
from certigraph.graphs import sdp

TASK = {"task": {"benchmark": "blocksworld", "id": "4-0"}}


@pytest.mark.parametrize("context", [None, Context(), {"memory": ""}])
def test_the_default_model_is_announced_once(context: object) -> None:
    warn_of_default.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sdp.graph.invoke(TASK, context=context)  # type: ignore[arg-type]
    (warning,) = [one for one in caught if one.category is ScriptedModelWarning]
    assert "scripted:expert: a script that knows the answer, no language model" in str(warning.message)


@pytest.mark.parametrize("context", [Context(model="scripted:expert"), {"model": "scripted:expert"}])
def test_a_model_that_was_named_is_not(context: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScriptedModelWarning)
        assert sdp.graph.invoke(TASK, context=context)["certificates"]  # type: ignore[arg-type]


def test_every_script_says_that_it_is_none_and_other_models_only_their_name() -> None:
    scripts = ("scripted:first", "scripted:expert", "scripted:random", "simulated", "simulated:act=0.2")
    assert all(describe_model(name).endswith(", no language model") for name in scripts)
    told = describe_models("openai:gpt-4o", {"validator": "scripted:first"})
    assert told.startswith("model openai:gpt-4o; validator scripted:first: a script that takes the first option")
