"""BM25 indexes on disk: building, resuming and searching."""

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from certigraph.adapters.files import MOST_SETTINGS, file_bytes, file_text
from certigraph.adapters.processes import library
from certigraph.adapters.retrieval.bm25 import (
    ANALYZER,
    MOST_TITLE_HITS,
    Hit,
    named_keys,
    terms,
    title_keys,
    titles_first,
)
from certigraph.state.records import Fault, Record, UnknownName, json_value
from certigraph.state.search import Passage

# How a passage lies in a tantivy index.

ID, TITLE, TEXT, TITLE_KEY, BODY, PLACE = "id", "title", "text", "title_key", "body", "place"
LAYOUT = 1
"""Version of the fields below; it goes into the manifest."""


def tantivy() -> Any:
    """The library. Raises Fault where it is not installed."""
    return library("tantivy", "a corpus on disk needs", "retrieval")


def engine() -> str:
    """The library's version and that of its files, as the manifest says it."""
    return str(tantivy().__version__)


def schema() -> Any:
    """The fields of a passage.

    `body` is not stored and holds the terms of title and text as our analyzer makes them, so that no second tokenizer
    has to agree with it; `place` is the passage's number in the corpus, which orders equal scores.
    """
    builder = tantivy().SchemaBuilder()
    builder.add_text_field(ID, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(TITLE_KEY, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(BODY, tokenizer_name="whitespace", index_option="freq")
    for name in (TITLE, TEXT):  # as bytes, because a text field is always indexed
        builder.add_bytes_field(name, stored=True)
    builder.add_unsigned_field(PLACE, fast=True)
    return builder.build()


def document(passage: Passage, place: int) -> Any:
    """The passage as the index takes it."""
    made = tantivy().Document()
    made.add_text(ID, passage.id)
    made.add_bytes(TITLE, passage.title.encode())
    made.add_bytes(TEXT, passage.text.encode())
    made.add_text(BODY, " ".join(terms(f"{passage.title} {passage.text}")))
    made.add_unsigned(PLACE, place)
    for key in title_keys(passage.title):
        made.add_text(TITLE_KEY, key)
    return made


def passage_of(made: Any) -> Passage:
    """The passage of a stored document."""
    title, text = (bytes(made.get_first(name)).decode() for name in (TITLE, TEXT))
    return Passage(id=made.get_first(ID), title=title, text=text)


def any_of(schema: Any, field: str, values: Sequence[str]) -> list[tuple[Any, Any]]:
    """Clauses of a boolean query: each value that occurs adds its BM25, one given twice adds it twice."""
    query, should = tantivy().Query, tantivy().Occur.Should
    option = "freq" if field == BODY else "basic"
    return [(should, query.term_query(schema, field, value, option)) for value in values]


# What a finished index says of itself. A folder with a manifest is a whole index; one without is none.

MANIFEST = "manifest.json"


class Manifest(Record):
    """What an index was built from and by. `sha256` is over the passages' ids, titles and texts in order."""

    source: str
    passages: int
    skipped: int = 0
    """Passages left out because they have neither title nor text."""
    sha256: str
    layout: int = LAYOUT
    analyzer: str = ANALYZER
    engine: str


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the index in a folder that this version can search.

    Raises:
        Fault: there is no index, only the beginning of one, or one of another version; with the command that builds it.
    """
    path = folder / MANIFEST
    if not path.is_file():
        own = unfinished_folder(folder).is_dir() or not folder.exists()
        other = folder if own else folder.with_name(f"{folder.name}.index")
        raise Fault("data", f"{_what_is(folder)}: {index_command('CORPUS', other)}")
    try:
        manifest = Manifest.model_validate_json(file_bytes(path, MOST_SETTINGS))
    except ValidationError:
        raise Fault("data", f"{path} is not a manifest of ours: {index_command('CORPUS', folder)}") from None
    if (manifest.layout, manifest.analyzer) != (LAYOUT, ANALYZER):
        made = f"layout {manifest.layout}, analyzer {manifest.analyzer}"
        wanted = f"this version searches layout {LAYOUT}, analyzer {ANALYZER}"
        raise Fault("data", f"{folder} has {made}; {wanted}: {index_command(manifest.source, folder)}")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """The last file of an index; it is on disk when this returns."""
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=1))
        file.flush()
        os.fsync(file.fileno())


def unfinished_folder(folder: Path) -> Path:
    """Where the index of a folder is built, beside it; beside what it links to, so that one rename publishes it."""
    return (real := folder.resolve()).with_name(f".{real.name}.unfinished")


def index_command(source: str, folder: Path) -> str:
    """The command that builds an index, or goes on with one."""
    return f"certigraph index {shlex.quote(source)} --out {shlex.quote(str(folder))}"


def _what_is(folder: Path) -> str:
    if unfinished_folder(folder).is_dir():
        return f"the index {folder} is half built; go on with the corpus that it was begun with"
    return f"{folder} is no index" if folder.exists() else f"there is no index {folder}"


# How far a half-built index got, and of what: enough to go on after a kill without reading the index.

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


# A build under way: what is committed is checked and skipped, what is new is written in batches.

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


# Building an index of a corpus on disk: in batches, so that a killed build goes on, and seen only when whole.

BATCH = 50_000
"""Passages a commit: what a kill loses, about five seconds."""

STRIDE = 1_000
"""Passages between two reports of progress."""


def build_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    source: str = "CORPUS",
    progress: Callable[[int], None] = lambda done: None,
    batch: int = BATCH,
) -> Manifest:
    """Index passages in a folder, which appears, or is replaced, when all of them are in.

    Called again after a kill with the same passages it skips those that are in already.

    Args:
        passages: with ids of their own; those with neither title nor text are left out and counted.
        folder: of the index. A folder that is something else is refused.
        source: the corpus as `certigraph index` takes it; commands in messages name it.
        progress: called with the number of passages read, every thousand.
        batch: passages a commit.

    Raises:
        Fault: no passages, an id given twice, other passages than those begun with, or a second build at work.
    """
    _refuse_other(folder)
    rest = iter(passages)
    if (first := next(rest, None)) is None:  # before anything is written
        raise Fault("data", f"{source} has no passages: name another corpus")
    unfinished = unfinished_folder(folder)
    with closing(Build(unfinished, index_command(source, folder), batch)) as build:
        for number, passage in enumerate(chain([first], rest), 1):
            build.add(passage)
            if number % STRIDE == 0:
                progress(number)
        manifest = build.finished(source)
    write_manifest(unfinished, manifest)
    _publish(unfinished, folder.resolve())
    return manifest


def _refuse_other(folder: Path) -> None:
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise Fault("data", f"{folder} is there and is no index: name another with --out")


def _publish(unfinished: Path, folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        folder.rename(aside)
    unfinished.rename(folder)
    handle = os.open(folder.parent, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    shutil.rmtree(aside, ignore_errors=True)


# BM25 over a corpus on disk. The files are memory-mapped: opening reads little, and processes share the pages.

MOST_TIES = 1_000
"""Passages of one score that are put in the corpus's order; of more than these, the index's order decides."""


def open_corpus(folder: str | Path, *, boost_titles: bool = True) -> "Corpus":
    """The corpus that `certigraph index` wrote to a folder; passages whose title a query names come first.

    Raises:
        Fault: the folder has no whole index of this version, or tantivy is missing; the message has the command.
    """
    folder = Path(folder)
    manifest, library = read_manifest(folder), tantivy()
    again = index_command(manifest.source, folder)
    try:
        if not library.Index.is_compatible(str(folder)):
            raise Fault("data", f"{folder} was written by {manifest.engine}, here is {library.__version__}: {again}")
        index = library.Index.open(str(folder))
    except (OSError, ValueError) as error:
        raise Fault("data", f"the index {folder} is damaged ({error}): {again}") from error
    index.config_reader("manual")  # the default starts a thread that watches for commits
    return Corpus(index, manifest, boost_titles=boost_titles)


class Corpus:
    """BM25 over title and text by tantivy (Lucene's idf, k1 1.2, b 0.75). Any number of threads may search it."""

    def __init__(self, index: Any, manifest: Manifest, *, boost_titles: bool) -> None:
        self.name = "bm25+titles" if boost_titles else "bm25"
        self.manifest = manifest
        self._boost = boost_titles
        self._schema, self._searcher = index.schema, index.searcher()
        self._library = tantivy()

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages that share a term with the query or are named by it, the best first."""
        asked = terms(query)
        if not asked or k < 1:
            return []
        clauses = any_of(self._schema, BODY, asked)
        ranked = self._best(clauses, k)
        return titles_first(self._named(query, clauses), ranked, k) if self._boost else ranked

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the corpus has none."""
        for _, address in self._searcher.search(self._boolean(any_of(self._schema, ID, [id])), 1, count=False).hits:
            return passage_of(self._searcher.doc(address))
        raise UnknownName(f"no passage {id!r} in the corpus {self.manifest.source}; search(query, k) finds ids")

    def _named(self, query: str, clauses: Sequence[Any]) -> list[Hit]:
        keys = named_keys(query, lambda key: self._searcher.doc_freq(TITLE_KEY, key) > 0)
        if not keys:
            return []
        titled = self._library.Query.const_score_query(self._boolean(any_of(self._schema, TITLE_KEY, keys)), 0.0)
        return self._best([(self._library.Occur.Must, titled), *clauses], MOST_TITLE_HITS)

    def _best(self, clauses: Sequence[Any], k: int) -> list[Hit]:
        best = self._in_order(self._boolean(clauses), k)
        return [Hit(passage_of(self._searcher.doc(address)), score) for score, address in best]

    def _in_order(self, query: Any, k: int) -> list[tuple[float, Any]]:
        """Scores and addresses, equal scores by place; the ones that tie with the last are fetched to choose from."""
        found = self._searcher.search(query, k + 1, count=False).hits
        if len(found) > k and found[k][0] == found[k - 1][0]:
            found = self._searcher.search(query, k + MOST_TIES, count=False).hits
        places = self._searcher.fast_field_values(PLACE, [address for _, address in found])
        ordered = sorted(zip(found, places, strict=True), key=lambda hit: (-hit[0][0], hit[1]))
        return [hit for hit, _ in ordered[:k]]

    def _boolean(self, clauses: Sequence[Any]) -> Any:
        return self._library.Query.boolean_query(list(clauses))
