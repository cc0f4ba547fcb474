"""A repository on disk, read and never written: its text files, and lines of them. Nothing outside its root is read."""

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from certigraph.state.endings import Fault
from certigraph.state.passages import Passage

LARGEST = 500_000
"""Bytes; larger files are data or generated, and left out."""

MOST_FILES = 20_000

WIDEST = 300
"""Characters of a line in a passage: generated code has lines of megabytes."""

SNIFFED = 8_192
"""Bytes in which a NUL tells a binary file."""


class Lines(NamedTuple):
    """Lines of a file: `first` to `last`, counted from 1, both included."""

    path: str
    first: int
    last: int

    def __str__(self) -> str:
        """As `path:12` or `path:12-40`, which is the id of the passage that they are."""
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last > self.first else "")


class Repository:
    """The text files below a root, by their paths relative to it, `/` between the parts.

    Hidden files and folders, links, binary files and those above 500 kB are no part of it.
    """

    def __init__(self, root: Path) -> None:
        """Take a root. Raises Fault where it is no folder."""
        if not root.is_dir():
            raise Fault("data", f"{root}: no such folder: give the root of a checked-out repository")
        self.root = root.resolve()

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files, sorted. Raises Fault where there is none, or more than 20,000."""
        found = sorted(self._files())
        if not found:
            raise Fault("data", f"{self.root} holds no text file: give the root of a checked-out repository")
        if len(found) > MOST_FILES:
            raise Fault(
                "data", f"{self.root} holds {len(found):,} text files, more than {MOST_FILES:,}: give a part of it"
            )
        return tuple(found)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.paths)

    def path_of(self, written: str) -> str | None:
        """The file that a written path means; None where there is none, as with every path that leaves the root."""
        parts = PurePosixPath(written.strip().replace("\\", "/")).parts
        path = "/".join(part for part in parts if part != ".")
        return path if path in self._known else None

    def lines(self, path: str) -> list[str]:
        """The lines of one of `paths`, what is no UTF-8 replaced. Raises Fault where it changed since it was listed."""
        file = self.root / path
        if path not in self._known or not _inside(file, self.root):
            raise Fault("environment", f"{path!r} is no file of {self.root}, or one no longer: start a new run")
        # not by splitlines, which also cuts at form feeds: editors and syntax trees count line ends alone
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(LARGEST).removesuffix("\n").split("\n")  # it may have grown since

    def passage(self, where: Lines) -> Passage:
        """Lines as a passage, whose id and title say where they stand."""
        return passage_of(where, self.lines(where.path)[where.first - 1 : where.last])

    def _files(self) -> Iterator[str]:
        for folder, inner, names in os.walk(self.root):
            inner[:] = [name for name in inner if not name.startswith(".")]
            for name in names:
                file = Path(folder, name)
                if not name.startswith(".") and _readable(file):
                    yield file.relative_to(self.root).as_posix()


def passage_of(where: Lines, lines: Sequence[str]) -> Passage:
    """Lines as a passage; of long ones the beginning."""
    return Passage(id=str(where), title=str(where), text="\n".join(text[:WIDEST] for text in lines))


def _inside(file: Path, root: Path) -> bool:
    """Whether a file is where its path says, and not where a link leads."""
    return file.is_file() and file.resolve() == file and file.is_relative_to(root)


def _readable(file: Path) -> bool:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST:
            return False
        with file.open("rb") as opened:
            return b"\0" not in opened.read(SNIFFED)
    except OSError:
        return False  # not ours to read, or gone since it was listed
