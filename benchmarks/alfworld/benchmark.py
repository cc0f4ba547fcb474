"""The ALFWorld benchmark: games in the original simulator, the environment, game files, and plans for the games."""

import hashlib
import json
import lzma
import os
import re
import shutil
import sys
import tarfile
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from certigraph.adapters.benchmarks import check_configuration, mean_score, standard_error
from certigraph.adapters.extras import check_packages
from certigraph.adapters.files import (
    MAX_VALUE_BYTES,
    cache_folder,
    expand_path,
    missing_data_fault,
    read_bytes,
    read_json,
    replace_file,
    unknown_task_error,
)
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.models.experts import demonstration_expert
from certigraph.adapters.processes import library_lock
from certigraph.adapters.protocols import Benchmark, Decision, Environment, Factors, Limits, Responder
from certigraph.benchmarks.alfworld.conditions import WORDINGS, decide_condition
from certigraph.benchmarks.alfworld.factors import AlfworldFactors
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.trajectory import Footer

TEXTWORLD_LOCK = library_lock("textworld")
"""Lock held around every call into textworld, whose parsers and generator threads cannot share."""

# Description of what the agent sees at its location, in the simulator's wording, without using a command.

PddlFact = tuple[str, ...]
"""Name of a predicate and the names of its arguments: ("inreceptacle", "apple 2", "fridge 1")."""


def describe_sight(facts: frozenset[PddlFact]) -> str:
    """Describe the receptacles that the agent faces, their visible contents, and what the agent carries."""
    location = {place for name, *args in facts if name == "atlocation" for place in args[1:]}
    faced = [fact[1] for fact in facts if fact[0] == "receptacleatlocation" and fact[2] in location]
    carried = [fact[2] for fact in facts if fact[0] == "holds"]
    inventory = f"You are carrying: {_join_names(carried)}." if carried else "You are not carrying anything."
    return "\n".join([*(_describe_receptacle(name, facts) for name in sorted(faced, key=_natural_key)), inventory])


def _describe_receptacle(name: str, facts: frozenset[PddlFact]) -> str:
    inside = _join_names(fact[1] for fact in facts if fact[0] == "inreceptacle" and fact[2] == name)
    if ("openable", name) not in facts:
        return f"On the {name}, you see {inside}."
    return f"The {name} is open. In it, you see {inside}." if ("opened", name) in facts else f"The {name} is closed."


def _join_names(names: Iterable[str]) -> str:
    *first, last = [f"a {name}" for name in sorted(names, key=_natural_key)] or ["nothing"]
    return f"{', '.join(first)}, and {last}" if first else last


def _natural_key(name: str) -> tuple[str, int]:
    # Sorts cabinet 10 after cabinet 9.
    number = re.search(r"\d+$", name)
    return re.sub(r"\d+$", "", name), int(number[0]) if number else 0


# A game in the simulator: TextWorld's PDDL environment with alfworld's names of things.

_FREE_SIMULATORS: list[Any] = []
"""Simulators that no game uses at the moment, kept for reuse. They are never deleted, because the process crashes with
a segmentation fault if a copy of the planner's library is loaded after another was unloaded. Their number is the
largest number of games that were open at once."""


class GameReply(NamedTuple):
    """Reply of the game: its text, the admissible commands, whether the game is won, and the facts that hold."""

    text: str
    admissible: tuple[str, ...]
    won: bool
    facts: frozenset[PddlFact]


class AlfworldGame:
    """Game loaded into a simulator. Its methods block and must be called by one thread at a time.

    Games in different threads take turns. Loading and `reset` take 0.3 to 0.8 s each, `step` takes 0.05 s. `plan` takes
    1 to 18 s, but other games continue meanwhile. The simulator is reused for another game once this game is closed,
    deleted or fails to load; its memory stays allocated until the process ends.

    Raises:
        Fault: ("environment") alfworld is not installed, or the file is not a game.
    """

    def __init__(self, path: Path) -> None:
        with _protect_globals():
            self._env = _FREE_SIMULATORS.pop() if _FREE_SIMULATORS else _create_simulator()
            self._let_go = weakref.finalize(self, _FREE_SIMULATORS.append, self._env)
            _load_game(self._env, path)

    def reset(self) -> GameReply:
        """Start the game."""
        with _protect_globals():
            return _read_reply(self._env.reset())

    def step(self, command: str) -> GameReply:
        """Send one command; the reply to an inadmissible one is `Nothing happens.`"""
        with TEXTWORLD_LOCK:
            return _read_reply(self._env.step(command)[0])

    def plan(self) -> tuple[str, ...]:
        """Compute commands that reach the goal from the current state.

        The simulator's planner knows the complete world, including what the agent has not seen.
        """
        inner = self._env.unwrapped
        return tuple(inner._pddl_state.replan(inner._entity_infos))

    def close(self) -> None:
        """Release the simulator for another game. This game cannot be used afterwards."""
        self._let_go()


@contextmanager
def _protect_globals() -> Iterator[None]:
    # Loading keeps options in globals, hence the lock, and overwrites sys.argv.
    with TEXTWORLD_LOCK:
        arguments = sys.argv
        try:
            yield
        finally:
            sys.argv = arguments


def _create_simulator() -> Any:
    names = ("textworld", "alfworld.agents.environment.alfred_tw_env", "textworld.envs.pddl")
    try:
        textworld, wrappers, worlds = map(import_module, names)
    except ImportError as error:
        fix = "pip install 'certigraph[alfworld]'"
        raise Fault("environment", f"ALFWorld's simulator is not installed ({error}): {fix}") from error
    infos = textworld.EnvInfos(admissible_commands=True, won=True, facts=True)
    return wrappers.AlfredDemangler(worlds.PddlEnv(infos))


def _load_game(simulator: Any, path: Path) -> None:
    try:
        simulator.load(str(path))
    except Exception as error:  # its parsers raise errors without a common class
        raise Fault(
            "environment", f"{path} cannot be loaded: {error!r}; delete it, so that it is unpacked again"
        ) from error


def _read_reply(state: Any) -> GameReply:
    facts = frozenset((fact.name, *(argument.name.strip() for argument in fact.arguments)) for fact in state["facts"])
    return GameReply(
        text=state.feedback.strip(),
        admissible=tuple(state["admissible_commands"]),
        won=bool(state["won"]),
        facts=facts,
    )


# The environment: one game, its replies unchanged.

REFUSAL = "Nothing happens."
"""Reply to a command that the game does not understand or cannot execute."""


class AlfworldEnvironment(Environment):
    """Environment of one game. The episode ends with reward 1.0 once the task is done; all other rewards are 0.0.

    Args:
        path: File of the game, loaded by `reset`.
    """

    concurrent = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._game: AlfworldGame | None = None
        self._now: GameReply | None = None
        self._room = ""

    def reset(self) -> Observation:
        """Start the game.

        Raises:
            Fault: ("environment") the game cannot be loaded; the message says what to install.
        """
        self._game = self._game or AlfworldGame(self.path)
        reply = self._game.reset()
        self._room = f"Places in the room: {reply.text.partition('you see ')[2].partition('.')[0]}."
        return self._observe(reply)

    def step(self, action: Action) -> Observation:
        """Execute an action. An inadmissible action changes nothing, and its observation has `accepted=False`."""
        self._last_reply()
        assert self._game is not None
        return self._observe(self._game.step(action.text.strip()))

    def view(self) -> str:
        """Describe the room's places, what the agent faces (open receptacles with contents), and what it carries."""
        return f"{self._room}\n{describe_sight(self._last_reply().facts)}"

    def admissible(self) -> list[str]:
        """List the commands that are admissible now, in alphabetical order."""
        return list(self._last_reply().admissible)

    def score(self) -> Scores:
        """Return 1.0 if the task is done, else 0.0."""
        return Scores(value=float(self._last_reply().won))

    def close(self) -> None:
        """Close the game."""
        if self._game is not None:
            self._game.close()
            self._game = self._now = None

    def _last_reply(self) -> GameReply:
        if self._now is None:
            raise Fault("environment", "this ALFWorld is closed or was never reset: call reset() first")
        return self._now

    def _observe(self, reply: GameReply) -> Observation:
        self._now = reply
        accepted = reply.text != REFUSAL
        return Observation(
            text=reply.text, accepted=accepted, reward=float(reply.won), done=reply.won, solved=reply.won
        )


# Game files: archives, unpacked once into the cache, or a folder with unpacked games.

UNPACKED_FOLDER = "json_2.1.1"
"""Folder of unpacked games; it has a subfolder for each split."""

SPLITS = ("valid_unseen", "valid_seen", "valid_train", "train")
"""Splits: games in rooms that training does not contain, games in rooms that it contains, and two of training games.

The first available split is the default.
"""

GAME_FILE = "game.tw-pddl"

GOAL_PATTERN = re.compile(r'Your task is to: (.*?)"')


class GameFiles:
    """Files of ALFWorld games, listed by split and found by id. An id has the format `<task>/<trial>`.

    Args:
        folder: Folder with archives `<split>.games.tar.xz`, or with unpacked games in `json_2.1.1`. None: the folder
            that the environment variable ALFWORLD_DATA names, as in alfworld's own tools.
    """

    def __init__(self, folder: Path | None) -> None:
        variable = os.environ.get("ALFWORLD_DATA")
        self.folder = folder or (expand_path(variable) if variable else None)

    def splits(self) -> list[str]:
        """Return the available splits.

        Raises:
            Fault: ("data") no split is available.
        """
        available = [split for split in SPLITS if self.folder and _find_source(self.folder, split)]
        if not available:
            if self.folder:
                raise missing_data_fault("alfworld", self.folder, _LAYOUT)
            call = "--data DIR or CERTIGRAPH_DATA=DIR with the games in DIR/alfworld/, or ALFWORLD_DATA=FOLDER"
            raise Fault("data", f"alfworld generates no world, it needs ALFWorld's games: give {call}: {_LAYOUT}")
        return available

    def ids(self, split: str) -> list[str]:
        """Return the ids of a split's games.

        Raises:
            UnknownName: the split is not available.
            Fault: ("data") there are no games.
        """
        if split not in self.splits():
            raise UnknownName(f"alfworld has no split {split!r} in {self.folder}; known are {', '.join(self.splits())}")
        if not (ids := _list_ids(self._root(split))):
            raise Fault("data", f"{split} in {self.folder} has no games: it should hold {_LAYOUT}")
        return list(ids)

    def path(self, task_id: str) -> Path:
        """Return the file of a game.

        Raises:
            UnknownName: there is no such game; the message lists some ids.
            Fault: ("data") there are no games.
        """
        available = self.splits()
        named = available if re.fullmatch(r"[\w-]+/\w+", task_id) else []
        places = (self._root(split) / task_id / GAME_FILE for split in named)
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise unknown_task_error("alfworld", task_id, "TASK/TRIAL, the folders of a game", self.ids(available[0]))
        return path

    def _root(self, split: str) -> Path:
        source = _find_source(self.folder or Path(), split)
        assert source is not None
        return source if source.is_dir() else _unpack_archive(source, split)


def read_goal(path: Path) -> str:
    """Read the goal of a game from its first observation.

    Raises:
        Fault: ("data") the file is not a game.
    """
    try:
        return GOAL_PATTERN.findall(parse_json(read_bytes(path))["grammar"])[0].rstrip(".")  # type: ignore[no-any-return]
    except (ValueError, LookupError, TypeError) as error:
        raise Fault(
            "data", f"{path} is not an ALFWorld game: {error!r}; delete its folder and unpack it again"
        ) from error


def _find_source(folder: Path, split: str) -> Path | None:
    places = (folder / UNPACKED_FOLDER / split, folder / split, folder / f"{split}.games.tar.xz")
    return next((place for place in places if place.exists()), None)


@lru_cache(maxsize=8)
def _list_ids(root: Path) -> tuple[str, ...]:
    return tuple(sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in root.glob(f"*/*/{GAME_FILE}")))


@lru_cache(maxsize=8)
def _unpack_archive(archive: Path, split: str) -> Path:
    # Unpacks atomically: no partial folder appears. If another process was faster, its folder is used.
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    folder = cache_folder() / "alfworld" / f"{split}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, suffix=".unfinished"))
        try:
            _extract_archive(archive, unfinished)
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder / UNPACKED_FOLDER / split


def _extract_archive(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive, "r:xz") as packed:
            for member in _select_games(packed):
                _extract_member(packed, member, folder)
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        failed = f"{archive} cannot be unpacked into {folder.parent}: {error}"
        raise Fault("data", f"{failed}; its folder should hold {_LAYOUT}") from error


def _extract_member(packed: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    # tarfile's own filter for untrusted archives is missing in Python 3.11.0 to 3.11.3
    target = folder / member.name
    source = packed.extractfile(member) if member.isreg() else None
    if source is None or not target.resolve().is_relative_to(folder.resolve()):
        raise tarfile.ExtractError(f"{member.name} is not a plain file inside the archive's folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    with source, target.open("wb") as file:
        shutil.copyfileobj(source, file)


def _select_games(packed: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in packed:
        if Path(member.name).name == GAME_FILE:
            if member.size > MAX_VALUE_BYTES:
                large = f"{member.name} has more than {MAX_VALUE_BYTES:,} bytes, unpacked"
                raise Fault("data", f"{large}; its folder should hold {_LAYOUT}")
            yield member


_LAYOUT = f"valid_unseen.games.tar.xz, or {UNPACKED_FOLDER}/valid_unseen/TASK/TRIAL/{GAME_FILE}"


# The planner's plans, computed once for each game and sequence of earlier commands, then read from the cache.


def load_plan(path: Path, before: Sequence[str] = ()) -> list[str]:
    """Return commands that complete a game's task, from the start or after the commands `before`; empty if it is done.

    The first call takes 2 to 20 s: it replays `before` in a separate simulator and runs the simulator's planner, which
    knows even what is in closed receptacles. Later calls read the plan from a cache file.

    Raises:
        Fault: ("environment") the game cannot be loaded; ("data") the planner finds no plan, or the cached file is
            malformed.
    """
    cached = cache_folder() / "alfworld" / "plans" / f"{_cache_key(path, before)}.json"
    if not cached.is_file():
        plan = _compute_plan(path, before)
        with replace_file(cached) as unfinished:
            unfinished.write_text(json.dumps(plan), encoding="utf-8")
    return _read_plan(cached)


def _read_plan(path: Path) -> list[str]:
    plan = read_json(path)
    if not isinstance(plan, list) or not all(isinstance(command, str) for command in plan):
        raise Fault("data", f"{path} is not a list of commands: delete it, and the plan is computed again")
    return plan


def _cache_key(path: Path, before: Sequence[str]) -> str:
    # The planner is part of the package: another release may find other plans.
    release = json.dumps([_package_release(), *before]).encode()
    return hashlib.sha256(read_bytes(path) + release).hexdigest()[:24]


def _package_release() -> str:
    try:
        return version("alfworld")
    except PackageNotFoundError:  # a game then fails with the command that installs the package
        return ""


def _compute_plan(path: Path, before: Sequence[str]) -> list[str]:
    game = AlfworldGame(path)
    try:
        won = game.reset().won
        for command in before:
            won = game.step(command).won
        plan = [] if won else list(game.plan())
        if not (won or plan):
            raise Fault(
                "data",
                f"no plan for {path.parent} after {'; '.join(before) or 'its start'}: choose another game",
            )
        return plan
    finally:
        game.close()


# The benchmark: six types of household tasks.

BRIEFING = """\
You are in a room and handle things with these actions, one at a time:
go to PLACE: what is on it is seen, in it once it is open. open PLACE, close PLACE. take THING from PLACE.
put THING in/on PLACE, or move THING to PLACE, as the listed actions have it: one thing is carried at a time.
heat THING with microwave, cool THING with fridge, clean THING with sinkbasin: at that place, THING in hand.
use THING: a lamp, where it stands; a thing in hand is then looked at under it. examine THING or PLACE, look, inventory.
Things and places are called by name and number, such as apple 1; any thing of the name will do for the task.
"Nothing happens." means that the action was not possible.
"""


class ALFWorld(Benchmark):
    """Benchmark of tasks such as `look_at_obj_in_light-AlarmClock-None-DeskLamp-308/trial_T20190908_222917_366542`.

    The simulators run in this process, one for each open game. Their memory stays allocated until the process ends,
    because deleting a simulator can crash the process (see `_FREE_SIMULATORS`).

    Args:
        data: Folder with archives of games, or with unpacked games. None: the folder that the environment variable
            ALFWORLD_DATA names.
        config: Must be empty: there are no variants.
    """

    name = "alfworld"
    signals_goal = True
    briefing = BRIEFING
    wordings = WORDINGS
    limits = Limits(steps=50, options=60)
    """Steps are what papers usually allow; they were not checked against a source."""

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        check_configuration(self.name, config)
        self.games = GameFiles(data)

    def ready(self) -> None:
        """Check before the first run that games and simulator are available.

        Raises:
            Fault: something is missing; the message names it.
        """
        self.games.splits()
        check_packages("ALFWorld's simulator needs", ["textworld", "alfworld"], "alfworld", "environment")

    def factors(self) -> Factors:
        """Return the symbolic extractor of this world."""
        return AlfworldFactors()

    def tasks(self, split: str = "") -> list[Task]:
        """Return the tasks of a split, see `SPLITS`; by default of the first available one.

        Raises:
            UnknownName: the split is not available; the message lists the available ones.
            Fault: ("data") there are no games.
        """
        return [self.task(task_id) for task_id in self.games.ids(split or self.games.splits()[0])]

    def task(self, task_id: str) -> Task:
        """Return one task.

        Raises:
            UnknownName: there is no such task; the message lists some ids.
            Fault: ("data") there are no games.
        """
        return Task(benchmark=self.name, id=task_id, goal=read_goal(self.games.path(task_id)))

    def open(self, task: Task) -> AlfworldEnvironment:
        """Create the environment of a task; its `reset` loads the game. Raises the same errors as `task`."""
        return AlfworldEnvironment(self.games.path(task.id))

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Return the plan of the simulator's planner, from the start or after the actions `before`; see `load_plan`."""
        return load_plan(self.games.path(task.id), before)

    def expert(self) -> Responder:
        """Return the scripted model `scripted:expert`: it follows the planner, which knows the complete world."""
        return demonstration_expert(self.demonstration)

    def decide(self, condition: str, observation: Observation, view: str) -> Decision | None:
        """Decide a condition by the game's reply and by what the view shows; None if they do not settle it."""
        return decide_condition(condition, observation, view)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return the success rate with its standard error, and the success rate of each task type."""
        values = [(_task_type(id_), footer.scores.value if footer.scores else 0.0) for id_, footer in runs]
        solved = [value for _, value in values]
        types = {kind: fmean(value for type_, value in values if type_ == kind) for kind in sorted(dict(values))}
        return {
            "n": len(runs),
            "success": mean_score(solved),
            "success_stderr": standard_error(solved),
            **{f"success_{kind}": mean for kind, mean in types.items()},
        }


def _task_type(task_id: str) -> str:
    return task_id.partition("-")[0]
