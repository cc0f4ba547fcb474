"""ALFWorld: its games on disk, the live simulator, and the planner that demonstrates."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from real_data import data_folder

from certigraph.adapters.alfworld.benchmark import ALFWorld
from certigraph.adapters.alfworld.games import GAME, Games
from certigraph.adapters.alfworld.sight import sight
from certigraph.adapters.context import Context
from certigraph.adapters.episodes import Episode
from certigraph.evaluation.run import run
from certigraph.state.endings import Fault, UnknownName
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


def laid_out(root: Path, split: str = "valid_unseen", goal: str = "put a cup in shelf.") -> Path:
    """A folder of unpacked games that holds one."""
    game = root / "json_2.1.1" / split / "pick_and_place_simple-Cup-None-Shelf-1" / "trial_T1" / GAME
    game.parent.mkdir(parents=True)
    game.write_text(json.dumps({"grammar": f'"rhs": "Your task is to: {goal}"'}))
    return root


def packed(root: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz") as made:
        made.add(root / "json_2.1.1", "json_2.1.1")


def test_games_are_found_unpacked_and_in_archives_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain = laid_out(tmp_path / "plain")
    (tmp_path / "archives").mkdir()
    packed(plain, tmp_path / "archives" / "valid_unseen.games.tar.xz")
    for folder in (plain, tmp_path / "archives"):
        benchmark = ALFWorld(folder)
        (task,) = benchmark.tasks()
        assert (task.id, task.goal) == ("pick_and_place_simple-Cup-None-Shelf-1/trial_T1", "put a cup in shelf")
        assert benchmark.task(task.id) == task
    kept = [path.name for path in (tmp_path / "cache" / "certigraph" / "alfworld").iterdir()]
    assert len(kept) == 1, kept


def test_a_broken_archive_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "valid_unseen.games.tar.xz").write_bytes(b"no archive")
    with pytest.raises(Fault, match=r"valid_unseen\.games\.tar\.xz cannot be unpacked"):
        ALFWorld(tmp_path).tasks()
    assert list((tmp_path / "cache" / "certigraph" / "alfworld").iterdir()) == []


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda b: b.tasks("test"), UnknownName, "no split 'test'.*valid_unseen"),
        (lambda b: b.task("no/such"), UnknownName, "no ALFWorld task 'no/such'; known are pick_and_place"),
        (lambda b: b.task("../../escape"), UnknownName, "no ALFWorld task"),
    ],
)
def test_what_is_not_there_is_named(
    ask: Callable[[ALFWorld], object], error: type[Exception], told: str, tmp_path: Path
):
    with pytest.raises(error, match=told):
        ask(ALFWorld(laid_out(tmp_path)))


def test_without_games_the_fix_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    for folder in (None, tmp_path):
        with pytest.raises(Fault, match="--data DIR"):
            ALFWorld(folder).tasks()
    monkeypatch.setenv("ALFWORLD_DATA", str(laid_out(tmp_path)))
    assert Games(None).splits() == ["valid_unseen"]


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
