"""Live episodes: who closes them, and how many stay open."""

from langgraph.runtime import Runtime

from certigraph.adapters import episodes
from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.adapters.context import Context
from certigraph.adapters.episodes import EPISODES, answering_for, close_episode, live_episode

TASK = BlocksWorld().task("3-0")
RUNTIME = Runtime(context=Context(benchmark=BlocksWorld()))


def opened(*keys: str) -> set[str]:
    """Which of some episodes are open when each was asked for in turn."""
    for key in keys:
        live_episode(key, TASK, [], RUNTIME)
    return {key for key in keys if key in EPISODES}


def test_of_episodes_that_nobody_answers_for_the_oldest_makes_room(monkeypatch):
    monkeypatch.setattr(episodes, "MOST_EPISODES", 2)
    assert opened("one:a", "two:a", "three:a") == {"two:a", "three:a"}
    for key in ("two:a", "three:a"):
        close_episode(key)


def test_episodes_that_somebody_answers_for_stay_open_and_take_nobodys_room(monkeypatch):
    monkeypatch.setattr(episodes, "MOST_EPISODES", 1)
    assert opened("own:a") == {"own:a"}
    keys: set[str] = set()
    with answering_for(keys):
        assert opened("one:b", "two:b", "three:b") == {"one:b", "two:b", "three:b"}
    assert keys == {"one:b", "two:b", "three:b"}
    assert "own:a" in EPISODES
    for key in (*keys, "own:a"):
        close_episode(key)
