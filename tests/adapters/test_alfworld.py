"""ALFWorld: what an agent sees, the live simulator, and the planner that demonstrates."""

from pathlib import Path

import pytest
from real_data import data_folder

from certigraph.adapters.alfworld.benchmark import ALFWorld, sight
from certigraph.adapters.episodes import Episode
from certigraph.adapters.protocols import Context
from certigraph.runtime.run import run
from certigraph.state.records import Action

TYPES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)

CLOCK = "look_at_obj_in_light-AlarmClock-None-DeskLamp-308/trial_T20190908_222917_366542"


def test_sight_is_told_in_the_worlds_words_and_in_order():
    facts = frozenset(
        {
            ("atlocation", "agent1", "loc 3"),
            ("receptacleatlocation", "fridge 1", "loc 3"),
            ("receptacleatlocation", "shelf 1", "loc 3"),
            ("receptacleatlocation", "safe 1", "loc 4"),
            ("openable", "fridge 1"),
            ("inreceptacle", "egg 10", "shelf 1"),
            ("inreceptacle", "egg 9", "shelf 1"),
            ("inreceptacle", "cup 1", "fridge 1"),
        }
    )
    told = "The fridge 1 is closed.\nOn the shelf 1, you see a egg 9, and a egg 10.\nYou are not carrying anything."
    assert sight(facts) == told
    opened = sight(facts | {("opened", "fridge 1"), ("holds", "agent1", "cup 2")})
    assert opened.startswith("The fridge 1 is open. In it, you see a cup 1.")
    assert opened.endswith("You are carrying: a cup 2.")


@pytest.mark.slow
def test_a_game_is_played_refuses_nonsense_and_answers_the_same_again():
    benchmark = ALFWorld(data_folder("alfworld"))
    task = benchmark.task(CLOCK)
    world, replies = benchmark.open(task), []
    for _ in range(2):
        texts = [world.reset().text]
        refused = world.step(Action(text="dance"))
        assert (refused.accepted, refused.text) == (False, "Nothing happens.")
        plan = benchmark.demonstration(task)
        for action in plan:
            before = world.view()
            assert action in world.admissible()
            seen = world.step(Action(text=action))
            texts.append(seen.text)
            assert world.view() != before or action.startswith("use")
        assert seen.done and seen.solved and seen.reward == world.score().value == 1.0
        replies.append(texts)
        world.close()
    assert replies[0] == replies[1]
    assert benchmark.demonstration(task, plan[:2]) == plan[2:]
    assert benchmark.demonstration(task, plan) == []


@pytest.mark.slow
def test_a_world_reset_in_the_middle_is_the_one_that_began():
    benchmark = ALFWorld(data_folder("alfworld"))
    world = benchmark.open(benchmark.task(CLOCK))
    begun = world.reset(), world.view(), world.admissible()
    for _ in range(3):
        world.step(Action(text=world.admissible()[0]))
    assert world.view() != begun[1]
    assert (world.reset(), world.view(), world.admissible()) == begun
    world.close()


@pytest.mark.slow
def test_what_was_done_is_repeated_to_the_letter_by_a_fresh_world():
    benchmark = ALFWorld(data_folder("alfworld"))
    task = benchmark.task(CLOCK)
    episode = Episode(benchmark.open(task))
    for action in ("look", "fumble", *benchmark.demonstration(task)):
        episode.step(Action(text=action))
    again = Episode(benchmark.open(task))
    again.replay(episode.log)
    assert again.evidence() == episode.evidence()
    assert (again.ended, again.score().value) == (True, 1.0)
    for one in (episode, again):
        one.environment.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_the_expert_does_a_game_of_each_type_and_chance_does_not(kind: str, tmp_path: Path):
    benchmark = ALFWorld(data_folder("alfworld"))
    task = next(task for task in benchmark.tasks() if task.id.startswith(kind))
    for graph in ("sdp", "react"):
        result = run(graph, benchmark, task.id, context=Context(model="scripted:expert"), out=tmp_path)
        assert result.scores and result.scores.value == 1.0, result.ending
        assert [step.action.text for step in result.state["history"]] == benchmark.demonstration(task)
    result = run("react", benchmark, task.id, context=Context(model="scripted:random"), out=tmp_path)
    assert result.scores and result.scores.value == 0.0
