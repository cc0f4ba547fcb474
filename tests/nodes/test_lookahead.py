"""SDP's Realize by reward: it takes what comes nearest to the target, and knows no more than Realize may."""

from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.library_world import ScriptedModel
from helpers.worlds.watched_blocks import RATING, run_blocks

from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.blocksworld.expert import answer_request
from certigraph.graphs import sdp
from certigraph.nodes import lookahead as module
from certigraph.nodes.lookahead import reward_guided
from certigraph.state.records import Predicate


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "route", lambda: RATING["route"])


READING = {"extract": RATING["extract"], "interpret": RATING["interpret"]}
"""Operators in place of the model that reads states."""


def aiming_at(*targets: str) -> Any:
    async def propose(state: Any, runtime: Any) -> dict[str, Any]:
        return {"plan": [Predicate(text=text) for text in targets]}

    return propose


def test_the_expert_reaches_the_goal(tmp_path: Path):
    result = run_blocks(sdp.build(realize=reward_guided(k=3, **READING)), tmp_path, answer_request)
    assert result.ending == "goal"


def test_imagined_outcomes_inside_realize_are_those_of_the_world_where_the_model_is_right(tmp_path: Path):
    imagined = run_blocks(
        sdp.build(realize=reward_guided(k=2, imagines=True, **READING)), tmp_path / "a", answer_request, task="3-1"
    )
    known = run_blocks(sdp.build(realize=reward_guided(k=2, **READING)), tmp_path / "b", answer_request, task="3-1")
    assert imagined.ending == "goal"
    assert imagined.state["history"] == known.state["history"]


def test_the_action_that_settles_the_target_is_taken_whatever_the_model_would(tmp_path: Path):
    """A model that always names the first option holds red in hand; wanted is red on orange."""
    held = "the hand is currently holding red block"
    plan = aiming_at(held, "the red block is on top of the orange block")

    def first(prompt: str, form: dict[str, Any]) -> Any:
        return answer_request(prompt, form) if "holds" in form["properties"] else ScriptedModel()(prompt, form)

    result = run_blocks(sdp.build(propose=plan, realize=reward_guided(k=30, **READING)), tmp_path, first, task="3-1")
    assert result.ending == "goal"
    assert [step.action.text for step in result.state["history"]] == [
        "unstack the red block from on top of the blue block",
        "stack the red block on top of the orange block",
    ]


def test_a_target_that_tells_no_state_is_replaced_by_the_goal(tmp_path: Path):
    plan = aiming_at("be in the mood")
    result = run_blocks(
        sdp.build(propose=plan, realize=reward_guided(k=30, **READING)), tmp_path, task="3-1", steps=2, attempts=2
    )
    taken = [step.action.text for step in result.state["history"]]
    assert taken[-1] == "stack the red block on top of the orange block"


def test_who_asks_shows_the_model_the_gains_and_the_target_alone(tmp_path: Path):
    scripted_model, target = ScriptedModel(), "the hand is currently holding red block"
    graph = sdp.build(propose=aiming_at(target), realize=reward_guided(k=30, asks=True, **READING))
    run_blocks(graph, tmp_path, scripted_model, task="3-1", steps=1)
    prompt = scripted_model.prompts("choice")[0]
    assert f"Assignment: {target}" in prompt
    assert "unstack the red block from on top of the blue block (+1.00)" in prompt
    assert BlocksWorld().task("3-1").goal not in prompt
