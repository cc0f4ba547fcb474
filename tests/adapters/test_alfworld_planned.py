"""ALFWorld's planner and simulators, with stand-ins for them: ways are worked out once, simulators are never freed."""

from pathlib import Path
from typing import Any

import pytest

from certigraph.adapters.alfworld import benchmark
from certigraph.adapters.alfworld.benchmark import AlfWorld, Game, Reply, planned
from certigraph.state.records import Action, Fault

WAY = ("go to shelf 1", "take cup 1", "put cup 1")


class Played:
    """A game that is won along the way, and cannot be won any more after `break cup 1`."""

    opened = 0

    def __init__(self, path: Path) -> None:
        type(self).opened += 1
        self.done: list[str] = []

    def reset(self) -> Reply:
        return self.step("")

    def step(self, command: str) -> Reply:
        self.done += [command] if command else []
        return Reply("", (), tuple(self.done) == WAY, frozenset())

    def plan(self) -> tuple[str, ...]:
        return () if "break cup 1" in self.done else WAY[len(self.done) :]

    def close(self) -> None:
        type(self).opened -= 1


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A game that the stand-in plays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(benchmark, "Game", Played)
    monkeypatch.setattr(Played, "opened", 0)
    (tmp_path / "game.tw-pddl").write_text("a game")
    return tmp_path / "game.tw-pddl"


def test_a_way_is_worked_out_once_from_each_past(file: Path, monkeypatch: pytest.MonkeyPatch):
    ways = {past: planned(file, past) for past in ((), WAY[:1], WAY)}
    assert ways == {(): list(WAY), WAY[:1]: list(WAY[1:]), WAY: []}
    assert Played.opened == 0, "every game was closed"
    monkeypatch.setattr(benchmark, "Game", None)
    assert {past: planned(file, past) for past in ways} == ways
    file.write_text("another game")
    with pytest.raises(TypeError):
        planned(file)


def test_where_no_way_leads_on_that_is_told_and_not_kept(file: Path):
    for _ in range(2):
        with pytest.raises(Fault, match=r"no plan does .* after break cup 1"):
            planned(file, ["break cup 1"])
    assert Played.opened == 0


class Simulator:
    """What a game is loaded into."""

    def load(self, path: str) -> None:
        if "broken" in path:
            raise KeyError("pddl_domain")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Simulator]:
    """The simulators that were needed."""
    found: list[Simulator] = []

    def simulator() -> Any:
        found.append(Simulator())
        return found[-1]

    monkeypatch.setattr(benchmark, "_IDLE", [])
    monkeypatch.setattr(benchmark, "_simulator", simulator)
    return found


def test_games_one_after_the_other_share_a_simulator_and_two_at_once_do_not(made: list[Simulator]):
    for _ in range(3):
        one = Game(Path("a"))
        one.close()
        one.close()
    assert len(made) == 1
    both = Game(Path("a")), Game(Path("b"))
    assert len(made) == 2 and both[0]._env is not both[1]._env


def test_a_simulator_outlives_games_that_are_forgotten_or_broken(made: list[Simulator]):
    Game(Path("forgotten"))
    for _ in range(2):
        with pytest.raises(Fault, match=r"broken cannot be played: KeyError.*unpack it again"):
            Game(Path("broken"))
    assert made == benchmark._IDLE and len(made) == 1


def test_without_the_package_one_command_is_named(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(benchmark, "_IDLE", [])
    monkeypatch.setattr(benchmark, "import_module", missing)
    with pytest.raises(Fault, match=r"No module named 'textworld'.*pip install 'certigraph\[alfworld\]'"):
        AlfWorld(Path("any")).reset()


def test_a_world_that_was_never_reset_says_so():
    world = AlfWorld(Path("any"))
    for ask in (world.view, world.admissible, world.score, lambda: world.step(Action(text="look"))):
        with pytest.raises(Fault, match=r"never reset: call reset\(\) first"):
            ask()
