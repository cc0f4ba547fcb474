"""Tests of `adapters.episodes`."""

import threading
from typing import Any

import pytest
from helpers.worlds.watched_blocks import WatchedBlocks, WatchedWorld
from langgraph.runtime import Runtime

from certigraph.adapters import episodes
from certigraph.adapters.episodes import (
    EPISODES,
    MAX_COPIES,
    LiveEpisode,
    close_episode,
    live_episode,
    new_scope,
    rehearse_in_copy,
)
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Task

# Live episodes: who closes them, and how many stay open.

TASK = BlocksWorld().task("3-0")
RUNTIME = Runtime(context=Context(benchmark=BlocksWorld()))


def opened(*keys: str) -> set[str]:
    """Which of some episodes are open when each was asked for in turn."""
    for key in keys:
        live_episode(key, TASK, [], RUNTIME)
    return {key for key in keys if key in EPISODES}


def test_of_episodes_that_no_scope_closes_the_oldest_is_closed(monkeypatch):
    monkeypatch.setattr(episodes, "MAX_EPISODES", 2)
    assert opened("one:a", "two:a", "three:a") == {"two:a", "three:a"}
    for key in ("two:a", "three:a"):
        close_episode(key)


def test_episodes_of_a_scope_stay_open_until_it_ends_and_close_no_others(monkeypatch):
    monkeypatch.setattr(episodes, "MAX_EPISODES", 1)
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


# Rehearsals: copies of live worlds answer as those would, are gone on with, and go when those go.

UP = "unstack the yellow block from on top of the orange block"
DOWN = "put down the yellow block"


class Stage:
    """A live episode of task 4-0, and the worlds that rehearsals in it open."""

    def __init__(self, *, owned: bool = True) -> None:
        self.benchmark = WatchedBlocks()
        self.task: Task = self.benchmark.task("4-0")
        self.live = LiveEpisode(self.benchmark.open(self.task), owned=owned)
        self.runtime: Any = Runtime(context=Context(benchmark=self.benchmark))

    def rehearse(self, *path: str) -> Any:
        return rehearse_in_copy(self.live, self.task, path, self.runtime)

    @property
    def copies(self) -> list[Any]:
        return self.benchmark.worlds[1:]


def test_a_copy_answers_as_the_world_then_does():
    stage = Stage()
    foreseen = [stage.rehearse(UP).observation, stage.rehearse(UP, DOWN).observation]
    assert foreseen == [stage.live.step(Action(text=action)) for action in (UP, DOWN)]


def test_the_live_world_and_its_log_stay_as_they_were():
    stage = Stage()
    before = stage.live.environment.view()
    stage.rehearse(UP, DOWN)
    assert stage.live.log == []
    assert stage.live.environment.view() == before


def test_a_copy_lists_what_could_be_done_at_the_end_of_a_path():
    stage = Stage()
    ahead = stage.rehearse(UP).admissible()
    stage.live.step(Action(text=UP))
    assert ahead == stage.live.admissible() == stage.rehearse().admissible()


def test_a_copy_that_is_on_the_way_is_gone_on_with():
    stage = Stage()
    stage.rehearse(UP)
    stage.live.step(Action(text=UP))
    stage.rehearse(DOWN)
    (copy,) = stage.copies
    assert copy.done == [UP, DOWN]
    assert copy.resets == 1


def test_copies_are_few_and_begun_again():
    stage = Stage()
    for action in stage.live.admissible() * 3:
        stage.rehearse(action)
        assert stage.copies[-1].done[-1:]
    assert len(stage.copies) == MAX_COPIES
    assert stage.rehearse(UP).observation == stage.live.step(Action(text=UP))


def test_copies_close_with_the_live_episode():
    stage = Stage()
    stage.rehearse(UP)
    assert not stage.copies[0].closed
    stage.live.close()
    assert stage.copies[0].closed


def test_a_world_that_was_handed_in_is_not_copied():
    stage = Stage(owned=False)
    with pytest.raises(Fault, match="imagine=predicted"):
        stage.rehearse(UP)
    assert not stage.copies


def test_a_copy_that_cannot_begin_is_a_fault_and_closed(monkeypatch: pytest.MonkeyPatch):
    stage = Stage()
    monkeypatch.setattr(WatchedWorld, "reset", lambda world: 1 / 0)
    with pytest.raises(Fault, match="the world failed in"):
        stage.rehearse(UP)
    assert stage.copies[0].closed
    assert not stage.live.environment.closed
    monkeypatch.undo()
    assert stage.rehearse(UP).observation == stage.live.step(Action(text=UP))


def test_a_world_that_answers_otherwise_than_logged_is_a_fault_and_closed():
    stage = Stage()
    stage.live.step(Action(text=UP))
    stage.live.log[0] = stage.live.log[0].model_copy(update={"digest": "0" * 16})
    with pytest.raises(Fault, match="replay differs at step 1"):
        stage.rehearse(DOWN)
    assert stage.copies[0].closed
