"""What ScienceWorld's prompts hold and how long they are, read off walks along recorded gold paths."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from golds import UNLIMITED, as_written, reached
from real_data import data_folder
from twins import Twins

from certigraph.adapters import episodes
from certigraph.adapters.models.calls import OPENING
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.adapters.scienceworld import operators
from certigraph.adapters.scienceworld import operators as offers
from certigraph.adapters.scienceworld.prompts import BRIEFING
from certigraph.adapters.scienceworld.recordings import read_recordings
from certigraph.graphs import clin, plan_and_solve, react, reflexion, sdp, step
from certigraph.runtime.run import run

TASK = "gold/use-thermometer:0"

PREFIX = OPENING.format(briefing=BRIEFING)

MOST = 800
"""Tokens of a prompt beyond the prefix, at four characters each; the view of a room is shown whole."""

BUILDS: dict[str, tuple[Callable[[], Any], str]] = {
    "sdp": (sdp.build, ""),
    "sdp:drafted": (sdp.build, "drafted"),
    "sdp:paper": (sdp.build, "paper"),
    "step": (partial(step.build, executor=as_written), ""),
    "react": (partial(react.build, decide=as_written), ""),
    "reflexion": (partial(reflexion.build, decide=as_written), ""),
    "clin": (partial(clin.build, decide=as_written), ""),
    "plan_and_solve": (partial(plan_and_solve.build, decide=as_written), ""),
    "step:choosing": (step.build, "drafted"),
    "react:choosing": (react.build, "drafted"),
}
"""The graphs, their executors writing and choosing."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[tuple[frozenset[str], str]]]:
    """Every prompt of a walk along the gold path of TASK, with the fields that it asks for."""
    recordings = read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")
    known: dict[str, list[tuple[frozenset[str], str]]] = {}

    def of(name: str) -> list[tuple[frozenset[str], str]]:
        if name not in known:
            known[name] = walked(name, Twins(recordings, BUILDS[name][1]), tmp_path_factory.mktemp("walk"))
        return known[name]

    return of


def walked(name: str, twins: Twins, out: Path) -> list[tuple[frozenset[str], str]]:
    expert, prompts = twins.expert(), list[tuple[frozenset[str], str]]()

    def mind(prompt: str, schema: dict[str, Any]) -> Any:
        prompts.append((frozenset(schema.get("properties", ())), prompt))
        return expert(prompt, schema)

    limits = UNLIMITED.limits.model_copy(update={"attempts": 30, "replans": 5, "steps": 60})  # type: ignore[union-attr]
    context = UNLIMITED.model_copy(update={"chat": ScriptedChat(responder=mind), "limits": limits})
    with pytest.MonkeyPatch.context() as patch:
        for module in (episodes, offers, operators):  # words alone: torch takes seconds to load
            patch.setattr(module, "encoder", lambda: None)
        result = run(BUILDS[name][0](), twins, TASK, context=context, out=out)
    assert reached(result) or name == "sdp:drafted", result.message
    return prompts


@pytest.mark.parametrize("name", BUILDS)
def test_every_prompt_opens_with_the_prefix_and_stays_short_beyond_it(name: str, asked: Any):
    assert asked(name)
    assert all(prompt.startswith(PREFIX) for _, prompt in asked(name))
    assert max(len(prompt) - len(PREFIX) for _, prompt in asked(name)) / 4 <= MOST


def test_the_prefix_holds_no_task():
    goals = [recording.desc for recording in read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")]
    assert len(goals) == 30
    assert not [goal for goal in goals if goal in PREFIX]
    assert "Your task" not in PREFIX


@pytest.mark.parametrize("name", ["step", "step:choosing"])
def test_steps_executor_and_evaluator_never_see_the_main_task(name: str, asked: Any):
    goal = Twins(read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")).task(TASK).goal
    scoped = [prompt for fields, prompt in asked(name) if fields & {"action", "choice", "completed", "forbidden"}]
    told = [prompt for fields, prompt in asked(name) if "subtask" in fields]
    assert len(scoped) > len(told) > 1
    assert all(goal in prompt for prompt in told)
    first = goal.partition(",")[0]
    assert not [prompt for prompt in scoped if first in prompt]
