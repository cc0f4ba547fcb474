"""Tests of the episodes of `runtime.history`."""

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.watched_blocks import RATING, take_actions
from rich.console import Console

import certigraph
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.atif import to_atif
from certigraph.evaluation.export import rows_of
from certigraph.evaluation.inspect_log import to_inspect
from certigraph.graphs import mcts, react_reward, statefactory
from certigraph.nodes.lookahead import listed
from certigraph.runtime.history import Candidate, Prospect, RunHistory, read_history
from certigraph.runtime.live import LiveView, plain_lines
from certigraph.runtime.result import Result

# Runs that look ahead in live views, reports and exports: candidates with their values, and the reward.

UP = "unstack the red block from on top of the blue block"
BACK = "stack the red block on top of the blue block"
DONE = "stack the red block on top of the orange block"

GRAPHS: dict[str, Any] = {
    "react_reward": lambda: react_reward.build(**RATING, choose=take_actions([UP, DONE])),
    "mcts": lambda: mcts.build(**RATING, propose=listed),
}


class Watching:
    """A run of task 3-1, where red is on blue and should be on orange, with the lines of its live view."""

    def __init__(self, name: str, out: Path) -> None:
        plain = Console(file=io.StringIO(), width=400)
        drawn = Console(record=True, force_terminal=True, width=150, height=40, file=io.StringIO())
        with LiveView(plain) as lines, LiveView(drawn) as picture:

            def listen(line: Any) -> None:
                lines(line)
                picture(line)

            context = Context(limits=Limits(steps=4))
            self.result = certigraph.run(
                GRAPHS[name](), "blocksworld", "3-1", out=out, context=context, listener=listen
            )
        self.lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
        self.frame = drawn.export_text()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Watching]:
    return {name: Watching(name, tmp_path_factory.mktemp(name)) for name in GRAPHS}


def prospects(result: Result) -> dict[int, Prospect]:
    (episode,) = read_history(result.trajectory).episodes.all
    return {entry.number: entry.prospect for entry in episode.entries() if entry.prospect}


@pytest.mark.slow
def test_before_each_action_its_candidates_are_known_with_their_gains(watched: dict[str, Watching]):
    first, second = prospects(watched["react_reward"].result).values()
    assert (first.reward, first.chosen) == (0.0, UP)
    assert {one.action for one in first.candidates} == {UP, "pick up the orange block"}
    best, *others = second.candidates
    assert best == Candidate(DONE, "+1.00")
    assert Candidate(BACK, "+0.00 (leads back)") in others


def test_of_a_search_visits_and_values_are_reported(watched: dict[str, Watching]):
    first, second = prospects(watched["mcts"].result).values()
    assert first.chosen == UP
    assert all("visit" in one.worth for one in first.candidates)
    assert second.candidates[0].action == DONE == second.chosen
    assert second.candidates[0].worth == "1.00 (1 visit)"


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_the_reward_after_an_action_is_that_before_the_next(name: str, watched: dict[str, Watching]):
    first, second = prospects(watched[name].result).values()
    assert [first.after, second.after] == [second.reward, 1.0]
    assert second.line.startswith("reward 0.00 → 1.00")


@pytest.mark.parametrize("name", GRAPHS)
def test_exports_count_what_was_thought_before_an_action_as_that_actions(name: str, watched: dict[str, Watching]):
    trajectory = watched[name].result.trajectory
    _, began, *steps = to_atif(trajectory)["steps"]
    assert began["extra"]["nodes"] == ["reset"]
    assert [step["message"] for step in steps] == [UP, DONE]
    assert all(step["extra"]["nodes"][-2:] == ["choose", "act"] for step in steps)
    counted = Counter(node for step in steps for node in step["extra"]["nodes"])
    assert counted == Counter(event.node for event in trajectory.events[1:])
    assert [row["action"] for row in rows_of(trajectory)] == [UP, DONE]
    assert [m.role for m in to_inspect([trajectory]).samples[0].messages][2:] == ["assistant", "tool"] * 2


def test_exports_tell_each_predicted_reward(tmp_path: Path):
    run = certigraph.run(statefactory.build(**RATING), "rewardprediction", "blocksworld/3-0", out=tmp_path)
    *rated, delivered = to_atif(run.trajectory)["steps"][2:]
    predicted = [one.reward for one in run.state["rewards"]]
    assert [step["message"] for step in rated] == [f"reward {reward:.2f}" for reward in predicted]
    assert delivered["message"] == "rewards"


# Runs of reward predictors in live views and reports: every step with its reward, predicted and true curves.

GOAL = "the red block is on top of the blue block"
PLACES = ["the red block is on the table", "the hand is currently holding the red block", GOAL]


async def share(state, runtime):
    """Predictable rewards: 0.5 for holding the block, 1 for the goal."""
    seen = state["step"].observation
    return {"reward": float(seen == GOAL) or 0.5 * ("holding" in seen)}


@pytest.fixture(scope="module")
def watched_reward_views(tmp_path_factory):
    lines = []
    recording = [{"action": f"move {n}", "observation": place} for n, place in enumerate(PLACES)]
    task = {"domain": "blocksworld", "recordings": [recording, recording[:1]]}
    mine = certigraph.Task(benchmark="rewardprediction", id="mine", goal=f"My goal is that {GOAL}.", constants=task)
    result = certigraph.run(
        statefactory.build(route=share),
        "rewardprediction",
        mine,
        out=tmp_path_factory.mktemp("r"),
        listener=lines.append,
    )
    return result, lines


def test_the_trajectory_tells_every_step_with_its_reward_and_states(watched_reward_views):
    result, _ = watched_reward_views
    rating = read_history(read_trajectory(result.folder / "trajectory.jsonl")).rating
    assert [[rated.reward for rated in recording] for recording in rating.recordings] == [[0.0, 0.5, 1.0], [0.0]]
    assert rating.recordings[0][2].state.get("red block").attributes
    assert rating.recordings[0][2].goal.get("red block")


def test_a_task_of_ones_own_is_rated_and_says_that_its_true_rewards_are_not_known(watched_reward_views):
    result, _ = watched_reward_views
    assert [one.reward for one in result.state["rewards"]] == [0.0, 0.5, 1.0, 0.0]
    assert result.ending == "world_ended" and result.trajectory.footer.scores.parts == {}


def test_a_task_of_ones_own_without_a_domain_is_read_by_a_model():
    calls = []

    def answer(prompt, schema):
        calls.append(prompt)
        held = {"object": "key", "attributes": [{"name": "place", "value": "pocket"}]}
        fields = {"anchors": [], "milestones": {"objects": []}, "objects": [held]}
        return {name: fields[name] for name in schema["properties"] if name != "reasoning"}

    recording = [{"action": "take key", "observation": "You hold the key."}] * 2
    mine = certigraph.Task(
        benchmark="rewardprediction", id="mine", goal="have the key", constants={"recordings": [recording]}
    )
    context = certigraph.Context(chat=ScriptedChat(responder=answer))
    final = statefactory.build(route=share).invoke({"task": mine}, context=context)
    assert len(calls) == 4 and len(final["rewards"]) == 2  # a state and a goal a step
    assert final["goal"].get("key") == final["factored"].get("key") is not None


def test_a_watcher_hears_of_each_step_once(watched_reward_views):
    run = RunHistory()
    values = [text for line in watched_reward_views[1] for text in (run.take(line), *plain_lines(run, line))[1:]]
    assert values[0].startswith("statefactory on rewardprediction mine, model ")
    assert values[2:4] == [
        "recording 1, step 1 of 4: reward 0.00: move 0",
        "recording 1, step 2 of 4: reward 0.50: move 1",
    ]
    assert len(values) == 7
    assert "4/4 recorded steps rated" in values[-1]
