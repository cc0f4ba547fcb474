"""How far a half-built index got, and of what: enough to go on after a kill without reading the index."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from certigraph.adapters.retrieval.analyzer import ANALYZER
from certigraph.adapters.retrieval.engine import LAYOUT, engine
from certigraph.adapters.rows import file_text
from certigraph.state.endings import Fault
from certigraph.state.json_text import json_value
from certigraph.state.passages import Passage

JOURNAL = "journal.jsonl"


class Digest:
    """A sha256 over passages in order; fields are told apart by their lengths."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, passage: Passage) -> None:
        """Take in the next passage."""
        for part in (passage.id.encode(), passage.title.encode(), passage.text.encode()):
            self._sha256.update(len(part).to_bytes(8, "big") + part)

    def hex(self) -> str:
        """The digest of the passages so far."""
        return self._sha256.hexdigest()


class Journal:
    """The versions at work, then one line a commit, on disk before it: passages then in the index, and their digest.

    The last line may name a commit that never came; the index's own count says which line holds.

    Raises:
        Fault: ("data") a line before the last is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._digests = _digests(self._path)
        if not self._path.exists():
            self._write(_versions())

    def digest_at(self, passages: int) -> str | None:
        """The digest of the first so many passages; None where no commit ended there."""
        return self._digests.get(passages)

    def note(self, passages: int, digest: str) -> None:
        """Say what the next commit holds."""
        self._digests[passages] = digest
        self._write([passages, digest])

    def _write(self, row: list[Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _digests(path: Path) -> dict[int, str]:
    try:
        return {int(passages): str(digest) for passages, digest in _rows(path)[1:]}
    except (ValueError, TypeError, OverflowError) as error:
        raise _damaged(path) from error


def goes_on(folder: Path) -> bool:
    """Whether a build in this folder was begun by the versions at work."""
    return _rows(folder / JOURNAL)[:1] == [_versions()]


def _rows(path: Path) -> list[Any]:
    # What follows the last line's end was torn by a kill, before its commit began.
    written = file_text(path).rpartition("\n")[0] if path.is_file() else ""
    return [_row(line, path) for line in written.splitlines()]


def _row(line: str, path: Path) -> list[Any]:
    try:
        first, *rest = json_value(line)
        return [first, *rest]
    except (ValueError, TypeError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> Fault:
    return Fault("data", f"{path} is damaged: delete {path.parent}, and the index is built from its beginning")


def _versions() -> list[Any]:
    return [LAYOUT, ANALYZER, engine()]
