"""A model that writes long texts runs every graph and every benchmark: no call is made again because of its form.

The model is a script. It answers every schema with its first options and, wherever a text is free, with 900 or 3,000
characters. A call whose answer does not fit its form has a `failure` and is followed by another one.
"""

import warnings
from importlib import import_module

import pytest
from golden.matrix import MORE, RUNS
from golden.runs import Run, workplace
from helpers.models.long_answers import long_answer

import certigraph
from certigraph.adapters.models.scripts import ScriptedChat

pytestmark = pytest.mark.slow  # every graph on every kind of world

WITHOUT_A_HEAD = "reward_head"
"""A graph that ends `error:model` because it needs weights."""

FIRST = {run.graph: run for run in reversed(RUNS)}
"""One run of each graph."""

CASES = (
    *(pytest.param(run, 0, id=f"{run.name}-full") for run in (*RUNS, *MORE) if run.graph != WITHOUT_A_HEAD),
    *(pytest.param(run, 4_096, id=f"{run.name}-small") for run in FIRST.values() if run.graph != WITHOUT_A_HEAD),
)


def run_long_winded(run: Run, window: int, length: int, calls: int) -> certigraph.Result:
    """Run a graph with a model that fills every free text with so many characters."""
    chat = ScriptedChat(responder=lambda prompt, schema: long_answer(schema, length))
    with workplace(run.data) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = certigraph.Context(chat=chat, window=window, budget=certigraph.Budget(calls=calls))
        graph = import_module(f"certigraph.graphs.{run.graph}").build(**run.operators())
        return certigraph.run(graph, run.world, run.task, context=context, out=folder, on_error="ignore")


def repeated_calls(result: certigraph.Result) -> list[str]:
    """Return why calls were made again, one text for each of them."""
    return [call["failure"] for event in result.trajectory.events for call in event.calls if call.get("failure")]


@pytest.mark.parametrize(("run", "window"), CASES)
def test_no_answer_is_refused_for_its_length(run: Run, window: int):
    result = run_long_winded(run, window, 900 if window else 3_000, calls=12 if run.slow else 40)
    assert repeated_calls(result) == []
    assert not result.ending.startswith("error:"), result.message
