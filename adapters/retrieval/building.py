"""A build under way: what is committed is checked and skipped, what is new is written in batches."""

import shlex
import shutil
from pathlib import Path
from typing import Any

from certigraph.adapters.retrieval.engine import ID, document, engine, schema, tantivy
from certigraph.adapters.retrieval.journal import Digest, Journal, goes_on
from certigraph.adapters.retrieval.manifest import Manifest
from certigraph.state.endings import Fault
from certigraph.state.passages import Passage

MEMORY, THREADS = 256 << 20, 2
"""Of tantivy's writer: bytes in all, and its indexing threads beside ours."""


class Build:
    """An unfinished index that takes passages in the corpus's order, from its first one on."""

    def __init__(self, folder: Path, command: str, batch: int) -> None:
        """Begin, or go on where a commit of the same versions ended; `command` is what a message advises."""
        self._folder, self._command, self._batch = folder, command, batch
        self._index, self._writer = self._opened()
        self._committed = int(self._index.searcher().num_docs)
        self._journal = Journal(folder)
        self._passages = self._skipped = 0
        self._digest = Digest()
        self._new: set[str] = set()

    def add(self, passage: Passage) -> None:
        """Take the next passage.

        Raises:
            Fault: its id was there before, or the passages committed earlier were not the same as these.
        """
        if not (passage.title.strip() or passage.text.strip()):
            self._skipped += 1
            return
        self._digest.add(passage)
        self._passages += 1
        if self._passages > self._committed:
            self._write(passage)
        elif self._passages == self._committed and self._digest.hex() != self._journal.digest_at(self._passages):
            raise self._unusable("was begun with other passages")

    def finished(self, source: str) -> Manifest:
        """Commit the rest and wait for the last merge. Raises Fault where there were no passages, or fewer."""
        if self._passages < self._committed:
            raise self._unusable("was begun with more passages")
        if not self._passages:
            self.close()
            shutil.rmtree(self._folder)
            raise Fault("data", f"{source} has no passage with a title or a text: name another corpus")
        self._commit()
        self._writer.wait_merging_threads()
        return Manifest(
            source=source,
            passages=self._passages,
            skipped=self._skipped,
            sha256=self._digest.hex(),
            engine=engine(),
        )

    def close(self) -> None:
        """Let go of the folder; what was not committed is lost."""
        self._writer = None

    def _write(self, passage: Passage) -> None:
        if passage.id in self._new:
            raise _twice(passage.id)
        self._new.add(passage.id)
        self._writer.add_document(document(passage, self._passages))
        if len(self._new) == self._batch:
            self._commit()

    def _commit(self) -> None:
        self._refuse_known()
        self._journal.note(self._passages, self._digest.hex())
        self._writer.commit()
        self._index.reload()
        self._new.clear()

    def _refuse_known(self) -> None:
        # A batch's ids against the index at once: a set of all ids would take half a gigabyte at five million.
        library, searcher = tantivy(), self._index.searcher()
        known = library.Query.term_set_query(self._index.schema, ID, list(self._new))
        for _, address in searcher.search(known, 1, count=False).hits:
            raise _twice(searcher.doc(address).get_first(ID))

    def _opened(self) -> tuple[Any, Any]:
        if self._folder.exists() and not goes_on(self._folder):
            shutil.rmtree(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            index = tantivy().Index(schema(), str(self._folder))
            return index, index.writer(MEMORY, THREADS)
        except (OSError, ValueError) as error:
            if "LockBusy" in str(error):
                raise Fault("data", f"another build is at work in {self._folder}: wait until it is done") from error
            raise self._unusable(f"is damaged ({error})") from error

    def _unusable(self, reason: str) -> Fault:
        return Fault(
            "data", f"the index in {self._folder} {reason}: rm -r {shlex.quote(str(self._folder))} && {self._command}"
        )


def _twice(id: str) -> Fault:
    return Fault("data", f"two passages have the id {id!r}: give each its own")
