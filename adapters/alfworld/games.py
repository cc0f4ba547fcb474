"""Where ALFWorld's games are: archives that are unpacked once into the cache, or a folder that has them unpacked."""

import hashlib
import lzma
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from certigraph.adapters.caching import cache_folder, expanded
from certigraph.adapters.hints import missing_data, unknown_task
from certigraph.adapters.rows import MOST_WHOLE, file_bytes
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.json_text import json_value

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
