"""A model that writes long texts runs every graph on every kind of world: nothing is refused for its length.

The model is a script. It answers every schema with its first options and, wherever a text is free, with 900 or 3,000
characters.
"""

import warnings
from importlib import import_module
from typing import Any

import pytest
from golden.matrix import MORE, RUNS
from golden.runs import Run, workplace
from long_answers import long_answer

import certigraph
from certigraph.adapters.models.scripts import ScriptedChat

WITHOUT_A_HEAD = "reward_head"
"""A graph that ends `error:model` because it needs weights."""


@pytest.mark.parametrize("profile", ["full", "small"])
@pytest.mark.parametrize(
    "run", [pytest.param(run, id=run.name, marks=[pytest.mark.slow] * run.slow) for run in (*RUNS, *MORE)]
)
def test_no_answer_is_refused_for_its_length(run: Run, profile: Any):
    if run.graph == WITHOUT_A_HEAD:
        pytest.skip("it asks no chat model")
    length = 3_000 if profile == "full" else 900
    chat = ScriptedChat(responder=lambda prompt, schema: long_answer(schema, length))
    with workplace(run.data) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = certigraph.Context(chat=chat, profile=profile, budget=certigraph.Budget(calls=40))
        graph = import_module(f"certigraph.graphs.{run.graph}").build(**run.operators())
        result = certigraph.run(graph, run.world, run.task, context=context, out=folder, on_error="ignore")
        calls = [call for event in result.trajectory.events for call in event.calls]
    assert [call["failure"] for call in calls if call.get("failure")] == []
    assert not result.ending.startswith("error:"), result.message
