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

from pydantic import TypeAdapter, ValidationError

from certigraph.adapters.caching import cache_folder, expanded
from certigraph.adapters.models.redact import redacted_value
from certigraph.adapters.sqlite_cache import CacheFile
from certigraph.adapters.web.protocol import Hit, Page, Unreadable

VARIABLE = "CERTIGRAPH_WEB_CACHE"
LAYOUT = 1

T = TypeVar("T")

HITS: TypeAdapter[tuple[Hit, ...]] = TypeAdapter(tuple[Hit, ...])
PAGE: TypeAdapter[Page | Unreadable] = TypeAdapter(Page | Unreadable)


class WebCache(NamedTuple):
    """Answers by who is asked, a provider or a source of pages by its name, and for what."""

    folder: Path
    name: str = "web"
    """Of the file; a web that is not the one out there has a file of its own."""
    since: float = 0.0
    """Seconds since 1970: what was kept before is too old."""

    def get(self, who: str, asked: str, form: TypeAdapter[T], ask: Callable[[], T]) -> T:
        """The answer that is kept, else what `ask` brings, which is kept.

        Of several processes that ask at once all get the same answer, the one that is kept first.

        Raises:
            Fault: ("data") the file is no such cache; and what `ask` raises, of which nothing is kept.
        """
        # a model's query may hold halves of characters
        key = hashlib.sha256(f"{who}\n{asked}".encode(errors="surrogatepass")).hexdigest()
        file = self._file()
        if (kept := file.use(lambda opened: _find(opened, key, self.since))) is None:
            answer = form.dump_json(redacted_value(ask()), exclude_defaults=True).decode()
            kept = file.use(lambda opened: _keep(opened, key, answer, self.since))
        try:
            return form.validate_json(kept)
        except ValidationError:
            raise file.unfit("an answer in it has another form") from None

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
    return WebCache(expanded(given) if given else cache_folder() / "web", name, since)


def _find(opened: sqlite3.Connection, key: str, since: float) -> str | None:
    asked = "SELECT answer FROM answers WHERE key = ? AND at >= ? ORDER BY at LIMIT 1"
    row = opened.execute(asked, (key, since)).fetchone()
    return str(row[0]) if row else None


def _keep(opened: sqlite3.Connection, key: str, answer: str, since: float) -> str:
    """Keep an answer unless another process did just before; return the one that is kept."""
    with opened:
        opened.execute("BEGIN IMMEDIATE")  # nothing may come between the look and the answer
        if (kept := _find(opened, key, since)) is not None:
            return kept
        # a clock that was set back must not hide the answer, nor put it before others
        opened.execute("INSERT INTO answers VALUES (?, ?, ?)", (key, max(time.time(), since), answer))
    return answer
