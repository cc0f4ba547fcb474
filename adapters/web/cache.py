"""What the web answered, kept on disk, so that a run which was killed finds the same web again and asks nothing twice.

Nothing is replaced: an answer is found by when the run began to accept answers (`since`), and of those kept since then
it is the earliest. So a resumed run sees what it saw before, whatever others asked in the meantime.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.sqlite_cache import CacheFile
from certigraph.adapters.web.protocol import Hit, Page, Unreadable

VARIABLE = "CERTIGRAPH_WEB_CACHE"
LAYOUT = 1

T = TypeVar("T")

HITS: TypeAdapter[tuple[Hit, ...]] = TypeAdapter(tuple[Hit, ...])
PAGE: TypeAdapter[Page | Unreadable] = TypeAdapter(Page | Unreadable)


class WebCache(NamedTuple):
    """Answers by kind ("page", or a provider's name) and what was asked."""

    folder: Path
    name: str = "web"
    """Of the file; a web that is not the one out there has a file of its own."""
    since: float = 0.0
    """Seconds since 1970: what was kept before is too old."""

    def get(self, kind: str, asked: str, form: TypeAdapter[T], ask: Callable[[], T]) -> T:
        """The answer that is kept, else what `ask` brings, which is kept.

        Raises:
            Fault: ("data") the file is no such cache; and what `ask` raises, of which nothing is kept.
        """
        key = hashlib.sha256(f"{kind}\n{asked}".encode()).hexdigest()
        file = self._file()
        if (kept := file.use(lambda opened: _find(opened, key, self.since))) is None:
            answer = form.dump_json(ask(), exclude_defaults=True).decode()
            kept = file.use(lambda opened: _keep(opened, key, answer, self.since))
        return form.validate_json(kept)

    def _file(self) -> CacheFile:
        return CacheFile(
            self.folder / f"{self.name}.sqlite",
            tables="CREATE TABLE answers (key TEXT, at REAL, answer TEXT NOT NULL, PRIMARY KEY (key, at))",
            version=LAYOUT,
            what="a cache of the web",
            fix=f"delete it, or name another folder: export {VARIABLE}=FOLDER",
        )


def web_cache(name: str = "web", *, since: float = 0.0) -> WebCache:
    """The cache in the folder CERTIGRAPH_WEB_CACHE, else in the user's cache folder."""
    given = os.environ.get(VARIABLE)
    return WebCache(Path(given).expanduser() if given else cache_folder() / "web", name, since)


def _find(opened: sqlite3.Connection, key: str, since: float) -> str | None:
    asked = "SELECT answer FROM answers WHERE key = ? AND at >= ? ORDER BY at LIMIT 1"
    row = opened.execute(asked, (key, since)).fetchone()
    return str(row[0]) if row else None


def _keep(opened: sqlite3.Connection, key: str, answer: str, since: float) -> str:
    """Keep an answer; return the one that a later run finds, which another process may have kept just before."""
    opened.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (key, time.time(), answer))
    return _find(opened, key, since) or answer
