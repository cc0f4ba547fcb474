"""The random policy: every option alike, the same draws in every process, and a graph runs with it."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.adapters.models.chat_models import FORMS, chat_model, check_model, is_scripted, model_label
from certigraph.adapters.models.schemas import Schema, minimal, schema_of
from certigraph.adapters.models.scripted import Situation, by_chance, situated
from certigraph.adapters.protocols import Context
from certigraph.nodes.sdp import Conditions, NextAction
from certigraph.nodes.step import Next
from certigraph.runtime.run import run
from certigraph.state.records import Task

OPTIONS = ["a", "b", "c", "d"]
CHOICE: Schema = {
    "type": "object",
    "properties": {"thought": {"type": "string", "minLength": 1}, "choice": {"type": "string", "enum": OPTIONS}},
    "required": ["thought", "choice"],
}
MANY = 2_000


def test_its_name_is_one_of_the_forms():
    assert "scripted:random" in FORMS and check_model("scripted:random") == "scripted:random"
    assert is_scripted("scripted:random")
    assert model_label(chat_model("scripted:random")) == "scripted:random"


def test_every_option_is_as_likely_and_the_rest_is_least():
    answers = [by_chance()(f"question {n}", CHOICE) for n in range(MANY)]
    assert {answer["thought"] for answer in answers} == {"x"}
    counts = Counter(answer["choice"] for answer in answers)
    deviation = (MANY * 0.25 * 0.75) ** 0.5
    assert all(abs(counts[option] - MANY / 4) < 4 * deviation for option in OPTIONS), counts
    assert by_chance()("free", schema_of(NextAction)) == by_chance(1)("other", schema_of(NextAction))


def test_a_question_is_drawn_anew_in_each_trial_superstep_and_task():
    def choices(trial: int, superstep: int, task: str) -> list[str]:
        state = {"task": Task(benchmark="b", id=task, goal="g")}
        with situated(Situation("decide", superstep, state)):
            return [by_chance(trial)(f"{n}", CHOICE)["choice"] for n in range(30)]

    drawn = [choices(0, 0, "t"), choices(1, 0, "t"), choices(0, 1, "t"), choices(0, 0, "u")]
    assert choices(0, 0, "t") == drawn[0]
    assert len(set(map(tuple, drawn))) == 4


def test_it_names_one_condition_for_without_any_sdp_would_give_up_at_once(tmp_path: Path):
    assert by_chance()("plan", schema_of(Conditions)) == {"conditions": ["x"]}
    assert by_chance()("plan", schema_of(Next)) == minimal(schema_of(Next)), "other lists stay empty"
    result = run("sdp", BlocksWorld(), "4-0", context=Context(model="scripted:random"), out=tmp_path)
    assert len({step.action.text for step in result.state["history"]}) > 2, result.ending
    assert result.scores and result.scores.value < 1.0


@pytest.mark.slow
def test_draws_are_the_same_in_every_process():
    code = (
        "from certigraph.adapters.models.scripted import by_chance\n"
        "form = {'type': 'object', 'properties': {'choice': {'enum': list('abcd')}}, 'required': ['choice']}\n"
        "print(''.join(by_chance(3)(str(n), form)['choice'] for n in range(20)))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "1"}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    form: Schema = {"type": "object", "properties": {"choice": {"enum": list("abcd")}}, "required": ["choice"]}
    assert told.strip() == "".join(by_chance(3)(str(n), form)["choice"] for n in range(20))
