"""A folder of pages as a web of its own: searched by BM25, read by addresses such as `local:guides/gyms.html`."""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from certigraph.adapters.caching import expanded
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.web.charsets import decoded
from certigraph.adapters.web.protocol import Hit, Page, Unreadable
from certigraph.adapters.web.readable import Readable, readable
from certigraph.adapters.web.refused import Refused
from certigraph.adapters.web.results import LONGEST_TITLE, one_line
from certigraph.adapters.web.snippets import found_in
from certigraph.state.endings import Fault
from certigraph.state.passages import Passage

SCHEME = "local:"
HTML = (".html", ".htm")
SUFFIXES = (*HTML, ".md", ".txt")
MOST_FILES = 5_000
MOST_BYTES = 2_000_000
"""Of one file; a larger one is neither found nor read."""

_HEADING = re.compile(r"#+ +(.+)")


class _File(NamedTuple):
    """A file below the folder, and what changes when it does."""

    relative: str
    size: int
    changed: int


class LocalPages:
    """The .html, .htm, .md and .txt files below a folder, without hidden ones and links that lead out of it.

    Both a search provider and a source of pages. Files may change: the index is built again when one did.

    Raises:
        Fault: ("environment") there is no such folder, it has no such file, or more than 5,000 of them.
    """

    name = "local"

    def __init__(self, folder: str | Path) -> None:
        self._root = expanded(folder).resolve()
        self._index = lru_cache(maxsize=1)(self._built)
        self._files()

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` pages that share a word with the query, best first. Raises Fault as the constructor does."""
        return found_in(self._index(self._files()), query, k)

    def page(self, url: str) -> Page | Unreadable:
        """The page of an address that `search` gave; no other address leads anywhere."""
        address = url.partition("#")[0]
        relative = os.fsdecode(unquote_to_bytes(address.removeprefix(SCHEME).encode(errors="surrogatepass")))
        path = self._inside(relative) if address.startswith(SCHEME) else None
        if path is None:
            return Unreadable(url=url, reason="no page of this folder")
        try:
            title, text = _text(path, _content(path))
        except Refused as refused:
            return Unreadable(url=url, reason=refused.reason)
        return Page(url=url, title=one_line(title, LONGEST_TITLE) or _stem(path), text=text)

    def _files(self) -> tuple[_File, ...]:
        files = tuple(sorted(self._walk()))
        if not files:
            wanted = f"put {', '.join(SUFFIXES)} files there, or name another folder: local:FOLDER"
            raise Fault("environment", f"no page to search in {self._root}: {wanted}")
        if len(files) > MOST_FILES:
            narrow = "name a smaller folder: local:FOLDER"
            raise Fault("environment", f"{len(files)} pages in {self._root}, at most {MOST_FILES} fit: {narrow}")
        return files

    def _walk(self) -> Iterator[_File]:
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                relative = (Path(folder) / name).relative_to(self._root).as_posix()
                if path := self._inside(relative):
                    stat = path.stat()
                    yield _File(relative, stat.st_size, stat.st_mtime_ns)

    def _inside(self, relative: str) -> Path | None:
        """The file, where the path and what it links to are pages below the folder."""
        try:
            path = (self._root / relative).resolve()
            real = path.relative_to(self._root).parts
            shown = not any(part.startswith(".") for part in (*relative.split("/"), *real))
            return path if shown and path.suffix.lower() in SUFFIXES and path.is_file() else None
        # a NUL, a name that is too long, links in a circle, a path that leads out
        except (OSError, RuntimeError, ValueError):
            return None

    def _built(self, files: tuple[_File, ...]) -> Pool:
        urls = (SCHEME + quote(os.fsencode(file.relative)) for file in files)
        pages = [page for page in map(self.page, urls) if isinstance(page, Page)]
        if not pages:
            raise Fault("environment", f"none of {len(files)} pages in {self._root} has a text that can be read")
        return Pool([Passage(id=page.url, title=page.title, text=page.text) for page in pages])


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Refused(f"cannot be opened ({type(error).__name__})") from error
    if len(content) > MOST_BYTES:
        raise Refused(f"more than {MOST_BYTES // 1_000_000} MB")
    return content


def _text(path: Path, content: bytes) -> Readable:
    kind = path.suffix.lower()
    if kind in HTML:
        return readable(content, "text/html")
    text = decoded(content, "utf-8").strip()
    if not text or "\0" in text:
        raise Refused("no text")
    heading = _HEADING.match(text) if kind == ".md" else None
    return Readable(heading[1] if heading else "", text)


def _stem(path: Path) -> str:
    # a name need not be UTF-8
    return os.fsencode(path.stem).decode(errors="replace")
