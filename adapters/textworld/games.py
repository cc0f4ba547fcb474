"""Compiled games, made when they are first needed and kept: the story file and its description, both or neither."""

import re
import shutil
import subprocess
import tempfile
from functools import lru_cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.hints import unknown_task
from certigraph.adapters.locks import TEXTWORLD
from certigraph.adapters.processes import child_environment
from certigraph.adapters.rows import file_bytes
from certigraph.adapters.textworld.kinds import KINDS, make_game, needed_textworld
from certigraph.state.endings import Fault
from certigraph.state.json_text import json_value

STORY, DESCRIPTION = "game.z8", "game.json"

NAME = re.compile(r"([a-z_]+)-([1-9]\d{0,2})-(0|[1-9]\d{0,8})")


class Game(NamedTuple):
    """A compiled game; its description lies beside the story, where TextWorld looks for it."""

    name: str
    story: Path
    objective: str
    walkthrough: tuple[str, ...]
    """Commands that win it, from the start."""


def named(name: str) -> tuple[str, int, int]:
    """Kind, level and seed of a game. Raises UnknownName saying what there is."""
    match = NAME.fullmatch(name)
    if match and match[1] in KINDS and int(match[2]) <= KINDS[match[1]].most:
        return match[1], int(match[2]), int(match[3])
    known = ", ".join(f"{kind}-1-0 to {kind}-{KINDS[kind].most}-N" for kind in KINDS)
    pattern = f"KIND-LEVEL-SEED ({known}, N being any seed)"
    raise unknown_task("textworld", name, pattern, [example("cooking")])


def example(kind: str, seed: int = 0) -> str:
    """The name of a game at its kind's usual level."""
    return f"{kind}-{KINDS[kind].usual}-{seed}"


class Library:
    """The games of this machine. Other versions of TextWorld draw other ones and have folders of their own."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.game = lru_cache(maxsize=1_024)(self._game)

    @property
    def folder(self) -> Path:
        """Where the games are kept."""
        return self._folder or cache_folder() / "textworld" / version("textworld")

    def _game(self, name: str) -> Game:
        """The game of a name; the first time ever it is made, which takes about a second.

        Raises:
            UnknownName: it is no name of a game.
            Fault: ("data") as `make_game`, or what is kept of it is damaged.
        """
        parts = named(name)
        needed_textworld()
        place = self.folder / name
        if not place.is_dir():
            self._make(place, *parts)
        try:
            told = json_value(file_bytes(place / DESCRIPTION))
            return Game(name, place / STORY, told["objective"], tuple(told["metadata"]["walkthrough"]))
        except (Fault, OSError, ValueError, LookupError, TypeError) as error:
            raise Fault("data", f"{place} is damaged ({error!r}): delete it, and the game is made anew") from error

    def _make(self, place: Path, kind: str, level: int, seed: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=self.folder, prefix=place.name, suffix=".unfinished"))
        try:
            with TEXTWORLD:
                _compile(kind, level, seed, unfinished)
            unfinished.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was first, and its game is the same
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _compile(kind: str, level: int, seed: int, folder: Path) -> None:
    textworld = needed_textworld()
    _limit_compilers()
    options = textworld.GameOptions()
    options.path, options.force_recompile = str(folder / STORY), True
    textworld.generator.compile_game(make_game(kind, level, seed), options)


def _limit_compilers() -> None:
    """Give the compilers of Inform 7, which TextWorld starts, `child_environment`: it has no option for that."""
    starter = import_module("textworld.generator.inform7.world2inform7")
    starter.subprocess = SimpleNamespace(  # type: ignore[attr-defined]
        check_output=partial(subprocess.check_output, env=child_environment()),
        CalledProcessError=subprocess.CalledProcessError,
        STDOUT=subprocess.STDOUT,
    )
