"""Live episodes: who closes them, and how many stay open."""

import threading

from langgraph.runtime import Runtime

from certigraph.adapters import episodes
from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.adapters.episodes import EPISODES, close_episode, live_episode, new_scope
from certigraph.adapters.protocols import Context

TASK = BlocksWorld().task("3-0")
RUNTIME = Runtime(context=Context(benchmark=BlocksWorld()))


def opened(*keys: str) -> set[str]:
    """Which of some episodes are open when each was asked for in turn."""
    for key in keys:
        live_episode(key, TASK, [], RUNTIME)
    return {key for key in keys if key in EPISODES}


def test_of_episodes_that_no_scope_closes_the_oldest_makes_room(monkeypatch):
    monkeypatch.setattr(episodes, "MOST_EPISODES", 2)
    assert opened("one:a", "two:a", "three:a") == {"two:a", "three:a"}
    for key in ("two:a", "three:a"):
        close_episode(key)


def test_episodes_of_a_scope_stay_open_until_it_ends_and_take_nobodys_room(monkeypatch):
    monkeypatch.setattr(episodes, "MOST_EPISODES", 1)
    assert opened("own:a") == {"own:a"}
    scope = new_scope()
    with scope.active():
        assert opened("one:b", "two:b", "three:b") == {"one:b", "two:b", "three:b"}
    assert "own:a" in EPISODES
    scope.end()
    assert {"own:a", "one:b"} & EPISODES.keys() == {"own:a"}
    close_episode("own:a")


def test_what_an_outer_scope_opened_an_inner_one_leaves_open():
    outer = new_scope()
    with outer.active():
        opened("outer:a")
        inner = new_scope()
        with inner.active():
            assert opened("outer:a", "inner:a") == {"outer:a", "inner:a"}
        inner.end()
    assert {"outer:a", "inner:a"} & EPISODES.keys() == {"outer:a"}
    outer.end()
    assert "outer:a" not in EPISODES


def test_an_episode_that_is_ready_after_its_scope_ended_is_closed():
    scope = new_scope()
    with scope.active():
        scope.end()
        episode = live_episode("late:a", TASK, [], RUNTIME)
    assert episode.closed
    assert "late:a" not in EPISODES


def test_closing_waits_for_the_call_that_is_under_way():
    episode = live_episode("busy:a", TASK, [], RUNTIME)
    going, may_end, order = threading.Event(), threading.Event(), list[str]()

    def slow_view() -> str:
        going.set()
        may_end.wait(5)
        order.append("viewed")
        return ""

    episode.environment.view = slow_view  # type: ignore[method-assign]
    viewing = threading.Thread(target=episode.evidence)
    viewing.start()
    going.wait(5)
    closing = threading.Thread(target=lambda: (close_episode("busy:a"), order.append("closed")))
    closing.start()
    may_end.set()
    viewing.join(5)
    closing.join(5)
    assert order == ["viewed", "closed"]
