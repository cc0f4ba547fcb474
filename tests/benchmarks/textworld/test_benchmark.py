"""Tests of `benchmarks.textworld.benchmark`."""

from threading import Barrier, Thread

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.benchmarks.textworld.benchmark import TextWorldBenchmark
from certigraph.benchmarks.textworld.world import TextWorldEnvironment, clean_text
from certigraph.state.endings import Fault
from certigraph.state.records import Action

# TextWorld: worlds that replay and do not mix, texts, demonstrations.

pytest.importorskip("textworld", reason="pip install 'certigraph[textworld]'")

QUEST = "quest-5-0"


@pytest.fixture(scope="module")
def benchmark() -> TextWorldBenchmark:
    found = load_benchmark("textworld")
    assert isinstance(found, TextWorldBenchmark)
    return found


@pytest.fixture
def world(benchmark: TextWorldBenchmark) -> TextWorldEnvironment:
    return benchmark.open(benchmark.task(QUEST))


def played(world: TextWorldEnvironment, actions: list[str]) -> list[str]:
    return [world.reset().text, *(world.step(Action(text=action)).text for action in actions)]


@pytest.mark.slow
def test_the_demonstration_wins_and_the_world_says_so(benchmark: TextWorldBenchmark, world: TextWorldEnvironment):
    world.reset()
    for action in benchmark.demonstration(benchmark.task(QUEST)):
        seen = world.step(Action(text=action))
        assert seen.accepted
    assert seen.done and seen.solved and world.score().value == 1.0
    assert world.admissible() == [] and not world.step(Action(text="look")).accepted


@pytest.mark.slow
def test_a_demonstration_goes_on_from_elsewhere(benchmark: TextWorldBenchmark, world: TextWorldEnvironment):
    task = benchmark.task(QUEST)
    first, *rest = benchmark.demonstration(task)
    assert benchmark.demonstration(task, ["look", first]) == rest
    assert benchmark.demonstration(task, [first, *rest]) == []


@pytest.mark.slow
def test_actions_replayed_lead_to_the_same_texts(benchmark: TextWorldBenchmark, world: TextWorldEnvironment):
    actions = ["look", "inventory", *benchmark.demonstration(benchmark.task(QUEST))[:3]]
    assert played(world, actions) == played(benchmark.open(benchmark.task(QUEST)), actions)


def test_looking_changes_nothing(world: TextWorldEnvironment):
    world.reset()
    before = world.view(), world.admissible()
    assert (world.view(), world.admissible()) == before
    assert "\u2500" not in before[0] and "$$" not in before[0] and "-=" in before[0]


@pytest.mark.parametrize("text", ["restart", "quit", "undo", "tw-trace-actions", "", "look. inventory", "xyzzy"])
def test_what_is_not_for_the_world_is_refused(world: TextWorldEnvironment, text: str):
    world.reset()
    before = world.view()
    assert not world.step(Action(text=text)).accepted
    assert world.view() == before


@pytest.mark.slow
def test_two_worlds_at_once_do_not_mix(benchmark: TextWorldBenchmark):
    task, result, ready = benchmark.task(QUEST), {}, Barrier(2)

    def play(name: str, actions: list[str]) -> None:
        ready.wait()
        result[name] = played(benchmark.open(task), actions)

    ways = {"won": benchmark.demonstration(task), "idle": ["look"] * 5}
    threads = [Thread(target=play, args=way) for way in ways.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "The End" in result["won"][-1] and "The End" not in result["idle"][-1]


def test_texts_lose_what_a_terminal_needs():
    raw = "\nYou open it.\n\n\n>                                           -= Attic =-0/3"
    assert clean_text(raw) == "You open it."


def test_a_closed_world_asks_to_be_reset(world: TextWorldEnvironment):
    world.reset()
    world.close()
    for ask in (world.view, world.admissible, world.score, lambda: world.step(Action(text="look"))):
        with pytest.raises(Fault, match=r"quest-5-0 is closed or was never reset: call reset\(\) first"):
            ask()
    assert "-=" in world.reset().text


@pytest.mark.slow
def test_a_demonstration_from_where_nothing_wins_any_more_is_refused(benchmark: TextWorldBenchmark):
    task = benchmark.task("cooking-1-0")
    lost = ["take green apple from counter", "eat green apple"]
    with pytest.raises(Fault, match=r"cooking-1-0 cannot be won after .*; eat green apple: start it again"):
        benchmark.demonstration(task, lost)
