"""Every prompt fits into the model's context window, up to the step limit of each benchmark."""

import warnings
from importlib import import_module

import pytest
from golden.runs import workplace
from helpers.models.long_answers import long_answer

import certigraph
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.runtime.prompts import RecordingModels

ASSISTANT = "b36ef2d8f2643b80e74a44ce3403f674ecb2aed7fd36afeaa289061a59feef92"

WORLDS = (
    ("blocksworld", "", False),
    ("travelplanner", "2", True),
    ("travelplanner:tools", "", False),
    ("travelplanner:tools", "2", True),
    ("web", "", False),
    ("hotpotqa", "", True),
    ("hotpotqa:corpus", "", False),
    ("hotpotqa:interactive", "", False),
    ("musique:hops", "", False),
    ("musique", "", True),
    ("locomo", "", True),
    ("swe_qa", "", False),
    ("webshop", "", True),
    ("assistantbench:recorded", ASSISTANT, True),
)
"""Benchmarks that open without a JVM: name, task (the first one if empty), whether its own data is read."""

CASES = tuple(
    (graph, *world, window)
    for graph in ("react", "sdp", "step", "tdp")
    for world in WORLDS
    for window in (16_000, 128_000)
    if not (graph in ("step", "tdp") and world[0] == "travelplanner")  # they cannot act there
    and not (window == 128_000 and (graph in ("step", "tdp") or world[2]))
)

LENGTH = 2_000
"""Characters of every free text that the model writes."""


def requests(graph: str, world: str, task: str, data: bool, window: int) -> tuple[RecordingModels, certigraph.Result]:
    """Run a graph with a model of this window that writes long texts and never finishes."""
    models = RecordingModels(ScriptedChat(responder=lambda prompt, schema: long_answer(schema, LENGTH)), window)
    with workplace(data) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limits = certigraph.load_benchmark(world).limits.model_copy(update={"repeats": 0})
        context = certigraph.Context(chat=models, limits=limits)  # type: ignore[arg-type]
        built = import_module(f"certigraph.graphs.{graph}").build()
        return models, certigraph.run(built, world, task or None, context=context, out=folder, on_error="ignore")


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "world", "task", "data", "window"), CASES)
def test_every_prompt_fits_up_to_the_limit(graph: str, world: str, task: str, data: bool, window: int):
    models, result = requests(graph, world, task, data, window)
    assert not result.failed, result.message
    assert models.sent
    tokens = [prompt.tokens + prompt.schema_tokens for prompt in models.sent]
    assert max(tokens) <= window, models.sent[tokens.index(max(tokens))].text[:2_000]
