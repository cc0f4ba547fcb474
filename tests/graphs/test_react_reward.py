"""ReAct with StateFactory's rewards: what is proposed, imagined and gained, and what the choice knows."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.library_world import ScriptedModel
from helpers.worlds.watched_blocks import (
    RATING,
    READINGS,
    REVISIONS,
    WatchedBlocks,
    describe_goal_as_model,
    extract_as_model,
    run_blocks,
    take_actions,
)
from langgraph.runtime import Runtime

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.blocksworld.expert import answer_request
from certigraph.graphs import react_reward
from certigraph.nodes.lookahead import (
    appraise,
    greedy,
    listed,
    propose_actions,
    rank_appraisals,
    rehearsed,
    shortlisted,
)
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.rewards import (
    Appraisal,
    LookaheadView,
    ended_facts,
    new_facts,
    to_factored,
)


def gains(result: Result) -> dict[str, float]:
    return {one.action: one.gain for one in result.state["appraisals"]}


def test_only_what_settles_the_goal_gains(tmp_path: Path):
    """Wanted is red on orange; red lies on blue."""
    up = "unstack the red block from on top of the blue block"
    graph = react_reward.build(**RATING, propose=listed, choose=take_actions([up]))
    first = run_blocks(graph, tmp_path / "1", task="3-1", steps=1)
    second = run_blocks(graph, tmp_path / "2", task="3-1", steps=2)
    assert gains(first) == {up: 0, "pick up the orange block": 0}
    assert gains(second) == {
        "put down the red block": 0,
        "stack the red block on top of the blue block": 0,
        "stack the red block on top of the orange block": 1,
    }


def test_the_most_gain_is_taken_without_a_question(tmp_path: Path):
    graph = react_reward.build(**RATING, propose=listed, choose=greedy)
    result = run_blocks(graph, tmp_path, task="3-1")
    assert result.ending == "goal"
    assert len(result.state["turns"]) == 2
    assert result.usage.calls == 0


def test_the_best_gain_wins_and_of_equals_the_first_proposed():
    offered = {"a": 0.1, "b": 0.3, "c": 0.3, "d": -0.2}
    order = rank_appraisals([Appraisal(action=a, reward=0.5 + g, gain=g) for a, g in offered.items()])
    assert [one.action for one in order] == ["b", "c", "a", "d"]


def test_a_way_back_is_taken_only_where_nothing_else_is_left():
    back, on = (
        Appraisal(action=a, reward=0.5, gain=g, seen=s) for a, g, s in [("back", 0.1, True), ("on", -0.2, False)]
    )
    assert [chosen([back, on]), chosen([back])] == ["on", "back"]


def chosen(appraisals: list[Appraisal]) -> str:
    return str(asyncio.run(greedy({"appraisals": appraisals}, None))["action"].text)  # type: ignore[arg-type, typeddict-item]


@pytest.fixture
def readings() -> list[tuple[str, str, str]]:
    READINGS.clear()
    REVISIONS.clear()
    return READINGS


UP, DOWN = "pick up the orange block", "put down the orange block"


def test_an_answer_that_was_foreseen_is_not_read_again(readings: list[tuple[str, str, str]], tmp_path: Path):
    graph = react_reward.build(
        **{**RATING, "extract": extract_as_model}, propose=listed, choose=take_actions([UP, DOWN, UP])
    )
    result = run_blocks(graph, tmp_path / "a", task="3-1", steps=4)
    plain = react_reward.build(**RATING, propose=listed, choose=take_actions([UP, DOWN, UP]))
    assert len(readings) == len(set(readings))
    rated = [one for e in result.trajectory.events if e.node == "appraise" for one in e.update["appraisals"]]
    assert len(readings) < 1 + len(rated), "after the way back the same outcomes are foreseen from the same state"
    assert rewards(result) == rewards(run_blocks(plain, tmp_path / "b", task="3-1", steps=4))


def test_an_answer_that_was_not_foreseen_is_read(readings: list[tuple[str, str, str]], tmp_path: Path):
    async def wrong(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        foreseen = (await rehearsed(state, runtime))["foreseen"]
        return {
            "foreseen": tuple(one.model_copy(update={"observation": f"{one.observation} Or so."}) for one in foreseen)
        }

    graph = react_reward.build(
        **{**RATING, "extract": extract_as_model}, propose=listed, imagine=wrong, choose=take_actions([UP, DOWN])
    )
    result = run_blocks(graph, tmp_path, task="3-1", steps=3)
    lived = [turn.observation for turn in result.state["turns"][:-1]]
    assert [answer for _, action, answer in readings if action and answer in lived] == lived


def test_what_was_foreseen_survives_an_interruption(readings: list[tuple[str, str, str]], tmp_path: Path):
    graph = react_reward.build(**{**RATING, "extract": extract_as_model}, propose=listed)
    context = Context(chat=ScriptedChat(responder=answer_request), budget=Budget(calls=1))
    stopped = run(graph, BlocksWorld(), "4-0", context=context, out=tmp_path)
    assert (stopped.ending, len(stopped.state["history"])) == ("limit:calls", 1)
    finished = resume(stopped.folder, budget=Budget(calls=99), graph=graph, chat=context.chat, benchmark=BlocksWorld())
    assert finished.ending == "goal"
    assert len(readings) == len(set(readings))


def test_the_goal_is_described_again_only_where_something_new_is_named(
    readings: list[tuple[str, str, str]], tmp_path: Path
):
    graph = react_reward.build(
        **{**RATING, "extract": extract_as_model, "interpret": describe_goal_as_model},
        propose=listed,
        choose=take_actions([UP, DOWN, UP]),
        appraise=appraise(**RATING),
    )
    run_blocks(graph, tmp_path, task="3-1", steps=3)
    assert REVISIONS == ["", UP], "the hand is named first after a block is picked up"


def rewards(result: Result) -> list[float]:
    return [event.update["reward"] for event in result.trajectory.events if event.node == "route"]


def test_rehearsals_leave_the_live_world_alone(tmp_path: Path):
    benchmark, scripted_model = WatchedBlocks(), ScriptedChat(responder=answer_request)
    result = run(react_reward.build(**RATING), benchmark, "4-0", context=Context(chat=scripted_model), out=tmp_path)
    live, *copies = benchmark.worlds
    assert live.done == [turn.action for turn in result.state["turns"]]
    assert live.resets == 1
    assert copies
    assert all(world.closed for world in benchmark.worlds)


def test_the_choice_is_among_the_candidates_and_knows_their_gains(tmp_path: Path):
    scripted_model = ScriptedModel()
    result = run_blocks(react_reward.build(**RATING), tmp_path, scripted_model, steps=2)
    offered = result.state["appraisals"]
    assert [one.action for one in offered] == list(result.state["candidates"])
    assert all(f"{one.action} ({one.gain:+.2f})" in scripted_model.prompts("choice")[-1] for one in offered)


@pytest.mark.parametrize("window", [0, 4_096])
def test_the_choice_knows_what_would_change(window: int, tmp_path: Path):
    scripted_model = ScriptedModel()
    context = Context(chat=ScriptedChat(responder=scripted_model), limits=Limits(steps=1), window=window)
    result = run(react_reward.build(**RATING), BlocksWorld(), "4-0", context=context, out=tmp_path)
    offered = result.state["appraisals"]
    assert all(one.changes for one in offered)
    assert all(one.changes[0] in scripted_model.prompts("choice")[0] for one in offered)


def test_new_facts_are_what_changed_and_what_was_not_there():
    before = to_factored({"a": {"place": "table", "state": "clear"}, "b": {}})
    after = to_factored({"a": {"place": "hand", "state": "clear"}, "b": {}, "c": {}, "d": {"place": "table"}})
    assert new_facts(before, after) == ("a: place = hand", "c", "d: place = table")


def test_ended_facts_are_those_that_nothing_replaces():
    before = to_factored({"a": {"place": "table", "state": "clear"}, "b": {}, "d": {"place": "table"}})
    after = to_factored({"a": {"place": "hand"}, "c": {}})
    assert ended_facts(before, after) == ("a: state = clear", "b", "d: place = table")


def test_an_action_that_changes_nothing_is_not_one_that_leads_back(tmp_path: Path):
    async def propose(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"candidates": (UP, "jump")} if not state["turns"] else {"candidates": (DOWN, "jump")}

    scripted_model = ScriptedModel()
    result = run_blocks(react_reward.build(**RATING, propose=propose), tmp_path, scripted_model, task="3-1", steps=2)
    rated = [e.update["appraisals"] for e in result.trajectory.events if e.node == "appraise"]
    marks = [{one.action: one.mark for one in map(Appraisal.model_validate, group)} for group in rated]
    nothing, back = marks[0]["jump"], marks[1][DOWN]
    assert marks == [{UP: "", "jump": nothing}, {DOWN: back, "jump": nothing}]
    assert len({"", nothing, back}) == 3
    assert nothing in scripted_model.prompts("choice")[0]
    assert back in scripted_model.prompts("choice")[1]


def test_fewer_candidates_than_k_may_be_named(tmp_path: Path):
    def one(prompt: str, form: dict[str, Any]) -> Any:
        if "actions" in form["properties"]:
            assert form["properties"]["actions"]["minItems"] == 1
        return minimal_instance(form)

    result = run_blocks(react_reward.build(**RATING, propose=propose_actions(k=2)), tmp_path, one, steps=1)
    assert len(result.state["candidates"]) == 1
    assert result.usage.calls == 2


@pytest.mark.parametrize(("k", "calls"), [(2, 2), (3, 1)])
def test_who_may_do_no_more_than_k_is_not_called_to_propose(k: int, calls: int, tmp_path: Path):
    result = run_blocks(react_reward.build(**RATING, propose=propose_actions(k=k)), tmp_path, task="4-0", steps=1)
    assert result.usage.calls == calls


def test_a_shortlist_is_k_actions_near_the_assignment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("certigraph.nodes.lookahead.find_encoder", lambda name: None)
    graph = react_reward.build(**RATING, propose=shortlisted(k=2), choose=greedy)
    assert len(run_blocks(graph, tmp_path, task="6-1", steps=1).state["candidates"]) == 2


def test_it_is_stopped_where_it_goes_round_in_circles_and_its_trajectory_adds_up(tmp_path: Path):
    graph = react_reward.build(**RATING, propose=listed, choose=take_actions(["jump"] * 9))
    result = run_blocks(graph, tmp_path, steps=9, repeats=3)
    state = read_trajectory(result.folder).state()
    assert [turn.action for turn in state["turns"]] == [step.action.text for step in state["history"]] == ["jump"] * 3
    assert result.ending == "gave_up"
