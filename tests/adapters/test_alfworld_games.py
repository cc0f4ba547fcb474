"""ALFWorld's games on disk: unpacked once, whole or not at all, and what is told where there are none."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from races import killed, together

from certigraph.adapters.alfworld import benchmark as games
from certigraph.adapters.alfworld.benchmark import GAME, ALFWorld, Games
from certigraph.state.records import Fault, UnknownName

ARCHIVE = "valid_unseen.games.tar.xz"
ID = "pick_and_place_simple-Cup-None-Shelf-1/trial_T1"


def laid_out(root: Path, *, name: str = GAME, text: str | None = None) -> Path:
    """A folder of unpacked games that holds one."""
    game = root / "json_2.1.1" / "valid_unseen" / ID / name
    game.parent.mkdir(parents=True)
    game.write_text(text or json.dumps({"grammar": '"rhs": "Your task is to: put a cup in shelf."'}))
    return root


def packed(root: Path, folder: Path) -> Path:
    """A folder with the archive of one that is laid out."""
    folder.mkdir()
    with tarfile.open(folder / ARCHIVE, "w:xz") as made:
        made.add(root / "json_2.1.1", "json_2.1.1")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where games are unpacked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "certigraph" / "alfworld"


def test_games_are_found_unpacked_and_in_archives_unpacked_once(cache: Path, tmp_path: Path):
    plain = laid_out(tmp_path / "plain")
    for folder in (plain, packed(plain, tmp_path / "archives")):
        benchmark = ALFWorld(folder)
        (task,) = benchmark.tasks()
        assert (task.id, task.goal) == (ID, "put a cup in shelf")
        assert benchmark.task(task.id) == task
        benchmark.games.ids("valid_unseen").clear()
        assert benchmark.tasks() == [task], "what was handed out is the caller's own"
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(
    "broken",
    [
        lambda whole: b"no archive",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[: len(whole) // 2] + bytes(len(whole) // 2),
    ],
)
def test_a_broken_archive_is_told_in_one_line_and_leaves_nothing_behind(
    broken: Callable[[bytes], bytes], cache: Path, tmp_path: Path
):
    folder = packed(laid_out(tmp_path / "plain", text=Random(0).randbytes(90_000).hex()), tmp_path / "archives")
    (folder / ARCHIVE).write_bytes(broken((folder / ARCHIVE).read_bytes()))
    with pytest.raises(Fault, match=r"valid_unseen\.games\.tar\.xz cannot be unpacked.*should hold") as told:
        ALFWorld(folder).tasks()
    assert "\n" not in str(told.value) and list(cache.iterdir()) == []


def test_two_that_unpack_at_once_both_have_the_games(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = packed(laid_out(tmp_path / "plain"), tmp_path / "archives")
    extract = games._extract

    def unpacked(wait: Callable[[], int]) -> list[str]:
        monkeypatch.setattr(games, "_extract", lambda *given: (extract(*given), wait()))
        return Games(folder).ids("valid_unseen")

    assert together(unpacked) == [[ID], [ID]]
    assert len(list(cache.iterdir())) == 1


def test_a_kill_while_unpacking_leaves_no_half_of_the_games(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = packed(laid_out(tmp_path / "plain"), tmp_path / "archives")

    def unpack(die: Callable[[], None]) -> None:
        monkeypatch.setattr(games, "_extract", lambda archive, into: ((into / "json_2.1.1").mkdir(), die()))
        Games(folder).ids("valid_unseen")

    assert killed(unpack) == -9
    assert [path.suffix for path in cache.iterdir()] == [".unfinished"]
    assert Games(folder).ids("valid_unseen") == [ID]


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda b: b.tasks("test"), UnknownName, "no split 'test'.*valid_unseen"),
        (
            lambda b: b.task("no/such"),
            UnknownName,
            "no task 'no/such'; ids are TASK/TRIAL.* for example pick_and_place",
        ),
        (lambda b: b.task("../../escape"), UnknownName, "no task"),
    ],
)
def test_what_is_not_there_is_named(
    ask: Callable[[ALFWorld], object], error: type[Exception], told: str, tmp_path: Path
):
    with pytest.raises(error, match=told):
        ask(ALFWorld(laid_out(tmp_path)))


def test_without_games_one_line_tells_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    for folder in (None, tmp_path):
        with pytest.raises(Fault, match=r"(?=.*--data DIR).*valid_unseen\.games\.tar\.xz") as told:
            ALFWorld(folder).tasks()
        assert "\n" not in str(told.value)
    monkeypatch.setenv("ALFWORLD_DATA", str(laid_out(tmp_path)))
    assert Games(None).splits() == ["valid_unseen"]


@pytest.mark.parametrize("ask", [lambda b: b.tasks(), lambda b: b.task(ID)])
def test_a_split_without_games_says_how_they_lie(ask: Callable[[ALFWorld], object], tmp_path: Path):
    with pytest.raises(Fault, match=r"valid_unseen in .* has no games: it should hold"):
        ask(ALFWorld(laid_out(tmp_path, name="traj_data.json")))


def test_a_file_that_is_no_game_is_named(tmp_path: Path):
    with pytest.raises(Fault, match=r"trial_T1/game\.tw-pddl is no ALFWorld game"):
        ALFWorld(laid_out(tmp_path, text="{}")).tasks()
