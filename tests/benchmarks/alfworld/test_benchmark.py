"""Tests of `benchmarks.alfworld.benchmark`."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from helpers.processes.races import exit_code_when_killed, make_in_two_threads

from certigraph.adapters.episodes import LiveEpisode
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.alfworld import benchmark
from certigraph.benchmarks.alfworld import benchmark as games
from certigraph.benchmarks.alfworld.benchmark import (
    GAME_FILE,
    ALFWorld,
    AlfworldEnvironment,
    AlfworldGame,
    GameFiles,
    GameReply,
    describe_sight,
    load_plan,
)
from certigraph.nodes.slots import find_new_lines
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action

# ALFWorld: what an agent sees, the live simulator, and the planner that demonstrates.

TYPES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)

CLOCK = "look_at_obj_in_light-AlarmClock-None-DeskLamp-308/trial_T20190908_222917_366542"


def test_sight_is_described_in_the_worlds_words_and_in_order():
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
    text = "The fridge 1 is closed.\nOn the shelf 1, you see a egg 9, and a egg 10.\nYou are not carrying anything."
    assert describe_sight(facts) == text
    opened = describe_sight(facts | {("opened", "fridge 1"), ("holds", "agent1", "cup 2")})
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
            new = find_new_lines(before, world.view(), seen.text, ())
            assert all(line not in before and line not in seen.text for line in new.splitlines())
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
    episode = LiveEpisode(benchmark.open(task))
    for action in ("look", "fumble", *benchmark.demonstration(task)):
        episode.step(Action(text=action))
    again = LiveEpisode(benchmark.open(task))
    again.replay(episode.log)
    assert again.evidence() == episode.evidence()
    assert (again.ended, again.score().value) == (True, 1.0)
    for one in (episode, again):
        one.environment.close()


@pytest.mark.long
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


# ALFWorld's games on disk: unpacked once, whole or not at all, and the message where there are none.

ARCHIVE = "valid_unseen.games.tar.xz"
ID = "pick_and_place_simple-Cup-None-Shelf-1/trial_T1"


def laid_out(root: Path, *, name: str = GAME_FILE, text: str | None = None) -> Path:
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
def test_a_broken_archive_is_reported_in_one_line_and_leaves_nothing_behind(
    broken: Callable[[bytes], bytes], cache: Path, tmp_path: Path
):
    folder = packed(laid_out(tmp_path / "plain", text=Random(0).randbytes(90_000).hex()), tmp_path / "archives")
    (folder / ARCHIVE).write_bytes(broken((folder / ARCHIVE).read_bytes()))
    with pytest.raises(Fault, match=ARCHIVE):
        ALFWorld(folder).tasks()
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("name", [f"../../../{GAME_FILE}", f"json_2.1.1/link/{GAME_FILE}", f"/tmp/{GAME_FILE}"])
def test_an_archive_writes_plain_files_into_its_folder_alone(name: str, cache: Path, tmp_path: Path):
    folder = packed(laid_out(tmp_path / "plain"), tmp_path / "archives")
    member = tarfile.TarInfo(name)
    if "link" in name:
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(folder / ARCHIVE, "w:xz") as archive:
        archive.addfile(member)
    with pytest.raises(Fault, match="is not a plain file inside the archive's folder"):
        ALFWorld(folder).tasks()
    assert list(cache.iterdir()) == []
    assert not [path for path in tmp_path.rglob(GAME_FILE) if "plain" not in path.parts]


def test_two_that_unpack_at_once_both_have_the_games(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = packed(laid_out(tmp_path / "plain"), tmp_path / "archives")
    extract = games._extract_archive

    def unpacked(wait: Callable[[], int]) -> list[str]:
        monkeypatch.setattr(games, "_extract_archive", lambda *given: (extract(*given), wait()))
        return GameFiles(folder).ids("valid_unseen")

    assert make_in_two_threads(unpacked) == [[ID], [ID]]
    assert len(list(cache.iterdir())) == 1


def test_a_kill_while_unpacking_leaves_no_half_of_the_games(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = packed(laid_out(tmp_path / "plain"), tmp_path / "archives")

    def unpack(die: Callable[[], None]) -> None:
        monkeypatch.setattr(games, "_extract_archive", lambda archive, into: ((into / "json_2.1.1").mkdir(), die()))
        GameFiles(folder).ids("valid_unseen")

    assert exit_code_when_killed(unpack) == -9
    assert [path.suffix for path in cache.iterdir()] == [".unfinished"]
    assert GameFiles(folder).ids("valid_unseen") == [ID]


def test_without_games_one_line_tells_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    for folder in (None, tmp_path):
        with pytest.raises(Fault, match=ARCHIVE):
            ALFWorld(folder).tasks()
    monkeypatch.setenv("ALFWORLD_DATA", str(laid_out(tmp_path)))
    assert GameFiles(None).splits() == ["valid_unseen"]


def test_unknown_names_and_a_file_that_is_not_a_game_are_named(tmp_path: Path):
    games = ALFWorld(laid_out(tmp_path / "games"))
    for ask, given in ((games.tasks, "test"), (games.task, "no/such"), (games.task, "../../escape")):
        with pytest.raises(UnknownName, match=given):
            ask(given)
    with pytest.raises(Fault, match=r"trial_T1/game\.tw-pddl"):
        ALFWorld(laid_out(tmp_path / "other", text="{}")).tasks()


# ALFWorld's planner and simulators, with stand-ins for them: ways are worked out once, simulators are never freed.

WAY = ("go to shelf 1", "take cup 1", "put cup 1")


class Played:
    """A game that is won along the way, and cannot be won any more after `break cup 1`."""

    opened = 0

    def __init__(self, path: Path) -> None:
        type(self).opened += 1
        self.done: list[str] = []

    def reset(self) -> GameReply:
        return self.step("")

    def step(self, command: str) -> GameReply:
        self.done += [command] if command else []
        return GameReply("", (), tuple(self.done) == WAY, frozenset())

    def plan(self) -> tuple[str, ...]:
        return () if "break cup 1" in self.done else WAY[len(self.done) :]

    def close(self) -> None:
        type(self).opened -= 1


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A game that the stand-in plays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(benchmark, "AlfworldGame", Played)
    monkeypatch.setattr(Played, "opened", 0)
    (tmp_path / "game.tw-pddl").write_text("a game")
    return tmp_path / "game.tw-pddl"


def test_a_way_is_worked_out_once_from_each_past(file: Path, monkeypatch: pytest.MonkeyPatch):
    ways = {past: load_plan(file, past) for past in ((), WAY[:1], WAY)}
    assert ways == {(): list(WAY), WAY[:1]: list(WAY[1:]), WAY: []}
    assert Played.opened == 0, "every game was closed"
    monkeypatch.setattr(benchmark, "AlfworldGame", None)
    assert {past: load_plan(file, past) for past in ways} == ways
    with monkeypatch.context() as another_release:
        another_release.setattr(benchmark, "version", lambda package: "0.4.0")
        with pytest.raises(TypeError):
            load_plan(file)
    file.write_text("another game")
    with pytest.raises(TypeError):
        load_plan(file)


def test_where_no_plan_leads_on_that_is_reported_and_not_kept(file: Path):
    for _ in range(2):
        with pytest.raises(Fault, match=r"no plan for .* after break cup 1"):
            load_plan(file, ["break cup 1"])
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

    monkeypatch.setattr(benchmark, "_FREE_SIMULATORS", [])
    monkeypatch.setattr(benchmark, "_create_simulator", simulator)
    return found


def test_games_one_after_the_other_share_a_simulator_and_two_at_once_do_not(made: list[Simulator]):
    for _ in range(3):
        one = AlfworldGame(Path("a"))
        one.close()
        one.close()
    assert len(made) == 1
    both = AlfworldGame(Path("a")), AlfworldGame(Path("b"))
    assert len(made) == 2 and both[0]._env is not both[1]._env


def test_a_simulator_outlives_games_that_are_forgotten_or_broken(made: list[Simulator]):
    AlfworldGame(Path("forgotten"))
    for _ in range(2):
        with pytest.raises(Fault, match=r"broken cannot be loaded: KeyError.*unpacked again"):
            AlfworldGame(Path("broken"))
    assert made == benchmark._FREE_SIMULATORS and len(made) == 1


def test_a_world_that_was_never_reset_says_so():
    world = AlfworldEnvironment(Path("any"))
    for ask in (world.view, world.admissible, world.score, lambda: world.step(Action(text="look"))):
        with pytest.raises(Fault, match=r"never reset: call reset\(\) first"):
            ask()
