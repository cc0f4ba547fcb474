"""A model that writes long texts runs every graph on every kind of world: no call is made again because of its form.

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
from certigraph.runtime.registry import SEARCH_GRAPHS

pytestmark = pytest.mark.slow  # every graph on every kind of world

WITHOUT_A_HEAD = "reward_head"
"""A graph that ends `error:model` because it needs weights."""

GRAPHS = (
    *("sdp", "tdp", "step", "react", "react_reward", "mcts", "reflexion", "clin", "plan_and_solve", "plan_and_act"),
    *("cot", "pbai", "ircot", "memgpt", "iter_retgen", "hypotheses", "subtask"),
)
WORLDS = {
    "blocksworld": "6-2",
    "hotpotqa": "dev-bridge-0",
    "hotpotqa:interactive": "dev-bridge-0",
    "travelplanner": "1",
    "travelplanner:tools": "1",
    "web": "museum/1",
    "musique": "2hop__dev_0",
    "locomo": "made-0/10",
    "swe_qa": "made/3",
    "agentdojo": "slack/user_task_6",
}
"""Worlds that need no files and no JVM, with a task of each."""


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


@pytest.mark.parametrize("window", [0, 4_096])
@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in (*RUNS, *MORE)])
def test_no_answer_is_refused_for_its_length(run: Run, window: int):
    if run.graph == WITHOUT_A_HEAD:
        pytest.skip("it asks no chat model")
    result = run_long_winded(run, window, 900 if window else 3_000, calls=40)
    assert repeated_calls(result) == []
    assert not result.ending.startswith("error:"), result.message


WITHOUT_ANSWERS = ("blocksworld", "travelplanner", "travelplanner:tools")
"""Worlds that ask no questions, on which no search agent runs."""

PAIRS = [
    (graph, world) for graph in GRAPHS for world in WORLDS if not (graph in SEARCH_GRAPHS and world in WITHOUT_ANSWERS)
]


@pytest.mark.parametrize(("graph", "world"), PAIRS)
def test_no_graph_makes_a_call_again_on_any_world(graph: str, world: str):
    result = run_long_winded(Run(graph, world, WORLDS[world]), "full", 3_000, calls=15)
    assert repeated_calls(result) == []
    assert result.ending != "error:model", result.message
