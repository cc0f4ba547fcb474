"""The golden set: what the code does is what was recorded. tests/golden/README.md says how to update it.

The runs are made with scripted models that cannot read their prompts: they answer from the state of the run and the
form of the answer, so that no wording of a prompt decides what they do. What is recorded has the prompts all the same.
"""

import pytest
from golden.cases import FOLDER, Golden, goldens
from golden.matrix import MORE, RUNS
from helpers.files.real_data import data_folder

from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.benchmarks import BENCHMARKS
from certigraph.runtime.registry import GRAPHS

GOLDENS = goldens()

ASKING_NOTHING = ("statefactory", "monotonic", "reward_head")
"""Graphs that may end without a call of a model."""


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


def cases(of_runs: bool) -> list[object]:
    chosen = [one for one in GOLDENS if bool(one.graph) == of_runs]
    return [pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.slow else []) for one in chosen]


@pytest.mark.slow
@pytest.mark.parametrize("golden", cases(of_runs=False))
def test_behaviour_is_as_recorded(golden: Golden) -> None:
    if golden.data:
        data_folder(golden.data)
    assert golden.difference() == ""


@pytest.mark.slow
@pytest.mark.parametrize("golden", cases(of_runs=True))
def test_a_run_is_as_recorded_by_models_that_read_no_prompt(
    golden: Golden, unreadable_prompts: list[Schema | None]
) -> None:
    if golden.data:
        data_folder(golden.data)
    assert golden.difference() == ""
    assert unreadable_prompts or golden.graph in ASKING_NOTHING, "no model was asked"


def test_a_prompt_that_is_read_is_noticed(unreadable_prompts: list[Schema | None]) -> None:
    with pytest.raises(TypeError):
        ScriptedChat(responder=lambda prompt, form: "goal" in prompt).invoke("the goal")


def test_every_graph_and_every_world_with_an_expert_is_among_the_runs() -> None:
    runs = (*RUNS, *MORE)
    assert {run.graph for run in runs} == set(GRAPHS)
    assert {run.world.partition(":")[0] for run in runs} >= set(BENCHMARKS) - {"ask"}


def test_every_recorded_file_is_compared() -> None:
    recorded = {path for path in FOLDER.rglob("*") if path.suffix in (".json", ".jsonl", ".csv", ".txt")}
    assert recorded == {one.path for one in GOLDENS}
