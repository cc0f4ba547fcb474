"""TextWorld's games: names, splits, seeds; made once, whole or not at all."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.processes.races import exit_code_when_killed, make_in_two_threads

from certigraph.benchmarks.textworld import world
from certigraph.benchmarks.textworld.world import (
    DESCRIPTION,
    STORY,
    TEXTWORLD_LOCK,
    GameLibrary,
    TextWorldEnvironment,
    TextWorldGame,
    parse_name,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action

pytest.importorskip("textworld", reason="pip install 'certigraph[textworld]'")

QUEST = "quest-5-0"


def compiled(kind: str, level: int, seed: int, folder: Path) -> None:
    """In place of the compiler, which takes a second."""
    (folder / STORY).write_text("story")
    (folder / DESCRIPTION).write_text(json.dumps({"objective": "Win.", "metadata": {"walkthrough": ["look"]}}))


def held(game: TextWorldGame) -> tuple[str, str, bool]:
    return game.name, game.objective, game.story.is_file()


WHOLE = (QUEST, "Win.", True)


@pytest.mark.parametrize("name", ["chess-1-0", "cooking-9-0", "cooking-0-0", "cooking-1", "cooking-1-01", "../x", ""])
def test_a_wrong_name_is_refused_with_the_right_form(name: str):
    with pytest.raises(UnknownName, match="cooking-1-0"):
        parse_name(name)


@pytest.mark.slow
def test_a_seed_makes_the_same_game_in_every_library(tmp_path: Path):
    first, again = (GameLibrary(tmp_path / name).game(QUEST) for name in ("a", "b"))
    assert (again.objective, again.walkthrough) == (first.objective, first.walkthrough)
    worlds = TextWorldEnvironment(first), TextWorldEnvironment(again)
    assert worlds[0].reset() == worlds[1].reset()
    for action in ("look", *first.walkthrough):
        assert worlds[0].step(Action(text=action)) == worlds[1].step(Action(text=action))
    assert [path.name for path in (tmp_path / "a").iterdir()] == [QUEST], "nothing unfinished is left"


def test_a_game_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(world, "_compile_game", compiled)
    assert held(GameLibrary(tmp_path).game(QUEST)) == WHOLE
    monkeypatch.setattr(world, "_compile_game", None)
    assert held(GameLibrary(tmp_path).game(QUEST)) == WHOLE


def test_a_game_that_is_not_finished_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def broken(*args: object) -> None:
        raise Fault("data", "no room")

    monkeypatch.setattr(world, "make_game", broken)
    with pytest.raises(Fault, match="no room"):
        GameLibrary(tmp_path).game(QUEST)
    assert not list(tmp_path.iterdir())


class Turn:
    """The lock around textworld; who has made a game waits for the other before it is moved to its place."""

    def __init__(self, wait: Callable[[], int]) -> None:
        self.wait = wait

    def __enter__(self) -> None:
        TEXTWORLD_LOCK.acquire()

    def __exit__(self, *_: object) -> None:
        TEXTWORLD_LOCK.release()
        self.wait()


def test_two_that_make_one_game_at_once_both_have_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def made(wait: Callable[[], int]) -> tuple[str, str, bool]:
        monkeypatch.setattr(world, "_compile_game", compiled)
        monkeypatch.setattr(world, "TEXTWORLD_LOCK", Turn(wait))
        return held(GameLibrary(tmp_path).game(QUEST))

    assert make_in_two_threads(made) == [WHOLE, WHOLE]
    assert [path.name for path in tmp_path.iterdir()] == [QUEST]


def test_a_kill_in_the_middle_leaves_no_half_of_a_game(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def make(die: Callable[[], None]) -> None:
        monkeypatch.setattr(
            world, "_compile_game", lambda *arguments: ((arguments[-1] / STORY).write_text("half"), die())
        )
        GameLibrary(tmp_path).game(QUEST)

    assert exit_code_when_killed(make) == -9
    assert [path.suffix for path in tmp_path.iterdir()] == [".unfinished"]
    monkeypatch.setattr(world, "_compile_game", compiled)
    assert held(GameLibrary(tmp_path).game(QUEST)) == WHOLE


@pytest.mark.parametrize("text", ["", "{}", None])
def test_a_damaged_game_is_named_with_what_to_do(text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / QUEST).mkdir()
    if text is not None:
        (tmp_path / QUEST / DESCRIPTION).write_text(text)
    with pytest.raises(Fault, match=rf"{QUEST} is corrupted .*: delete it"):
        GameLibrary(tmp_path).game(QUEST)
