"""Scripted models answer from the state of the run and the form of the answer: no prompt decides what they do."""

import json
from typing import Any

import pytest
from golden.cases import FOLDER, ROUNDING, changes, close
from golden.matrix import MORE, RUNS
from golden.runs import MODELS, Run, record_run
from real_data import data_folder

from certigraph.adapters.benchmarks import BENCHMARKS
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.runtime.registry import GRAPHS

READERS_OF_PROMPTS: dict[str, str] = {}
"""Golden runs whose scripted model still reads a prompt, with the reason. None may be added."""

OF_PROMPTS = frozenset({"prompt", "prompts", "usage", "input_tokens"})
"""Keys of a recorded line that follow the wording of prompts."""


class Unreadable:
    """Stands for a prompt; whoever reads it gets a TypeError."""


@pytest.fixture
def unreadable_prompts(monkeypatch: pytest.MonkeyPatch) -> list[Schema | None]:
    """Give scripted models no prompt; return the list of the forms that they were asked for."""
    forms: list[Schema | None] = []
    answer = ScriptedChat._answer

    def answer_without_prompt(self: ScriptedChat, prompt: str, form: Schema | None) -> str:
        forms.append(form)
        return answer(self, Unreadable(), form)  # type: ignore[arg-type]

    monkeypatch.setattr(ScriptedChat, "_answer", answer_without_prompt)
    return forms


def cases() -> list[Any]:
    every = [(run, model) for run in (*RUNS, *MORE) for model in MODELS]
    return [
        pytest.param(run, model, id=f"{run.name}-{model}", marks=[pytest.mark.slow] if run.slow else [])
        for run, model in every
    ]


def without_prompts(line: Any) -> Any:
    """A recorded line without what follows the wording of prompts."""
    if isinstance(line, dict):
        return {key: without_prompts(value) for key, value in line.items() if key not in OF_PROMPTS}
    return [without_prompts(one) for one in line] if isinstance(line, list) else line


def lines(text: str) -> list[Any]:
    return [without_prompts(json.loads(line)) for line in text.splitlines()]


@pytest.mark.parametrize(("run", "model"), cases())
def test_a_run_is_the_same_whatever_its_prompts_say(
    run: Run, model: str, unreadable_prompts: list[Schema | None]
) -> None:
    if run.name in READERS_OF_PROMPTS:
        pytest.skip(READERS_OF_PROMPTS[run.name])
    if run.data:
        data_folder(run.world.partition(":")[0])
    recorded = lines((FOLDER / "trajectories" / f"{run.name}-{model}.jsonl").read_text(encoding="utf-8"))
    found = lines(record_run(run, model))
    pairs = zip(recorded, found, strict=False)
    texts = ((json.dumps(one, sort_keys=True), json.dumps(other, sort_keys=True)) for one, other in pairs)
    tolerance = ROUNDING if run.slow else 0.0
    differences = [
        difference for one, other in texts if not close(one, other, tolerance) for difference in changes(one, other)
    ]
    assert (differences, len(found)) == ([], len(recorded))
    assert unreadable_prompts or run.graph in ("statefactory", "monotonic", "reward_head"), "no model was asked"


def test_every_graph_and_every_world_with_an_expert_is_among_the_runs() -> None:
    runs = (*RUNS, *MORE)
    assert {run.graph for run in runs} == set(GRAPHS)
    assert {run.world.partition(":")[0] for run in runs} >= set(BENCHMARKS) - {"ask"}


def test_a_prompt_that_is_read_is_noticed(unreadable_prompts: list[Schema | None]) -> None:
    with pytest.raises(TypeError):
        ScriptedChat(responder=lambda prompt, form: "goal" in prompt).invoke("the goal")
