"""ALFWorld as a benchmark: the live simulator, games and gold plans."""

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from certigraph.adapters.files import (
    MOST_WHOLE,
    cache_folder,
    expanded,
    file_bytes,
    missing_data,
    read_json,
    unknown_task,
    whole_file,
)
from certigraph.adapters.models.experts import demonstrated
from certigraph.adapters.processes import TEXTWORLD, require
from certigraph.adapters.protocols import PAPER_LIMITS, Operator, Responder
from certigraph.state.records import Action, Fault, Observation, Scores, Task, UnknownName, json_value
from certigraph.state.trajectory import Footer

# What an agent sees where it stands, in the world's own words, without a command being spent on it.

Fact = tuple[str, ...]
"""A predicate's name and the names of what it is about: ("inreceptacle", "apple 2", "fridge 1")."""


def sight(facts: frozenset[Fact]) -> str:
    """The receptacles that the agent faces, what is to be seen in them, and what it carries."""
    here = {place for name, *args in facts if name == "atlocation" for place in args[1:]}
    faced = [fact[1] for fact in facts if fact[0] == "receptacleatlocation" and fact[2] in here]
    carried = [fact[2] for fact in facts if fact[0] == "holds"]
    told = f"You are carrying: {_listed(carried)}." if carried else "You are not carrying anything."
    return "\n".join([*(_receptacle(name, facts) for name in sorted(faced, key=_natural)), told])


def _receptacle(name: str, facts: frozenset[Fact]) -> str:
    inside = _listed(fact[1] for fact in facts if fact[0] == "inreceptacle" and fact[2] == name)
    if ("openable", name) not in facts:
        return f"On the {name}, you see {inside}."
    return f"The {name} is open. In it, you see {inside}." if ("opened", name) in facts else f"The {name} is closed."


def _listed(names: Iterable[str]) -> str:
    *first, last = [f"a {name}" for name in sorted(names, key=_natural)] or ["nothing"]
    return f"{', '.join(first)}, and {last}" if first else last


def _natural(name: str) -> tuple[str, int]:
    """Cabinet 10 comes after cabinet 9."""
    number = re.search(r"\d+$", name)
    return re.sub(r"\d+$", "", name), int(number[0]) if number else 0


# One game in the simulator: TextWorld's PDDL environment with the names that alfworld gives to things.

_IDLE: list[Any] = []
"""Simulators that no game has. They are used again and never freed, for the process dies of a segmentation fault when
a copy of the planner's library is loaded after another was unloaded. There are as many as games were open at once."""


class Reply(NamedTuple):
    """What the game answered, and how it stands then."""

    text: str
    admissible: tuple[str, ...]
    won: bool
    facts: frozenset[Fact]


class Game:
    """A loaded game. Its methods block and want one thread at a time; games in other threads take turns with it.

    Loading takes 0.3 to 0.8 s, as does `reset`; a step 0.05 s; a plan 1 to 18 s, in which other games go on. Its
    simulator goes to another game once this one is closed, forgotten or found unplayable; its memory stays taken until
    the process ends.

    Raises:
        Fault: ("environment") alfworld is not installed, or the file is no game.
    """

    def __init__(self, path: Path) -> None:
        with _loading():
            self._env = _IDLE.pop() if _IDLE else _simulator()
            self._let_go = weakref.finalize(self, _IDLE.append, self._env)
            _load(self._env, path)

    def reset(self) -> Reply:
        """The game from its start."""
        with _loading():
            return _reply(self._env.reset())

    def step(self, command: str) -> Reply:
        """The answer to one command; to an inadmissible one `Nothing happens.`"""
        with TEXTWORLD:
            return _reply(self._env.step(command)[0])

    def plan(self) -> tuple[str, ...]:
        """The planner's way to the goal from here. It knows the whole world, seen or not."""
        inner = self._env.unwrapped
        return tuple(inner._pddl_state.replan(inner._entity_infos))

    def close(self) -> None:
        """Let another game have the simulator. This one is of no use afterwards."""
        self._let_go()


@contextmanager
def _loading() -> Iterator[None]:
    """The translator of games has its options in globals, and leaves others' command line arguments behind."""
    with TEXTWORLD:
        arguments = sys.argv
        try:
            yield
        finally:
            sys.argv = arguments


def _simulator() -> Any:
    names = ("textworld", "alfworld.agents.environment.alfred_tw_env", "textworld.envs.pddl")
    try:
        textworld, wrappers, worlds = map(import_module, names)
    except ImportError as error:
        fix = "pip install 'certigraph[alfworld]'"
        raise Fault("environment", f"ALFWorld's simulator is not installed ({error}): {fix}") from error
    wanted = textworld.EnvInfos(admissible_commands=True, won=True, facts=True)
    return wrappers.AlfredDemangler(worlds.PddlEnv(wanted))


def _load(simulator: Any, path: Path) -> None:
    try:
        simulator.load(str(path))
    except Exception as error:  # what its parsers raise has no common class
        raise Fault("environment", f"{path} cannot be played: {error!r}; unpack it again") from error


def _reply(state: Any) -> Reply:
    facts = frozenset((fact.name, *(argument.name.strip() for argument in fact.arguments)) for fact in state["facts"])
    return Reply(
        text=state.feedback.strip(),
        admissible=tuple(state["admissible_commands"]),
        won=bool(state["won"]),
        facts=facts,
    )


# The live ALFWorld: one game, its answers as they are.

REFUSED = "Nothing happens."
"""What the game says to a command that it does not understand or cannot carry out."""


class AlfWorld:
    """One episode. It is done, with reward 1.0, when the task is; until then every reward is 0.0.

    Args:
        path: the game's file; it is loaded by `reset`.
    """

    concurrent = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._game: Game | None = None
        self._now: Reply | None = None
        self._room = ""

    def reset(self) -> Observation:
        """The game from its start. Raises Fault("environment") where it cannot be played; says what to install."""
        self._game = self._game or Game(self.path)
        reply = self._game.reset()
        self._room = f"Places in the room: {reply.text.partition('you see ')[2].partition('.')[0]}."
        return self._observed(reply)

    def step(self, action: Action) -> Observation:
        """Do one thing. What is not admissible changes nothing and is not accepted."""
        self._reply()
        assert self._game is not None
        return self._observed(self._game.step(action.text.strip()))

    def view(self) -> str:
        """What the agent faces, open receptacles with what is in them, what it carries, and the room's receptacles."""
        return f"{sight(self._reply().facts)}\n{self._room}"

    def admissible(self) -> list[str]:
        """The commands that the game takes now, in the alphabet's order."""
        return list(self._reply().admissible)

    def score(self) -> Scores:
        """1.0 when the task is done."""
        return Scores(value=float(self._reply().won))

    def close(self) -> None:
        """End the game."""
        if self._game is not None:
            self._game.close()
            self._game = self._now = None

    def _reply(self) -> Reply:
        if self._now is None:
            raise Fault("environment", "this ALFWorld is closed or was never reset: call reset() first")
        return self._now

    def _observed(self, reply: Reply) -> Observation:
        self._now = reply
        accepted = reply.text != REFUSED
        return Observation(
            text=reply.text, accepted=accepted, reward=float(reply.won), done=reply.won, solved=reply.won
        )


# Where ALFWorld's games are: archives that are unpacked once into the cache, or a folder that has them unpacked.

UNPACKED = "json_2.1.1"
"""The folder that holds a folder for each split, wherever games are unpacked."""

SPLITS = ("valid_unseen", "valid_seen", "valid_train", "train")
"""Unseen rooms, seen rooms, and the games to train on; the first is meant where none is named."""

GAME = "game.tw-pddl"

WANTED = re.compile(r'Your task is to: (.*?)"')


class Games:
    """The games by split and id, `<task>/<trial>`.

    Args:
        folder: holds `<split>.games.tar.xz`, or json_2.1.1; None: the folder that ALFWORLD_DATA names, as alfworld's
            own tools have it.
    """

    def __init__(self, folder: Path | None) -> None:
        given = os.environ.get("ALFWORLD_DATA")
        self.folder = folder or (expanded(given) if given else None)

    def splits(self) -> list[str]:
        """The splits that are there. Raises Fault("data") where none is."""
        found = [split for split in SPLITS if self.folder and _source(self.folder, split)]
        if not found:
            if self.folder:
                raise missing_data("alfworld", self.folder, _LAYOUT)
            call = "--data DIR or CERTIGRAPH_DATA=DIR with the games in DIR/alfworld/, or ALFWORLD_DATA=FOLDER"
            raise Fault("data", f"alfworld generates no world, it needs ALFWorld's games: give {call}: {_LAYOUT}")
        return found

    def ids(self, split: str) -> list[str]:
        """The games of a split. Raises UnknownName for one that is not there, Fault("data") where none is."""
        if split not in self.splits():
            raise UnknownName(f"alfworld has no split {split!r} in {self.folder}; known are {', '.join(self.splits())}")
        if not (found := _ids(self._root(split))):
            raise Fault("data", f"{split} in {self.folder} has no games: it should hold {_LAYOUT}")
        return list(found)

    def path(self, task_id: str) -> Path:
        """A game's file.

        Raises:
            UnknownName: there is no such game; lists some.
            Fault: ("data") there are no games.
        """
        known = self.splits()
        named = known if re.fullmatch(r"[\w-]+/\w+", task_id) else []
        places = (self._root(split) / task_id / GAME for split in named)
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise unknown_task("alfworld", task_id, "TASK/TRIAL, the folders of a game", self.ids(known[0]))
        return path

    def _root(self, split: str) -> Path:
        source = _source(self.folder or Path(), split)
        assert source is not None
        return source if source.is_dir() else _unpacked(source, split)


def goal_of(path: Path) -> str:
    """What a game asks for, as its first observation says it. Raises Fault("data") for a file that is no game."""
    try:
        return WANTED.findall(json_value(file_bytes(path))["grammar"])[0].rstrip(".")  # type: ignore[no-any-return]
    except (ValueError, LookupError, TypeError) as error:
        raise Fault("data", f"{path} is no ALFWorld game: {error!r}; delete its folder and unpack it again") from error


def _source(folder: Path, split: str) -> Path | None:
    """The archive of a split, or its folder."""
    places = (folder / UNPACKED / split, folder / split, folder / f"{split}.games.tar.xz")
    return next((place for place in places if place.exists()), None)


@lru_cache(maxsize=8)
def _ids(root: Path) -> tuple[str, ...]:
    return tuple(sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in root.glob(f"*/*/{GAME}")))


@lru_cache(maxsize=8)
def _unpacked(archive: Path, split: str) -> Path:
    """The folder of an archive's games. It appears complete or not at all; who is late uses what is there."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    home = cache_folder() / "alfworld" / f"{split}-{digest}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=home.parent, suffix=".unfinished"))
        try:
            _extract(archive, unfinished)
            unfinished.rename(home)
        except OSError:
            if not home.is_dir():
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return home / UNPACKED / split


def _extract(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive, "r:xz") as packed:
            packed.extractall(folder, members=_games(packed), filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        failed = f"{archive} cannot be unpacked into {folder.parent}: {error}"
        raise Fault("data", f"{failed}; its folder should hold {_LAYOUT}") from error


def _games(packed: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in packed:
        if Path(member.name).name == GAME:
            if member.size > MOST_WHOLE:
                large = f"{member.name} has more than {MOST_WHOLE:,} bytes, unpacked"
                raise Fault("data", f"{large}; its folder should hold {_LAYOUT}")
            yield member


_LAYOUT = f"valid_unseen.games.tar.xz, or {UNPACKED}/valid_unseen/TASK/TRIAL/{GAME}"


# The planner's ways to the goal, worked out once for each game and past, then read from the cache.


def planned(path: Path, before: Sequence[str] = ()) -> list[str]:
    """Commands that do a game's task, from its start or from where the commands `before` lead; none once it is done.

    The first time it takes 2 to 20 s: a game of its own is played up to there and asked for a plan. The planner knows
    what is in closed receptacles.

    Raises:
        Fault: ("environment") the game cannot be played; ("data") the planner finds no way, or what is kept is no plan.
    """
    known = cache_folder() / "alfworld" / "plans" / f"{_key(path, before)}.json"
    if not known.is_file():
        plan = _worked_out(path, before)
        with whole_file(known) as unfinished:
            unfinished.write_text(json.dumps(plan), encoding="utf-8")
    return _read(known)


def _read(kept: Path) -> list[str]:
    plan = read_json(kept)
    if not isinstance(plan, list) or not all(isinstance(command, str) for command in plan):
        raise Fault("data", f"{kept} is no list of commands: delete it, and the plan is worked out anew")
    return plan


def _key(path: Path, before: Sequence[str]) -> str:
    return hashlib.sha256(file_bytes(path) + json.dumps(list(before)).encode()).hexdigest()[:24]


def _worked_out(path: Path, before: Sequence[str]) -> list[str]:
    game = Game(path)
    try:
        won = game.reset().won
        for command in before:
            won = game.step(command).won
        plan = [] if won else list(game.plan())
        if not (won or plan):
            raise Fault("data", f"no plan does {path.parent} after {'; '.join(before) or 'its start'}: take another")
        return plan
    finally:
        game.close()


# ALFWorld as a benchmark: six types of household tasks, each game played live.

BRIEFING = """\
You are in a room and handle things with these actions, one at a time:
go to PLACE: what is on it is seen, in it once it is open. open PLACE, close PLACE. take THING from PLACE.
put THING in/on PLACE, or move THING to PLACE, as the listed actions have it: one thing is carried at a time.
heat THING with microwave, cool THING with fridge, clean THING with sinkbasin: at that place, THING in hand.
use THING: a lamp, where it stands. examine THING or PLACE, look, inventory.
Things and places are called by name and number, such as apple 1; any thing of the name will do for the task.
"Nothing happens." means that the action was not possible.
"""


class ALFWorld:
    """Tasks `look_at_obj_in_light-AlarmClock-None-DeskLamp-308/trial_T20190908_222917_366542`: those of the games.

    The simulators run in this process, one for each game that is open. Their memory stays taken until it ends: to free
    one crashes the process (game.py).

    Args:
        data: the folder of the games' archives, or the folder that holds them unpacked; None: what ALFWORLD_DATA names.
    """

    name = "alfworld"
    signals_goal = True
    briefing = BRIEFING
    configurations: tuple[str, ...] = ()
    limits = PAPER_LIMITS["alfworld"]

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        if config:
            raise UnknownName(f"alfworld has no configuration {config!r}; name it plainly: alfworld")
        self.games = Games(data)

    def ready(self) -> None:
        """Make sure, before any run begins, that games and simulator are there. Raises Fault with what is missing."""
        self.games.splits()
        require("ALFWorld's simulator needs", ["textworld", "alfworld"], "alfworld", "environment")

    def tasks(self, split: str = "") -> list[Task]:
        """The tasks of valid_unseen (the default), valid_seen, valid_train or train.

        Raises:
            UnknownName: for a split that is not there, naming those that are.
            Fault: ("data") there are no games.
        """
        return [self.task(task_id) for task_id in self.games.ids(split or self.games.splits()[0])]

    def task(self, task_id: str) -> Task:
        """One task. Raises UnknownName whose message lists some valid ids, and Fault("data") without games."""
        return Task(benchmark=self.name, id=task_id, goal=goal_of(self.games.path(task_id)))

    def open(self, task: Task) -> AlfWorld:
        """The world of a task, after its id. Raises as `task` does; the game is loaded when it is reset."""
        return AlfWorld(self.games.path(task.id))

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """The planner's way to the goal from the start, or from where the actions `before` lead; see `planned`."""
        return planned(self.games.path(task.id), before)

    def operators(self) -> Mapping[str, Operator]:
        """None: the generic, prompted operators serve."""
        return {}

    def expert(self) -> Responder:
        """The mind that follows the planner, which knows the whole world, seen or not."""
        return demonstrated(self.demonstration)

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Rate of tasks done with its standard error, and for each of the six types of tasks that there are."""
        done = [(_type(id_), footer.scores.value if footer.scores else 0.0) for id_, footer in runs]
        rate = fmean(value for _, value in done)
        types = {kind: fmean(value for of, value in done if of == kind) for kind in sorted(dict(done))}
        return {
            "n": len(runs),
            "success": rate,
            "success_stderr": sqrt(rate * (1 - rate) / (len(runs) - 1)) if len(runs) > 1 else 0.0,
            **{f"success_{kind}": mean for kind, mean in types.items()},
        }


def _type(task_id: str) -> str:
    return task_id.partition("-")[0]
