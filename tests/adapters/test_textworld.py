"""TextWorld: games from seeds, kept whole, worlds that replay, demonstrations, the expert and the random policy."""

import json
import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.textworld import kinds
from certigraph.adapters.textworld.benchmark import TextWorldBenchmark
from certigraph.adapters.textworld.games import DESCRIPTION, STORY, Library, named
from certigraph.adapters.textworld.playing import tidied
from certigraph.adapters.textworld.world import TextWorld
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action

pytest.importorskip("textworld", reason="pip install 'certigraph[textworld]'")

QUEST = "quest-5-0"


@pytest.fixture(scope="module")
def benchmark() -> TextWorldBenchmark:
    found = load_benchmark("textworld")
    assert isinstance(found, TextWorldBenchmark)
    return found


@pytest.fixture
def world(benchmark: TextWorldBenchmark) -> TextWorld:
    return benchmark.open(benchmark.task(QUEST))


def played(world: TextWorld, actions: list[str]) -> list[str]:
    return [world.reset().text, *(world.step(Action(text=action)).text for action in actions)]


@pytest.mark.parametrize("name", ["chess-1-0", "cooking-9-0", "cooking-0-0", "cooking-1", "cooking-1-01", "../x", ""])
def test_a_wrong_name_is_refused_with_the_right_form(name: str):
    with pytest.raises(UnknownName, match="cooking-1-0"):
        named(name)


def test_an_unknown_split_or_configuration_is_refused(benchmark: TextWorldBenchmark):
    with pytest.raises(UnknownName, match="cooking, quest, rewards, treasure_hunter"):
        benchmark.tasks("hard")
    with pytest.raises(UnknownName, match="plainly"):
        load_benchmark("textworld:paper")


def test_without_the_package_one_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(kinds, "find_spec", lambda name: None)
    with pytest.raises(Fault, match=r"pip install 'certigraph\[textworld\]'"):
        Library(tmp_path).game(QUEST)


@pytest.mark.slow
def test_a_seed_makes_the_same_game_in_every_library(benchmark: TextWorldBenchmark, tmp_path: Path):
    again, known = Library(tmp_path).game(QUEST), benchmark.library.game(QUEST)
    assert (again.objective, again.walkthrough) == (known.objective, known.walkthrough)
    actions = ["look", *known.walkthrough]
    assert played(TextWorld(again), actions) == played(TextWorld(known), actions)
    assert [path.name for path in tmp_path.iterdir()] == [QUEST], "nothing unfinished is left"
    assert json.loads((tmp_path / QUEST / DESCRIPTION).read_text()) and (tmp_path / QUEST / STORY).is_file()


def test_a_game_that_is_not_finished_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def broken(*args: object) -> None:
        raise Fault("data", "no room")

    monkeypatch.setattr("certigraph.adapters.textworld.games.make_game", broken)
    with pytest.raises(Fault, match="no room"):
        Library(tmp_path).game(QUEST)
    assert not list(tmp_path.iterdir())


def test_the_demonstration_wins_and_the_world_says_so(benchmark: TextWorldBenchmark, world: TextWorld):
    world.reset()
    for action in benchmark.demonstration(benchmark.task(QUEST)):
        seen = world.step(Action(text=action))
        assert seen.accepted
    assert seen.done and seen.solved and world.score().value == 1.0
    assert world.admissible() == [] and not world.step(Action(text="look")).accepted


def test_a_demonstration_goes_on_from_elsewhere(benchmark: TextWorldBenchmark, world: TextWorld):
    task = benchmark.task(QUEST)
    first, *rest = benchmark.demonstration(task)
    assert benchmark.demonstration(task, ["look", first]) == rest
    assert benchmark.demonstration(task, [first, *rest]) == []


def test_actions_replayed_lead_to_the_same_texts(benchmark: TextWorldBenchmark, world: TextWorld):
    actions = ["look", "inventory", *benchmark.demonstration(benchmark.task(QUEST))[:3]]
    assert played(world, actions) == played(benchmark.open(benchmark.task(QUEST)), actions)


def test_looking_changes_nothing(world: TextWorld):
    world.reset()
    before = world.view(), world.admissible()
    assert (world.view(), world.admissible()) == before
    assert "\u2500" not in before[0] and "$$" not in before[0] and "-=" in before[0]


@pytest.mark.parametrize("text", ["restart", "quit", "undo", "tw-trace-actions", "", "look. inventory", "xyzzy"])
def test_what_is_not_for_the_world_is_refused(world: TextWorld, text: str):
    world.reset()
    before = world.view()
    assert not world.step(Action(text=text)).accepted
    assert world.view() == before


def test_two_worlds_at_once_do_not_mix(benchmark: TextWorldBenchmark):
    task, told, ready = benchmark.task(QUEST), {}, Barrier(2)

    def play(name: str, actions: list[str]) -> None:
        ready.wait()
        told[name] = played(benchmark.open(task), actions)

    ways = {"won": benchmark.demonstration(task), "idle": ["look"] * 5}
    threads = [Thread(target=play, args=way) for way in ways.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "The End" in told["won"][-1] and "The End" not in told["idle"][-1]


def test_texts_lose_what_a_terminal_needs():
    raw = "\nYou open it.\n\n\n>                                           -= Attic =-0/3"
    assert tidied(raw) == "You open it."


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "sdp"])
def test_the_expert_wins_and_chance_rarely(graph: str, tmp_path: Path):
    import subprocess

    def score(model: str, task: str) -> float:
        command = [sys.executable, "-m", "certigraph", "run", graph, "textworld", "--task", task, "--json"]
        done = subprocess.run(
            [*command, "--model", model, "--out", str(tmp_path)], capture_output=True, text=True, check=False
        )
        return float(json.loads(done.stdout)["scores"]["value"])

    tasks = ["quest-5-0", "cooking-1-0", "treasure_hunter-5-0"]
    assert [score("scripted:expert", task) for task in tasks] == [1.0] * 3
    assert sum(score("scripted:random", task) == 1.0 for task in tasks) < 3
