"""A cache in one SQLite file that several processes may use at once. It holds texts, nothing that runs when read."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from certigraph.state.endings import Fault

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to wait for another process that writes."""


class CacheFile(NamedTuple):
    """A file with one layout."""

    path: Path
    tables: str
    """The statement that lays an empty file out."""
    version: int
    """Of the layout, kept as SQLite's user_version."""
    what: str
    """What it is for, and how another is named, as errors say it: `a cache of replies`."""
    fix: str

    def use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work on the open file, which is made where there is none.

        Raises:
            Fault: ("data") the file is another program's or version's, or cannot be read or written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)) as opened:
                self._laid_out(opened)
                return work(opened)
        except (sqlite3.Error, OSError, ValueError, KeyError, TypeError) as error:
            raise self.unfit(error) from error

    def unfit(self, why: object) -> Fault:
        """The fault of a file that cannot be used."""
        return Fault("data", f"{self.path} cannot serve as {self.what} ({why}): {self.fix}")

    def _laid_out(self, opened: sqlite3.Connection) -> None:
        if _version(opened) == self.version:
            return
        with opened:
            opened.execute("BEGIN IMMEDIATE")  # of several processes that come first, one lays it out
            if _version(opened) == self.version:
                return
            if _version(opened) or opened.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise ValueError("another program's or another version's file")
            opened.execute(self.tables)
            opened.execute(f"PRAGMA user_version = {self.version}")


def _version(opened: sqlite3.Connection) -> int:
    [version] = opened.execute("PRAGMA user_version").fetchone()
    return int(version)
