"""A predictor's run as it is watched and reported: every step with its reward, predicted and true curves."""

import pytest

import certigraph
from certigraph.adapters.models.scripted import ScriptedChat
from certigraph.graphs import statefactory
from certigraph.runtime.episodes import read_rating
from certigraph.runtime.live import plain_lines
from certigraph.runtime.report import write_report
from certigraph.runtime.terminal import Watched
from certigraph.state.trajectory import read_trajectory

GOAL = "the red block is on top of the blue block"
PLACES = ["the red block is on the table", "the hand is currently holding the red block", GOAL]


async def share(state, runtime):
    """Rewards that a test can foresee: half for the hand, all for the goal."""
    seen = state["step"].observation
    return {"reward": float(seen == GOAL) or 0.5 * ("holding" in seen)}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
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


def test_the_trajectory_tells_every_step_with_its_reward_and_states(watched):
    result, _ = watched
    rating = read_rating(read_trajectory(result.folder / "trajectory.jsonl").events)
    assert [[rated.reward for rated in recording] for recording in rating.recordings] == [[0.0, 0.5, 1.0], [0.0]]
    assert rating.recordings[0][2].state.get("red block").attributes
    assert rating.recordings[0][2].goal.get("red block")


def test_a_task_of_ones_own_is_rated_and_says_that_its_true_rewards_are_not_known(watched):
    result, _ = watched
    assert [one.reward for one in result.state["rewards"]] == [0.0, 0.5, 1.0, 0.0]
    assert result.ending == "world_ended" and result.trajectory.footer.scores.parts == {}


def test_a_task_of_ones_own_without_a_domain_is_read_by_a_model():
    asked = []

    def answer(prompt, schema):
        asked.append(prompt)
        held = {"object": "key", "attributes": [{"name": "place", "value": "pocket"}]}
        told = {"anchors": [], "milestones": {"objects": []}, "objects": [held]}
        return {name: told[name] for name in schema["properties"]}

    recording = [{"action": "take key", "observation": "You hold the key."}] * 2
    mine = certigraph.Task(
        benchmark="rewardprediction", id="mine", goal="have the key", constants={"recordings": [recording]}
    )
    context = certigraph.Context(chat=ScriptedChat(responder=answer))
    final = statefactory.build(route=share).invoke({"task": mine}, context=context)
    assert len(asked) == 4 and len(final["rewards"]) == 2  # a state and a goal a step
    assert final["goal"].get("key") == final["factored"].get("key") is not None


def test_a_watcher_hears_of_each_step_once(watched):
    run = Watched()
    said = [text for line in watched[1] for text in (run.take(line), *plain_lines(run, line))[1:]]
    assert said[0].startswith("statefactory on rewardprediction mine, model ")
    assert said[2:4] == [
        "recording 1, step 1 of 4: reward 0.00: move 0",
        "recording 1, step 2 of 4: reward 0.50: move 1",
    ]
    assert len(said) == 7
    assert "4/4 recorded steps rated" in said[-1]


def test_the_report_draws_each_recording_and_escapes_what_was_recorded(watched, tmp_path):
    page = write_report(watched[0].trajectory, tmp_path / "report.html").read_text()
    assert page.count('class="score ink0"') == 1
    assert page.count('class="turn rated"') == 4
    assert "+0.50" in page
    assert "true rewards" not in page  # a task of one's own has none
