"""BM25 indexes on disk (tantivy): building, resuming and searching.

`build_index` writes an index to a folder, `open_corpus` opens it for search.
"""

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

from certigraph.adapters.extras import import_extra
from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes, read_text
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.retrieval.bm25 import (
    ANALYZER,
    MAX_TITLE_HITS,
    PassageHit,
    find_title_keys,
    rank_titles_first,
    terms,
    title_keys,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record
from certigraph.state.search import Passage

# Fields of a passage in a tantivy index.

ID, TITLE, TEXT, TITLE_KEY, BODY, PLACE = "id", "title", "text", "title_key", "body", "place"
LAYOUT = 1
"""Version of the fields; stored in the manifest."""


def import_tantivy() -> Any:
    """Import tantivy. Raises Fault if it is not installed."""
    return import_extra("tantivy", "a corpus on disk needs", "retrieval")


def engine_version() -> str:
    """Return tantivy's version string, which includes its file format. The manifest of an index stores it."""
    return str(import_tantivy().__version__)


def build_schema() -> Any:
    """Build the tantivy schema: the fields of a passage.

    `body` has the terms of title and text (`bm25.terms`), separated by spaces, so that tantivy needs no tokenizer that
    agrees with ours; it is not stored. `place` is the position in the corpus, which orders equal scores.
    """
    builder = import_tantivy().SchemaBuilder()
    builder.add_text_field(ID, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(TITLE_KEY, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(BODY, tokenizer_name="whitespace", index_option="freq")
    for name in (TITLE, TEXT):  # as bytes, because a text field is always indexed
        builder.add_bytes_field(name, stored=True)
    builder.add_unsigned_field(PLACE, fast=True)
    return builder.build()


def build_document(passage: Passage, position: int) -> Any:
    """Convert a passage to a document of the index."""
    result = import_tantivy().Document()
    result.add_text(ID, passage.id)
    result.add_bytes(TITLE, passage.title.encode())
    result.add_bytes(TEXT, passage.text.encode())
    result.add_text(BODY, " ".join(terms(f"{passage.title} {passage.text}")))
    result.add_unsigned(PLACE, position)
    for key in title_keys(passage.title):
        result.add_text(TITLE_KEY, key)
    return result


def passage_of(stored: Any) -> Passage:
    """Convert a stored document to a passage."""
    title, text = (bytes(stored.get_first(name)).decode() for name in (TITLE, TEXT))
    return Passage(id=stored.get_first(ID), title=title, text=text)


def build_clauses(schema: Any, field: str, values: Sequence[str]) -> list[tuple[Any, Any]]:
    """Build the clauses of a boolean query: each value that occurs in the field adds its BM25 score.

    A value that is repeated in `values` adds its score once per repetition.
    """
    query, should = import_tantivy().Query, import_tantivy().Occur.Should
    option = "freq" if field == BODY else "basic"
    return [(should, query.term_query(schema, field, value, option)) for value in values]


# Manifest of a finished index. A folder with a manifest is a complete index, a folder without one is not.

MANIFEST = "manifest.json"


class Manifest(Record):
    """Metadata of an index: the corpus from which it was built, and the versions with which it was built.

    Attributes:
        source: the corpus, as given to `certigraph index`.
        passages: number of indexed passages.
        sha256: digest of the passages' ids, titles and texts in order.
        layout: version of the fields.
        analyzer: name of the text analysis.
        engine: version of tantivy.
    """

    source: str
    passages: int
    skipped: int = 0
    """Number of passages left out because they have neither title nor text."""
    sha256: str
    layout: int = LAYOUT
    analyzer: str = ANALYZER
    engine: str


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index that this version can search.

    Raises:
        Fault: the index is missing, unfinished, or of another version; the message has the command that builds it.
    """
    path = folder / MANIFEST
    if not path.is_file():
        usable = unfinished_folder(folder).is_dir() or not folder.exists()
        target = folder if usable else folder.with_name(f"{folder.name}.index")
        raise Fault("data", f"{_describe_folder(folder)}: {index_command('CORPUS', target)}")
    try:
        manifest = Manifest.model_validate_json(read_bytes(path, MAX_SETTINGS_BYTES))
    except ValidationError:
        raise Fault("data", f"{path} is not a manifest of certigraph: {index_command('CORPUS', folder)}") from None
    if (manifest.layout, manifest.analyzer) != (LAYOUT, ANALYZER):
        found = f"layout {manifest.layout}, analyzer {manifest.analyzer}"
        expected = f"this version searches layout {LAYOUT}, analyzer {ANALYZER}"
        raise Fault("data", f"{folder} has {found}; {expected}: {index_command(manifest.source, folder)}")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, which is the last file of an index; it is synced to disk on return."""
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=1))
        file.flush()
        os.fsync(file.fileno())


def unfinished_folder(folder: Path) -> Path:
    """Return the folder in which an index is built: next to its final `folder`, so that one rename publishes it."""
    return (real := folder.resolve()).with_name(f".{real.name}.unfinished")


def index_command(source: str, folder: Path) -> str:
    """Return the shell command that builds an index, or resumes its build."""
    return f"certigraph index {shlex.quote(source)} --out {shlex.quote(str(folder))}"


def _describe_folder(folder: Path) -> str:
    if unfinished_folder(folder).is_dir():
        return f"the index {folder} is unfinished; resume it with the corpus with which it was started"
    return f"{folder} is not an index" if folder.exists() else f"there is no index {folder}"


# Journal of an unfinished index: enough to resume it after a kill without reading the index.

JOURNAL = "journal.jsonl"


class PassageDigest:
    """A sha256 over passages in order. The length of each field is included, so that fields cannot be confused."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, passage: Passage) -> None:
        """Add the next passage."""
        for part in (passage.id.encode(), passage.title.encode(), passage.text.encode()):
            self._sha256.update(len(part).to_bytes(8, "big") + part)

    def hex(self) -> str:
        """Return the digest of the passages added so far, in hexadecimal."""
        return self._sha256.hexdigest()


class BuildJournal:
    """Journal of the build of an index: the versions, then one line per commit.

    The line of a commit has the number of passages so far and their digest. It is synced to disk before the commit, so
    that a kill may leave a line without its commit. The number of passages in the index tells which line is valid.

    Raises:
        Fault: ("data") a line before the last is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._digests = _read_digests(self._path)
        if not self._path.exists():
            self._write(_versions())

    def digest_at(self, passages: int) -> str | None:
        """Return the digest of the first `passages` passages; None if no commit ended after that number."""
        return self._digests.get(passages)

    def record(self, passages: int, digest: str) -> None:
        """Record the number of passages after the next commit, and their digest."""
        self._digests[passages] = digest
        self._write([passages, digest])

    def _write(self, row: list[Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _read_digests(path: Path) -> dict[int, str]:
    try:
        return {int(passages): str(digest) for passages, digest in _read_rows(path)[1:]}
    except (ValueError, TypeError, OverflowError) as error:
        raise _damaged_fault(path) from error


def is_resumable(folder: Path) -> bool:
    """Return whether the build in this folder was started with the versions in use now, so that it can be resumed."""
    return _read_rows(folder / JOURNAL)[:1] == [_versions()]


def _read_rows(path: Path) -> list[Any]:
    # Text after the last line break was torn by a kill, before its commit started.
    complete_lines = read_text(path).rpartition("\n")[0] if path.is_file() else ""
    return [_parse_row(line, path) for line in complete_lines.splitlines()]


def _parse_row(line: str, path: Path) -> list[Any]:
    try:
        first, *rest = parse_json(line)
        return [first, *rest]
    except (ValueError, TypeError) as error:
        raise _damaged_fault(path) from error


def _damaged_fault(path: Path) -> Fault:
    return Fault("data", f"{path} is damaged: delete {path.parent}, then the index is built from the start")


def _versions() -> list[Any]:
    return [LAYOUT, ANALYZER, engine_version()]


# A running build: committed passages are checked and skipped, new ones are written in batches.

WRITER_BYTES, WRITER_THREADS = 256 << 20, 2
"""Memory (bytes) and number of indexing threads of tantivy's writer."""


class IndexBuilder:
    """Builder of an index. All passages must be added in corpus order, also those that were committed before a kill."""

    def __init__(self, folder: Path, command: str, batch: int) -> None:
        """Start a build, or resume one that was started with the same versions.

        Args:
            folder: folder of the unfinished index.
            command: shell command that builds the index, for error messages.
            batch: number of passages per commit.
        """
        self._folder, self._command, self._batch = folder, command, batch
        self._index, self._writer = self._open_writer()
        self._committed = int(self._index.searcher().num_docs)
        self._journal = BuildJournal(folder)
        self._passages = self._skipped = 0
        self._digest = PassageDigest()
        self._new: set[str] = set()

    def add(self, passage: Passage) -> None:
        """Add the next passage.

        Raises:
            Fault: the passage's id is not unique, or the passages differ from those committed earlier.
        """
        if not (passage.title.strip() or passage.text.strip()):
            self._skipped += 1
            return
        self._digest.add(passage)
        self._passages += 1
        if self._passages > self._committed:
            self._write(passage)
        elif self._passages == self._committed and self._digest.hex() != self._journal.digest_at(self._passages):
            raise self._unusable("was started with other passages")

    def finish(self, source: str) -> Manifest:
        """Commit the remaining passages, wait for tantivy's last merge, and return the manifest.

        Raises:
            Fault: there were no passages, or fewer than were committed before a kill.
        """
        if self._passages < self._committed:
            raise self._unusable("was started with more passages")
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
            engine=engine_version(),
        )

    def close(self) -> None:
        """Release the folder; uncommitted passages are lost."""
        self._writer = None

    def _write(self, passage: Passage) -> None:
        if passage.id in self._new:
            raise _repeated_id_fault(passage.id)
        self._new.add(passage.id)
        self._writer.add_document(build_document(passage, self._passages))
        if len(self._new) == self._batch:
            self._commit()

    def _commit(self) -> None:
        self._check_unique_ids()
        self._journal.record(self._passages, self._digest.hex())
        self._writer.commit()
        self._index.reload()
        self._new.clear()

    def _check_unique_ids(self) -> None:
        # The ids of a batch are searched in the index: a set of all ids would take half a gigabyte at five million.
        library, searcher = import_tantivy(), self._index.searcher()
        same_ids = library.Query.term_set_query(self._index.schema, ID, list(self._new))
        for _, address in searcher.search(same_ids, 1, count=False).hits:
            raise _repeated_id_fault(searcher.doc(address).get_first(ID))

    def _open_writer(self) -> tuple[Any, Any]:
        if self._folder.exists() and not is_resumable(self._folder):
            shutil.rmtree(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            index = import_tantivy().Index(build_schema(), str(self._folder))
            return index, index.writer(WRITER_BYTES, WRITER_THREADS)
        except (OSError, ValueError) as error:
            if "LockBusy" in str(error):
                raise Fault(
                    "data", f"another build is running in {self._folder}: wait until it has finished"
                ) from error
            raise self._unusable(f"is damaged ({error})") from error

    def _unusable(self, reason: str) -> Fault:
        return Fault(
            "data", f"the index in {self._folder} {reason}: rm -r {shlex.quote(str(self._folder))} && {self._command}"
        )


def _repeated_id_fault(id: str) -> Fault:
    return Fault("data", f"two passages have the id {id!r}: give each a unique id")


# Building an index in batches: a killed build can be resumed, and the index appears only when it is complete.

BATCH_PASSAGES = 50_000
"""Number of passages per commit. A kill loses at most so many, about five seconds of work."""

PROGRESS_PASSAGES = 1_000
"""Passages between two reports of progress."""


def build_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    source: str = "CORPUS",
    progress: Callable[[int], None] = lambda done: None,
    batch: int = BATCH_PASSAGES,
) -> Manifest:
    """Index passages in a folder. The folder appears, or is replaced, only when all passages are indexed.

    After a kill, a call with the same passages resumes the build and skips those that are already committed.

    Args:
        passages: passages with unique ids; those with neither title nor text are left out and counted.
        folder: folder of the index. An existing folder that is not an index is refused.
        source: the corpus, as given to `certigraph index`, for commands in error messages.
        progress: called after every thousand passages with the number of passages read.
        batch: number of passages per commit.

    Raises:
        Fault: there are no passages, two have the same id, they differ from those of the build that is resumed, or
            another build is running.
    """
    _check_target(folder)
    remaining = iter(passages)
    if (first := next(remaining, None)) is None:  # before anything is written
        raise Fault("data", f"{source} has no passages: name another corpus")
    unfinished = unfinished_folder(folder)
    with closing(IndexBuilder(unfinished, index_command(source, folder), batch)) as build:
        for number, passage in enumerate(chain([first], remaining), 1):
            build.add(passage)
            if number % PROGRESS_PASSAGES == 0:
                progress(number)
        manifest = build.finish(source)
    write_manifest(unfinished, manifest)
    _publish(unfinished, folder.resolve())
    return manifest


def _check_target(folder: Path) -> None:
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise Fault("data", f"{folder} exists and is not an index: name another with --out")


def _publish(unfinished: Path, folder: Path) -> None:
    replaced = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if folder.exists():
        folder.rename(replaced)
    unfinished.rename(folder)
    handle = os.open(folder.parent, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    shutil.rmtree(replaced, ignore_errors=True)


# BM25 over a corpus on disk. The files are memory-mapped: opening reads little, and processes share memory.

MAX_TIES = 1_000
"""Maximum number of passages with equal score that are put in corpus order. Further ones keep tantivy's order."""


class IndexedCorpus:
    """Retriever by BM25 over title and text of an index on disk (tantivy: Lucene's idf, k1 1.2, b 0.75).

    Any number of threads may search it.
    """

    def __init__(self, index: Any, manifest: Manifest, *, boost_titles: bool) -> None:
        self.name = "bm25+titles" if boost_titles else "bm25"
        self.manifest = manifest
        self._boost = boost_titles
        self._schema, self._searcher = index.schema, index.searcher()
        self._library = import_tantivy()

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return at most `k` passages that share a term with the query or whose title it names, best first."""
        query_terms = terms(query)
        if not query_terms or k < 1:
            return []
        clauses = build_clauses(self._schema, BODY, query_terms)
        ranked = self._best(clauses, k)
        return rank_titles_first(self._named(query, clauses), ranked, k) if self._boost else ranked

    def passage(self, id: str) -> Passage:
        """Return the passage with an id. Raises UnknownName if the corpus has none."""
        for _, address in self._searcher.search(
            self._boolean(build_clauses(self._schema, ID, [id])), 1, count=False
        ).hits:
            return passage_of(self._searcher.doc(address))
        raise UnknownName(f"no passage {id!r} in the corpus {self.manifest.source}; search(query, k) finds ids")

    def _named(self, query: str, clauses: Sequence[Any]) -> list[PassageHit]:
        keys = find_title_keys(query, lambda key: self._searcher.doc_freq(TITLE_KEY, key) > 0)
        if not keys:
            return []
        with_title = self._library.Query.const_score_query(
            self._boolean(build_clauses(self._schema, TITLE_KEY, keys)), 0.0
        )
        return self._best([(self._library.Occur.Must, with_title), *clauses], MAX_TITLE_HITS)

    def _best(self, clauses: Sequence[Any], k: int) -> list[PassageHit]:
        best = self._search_ordered(self._boolean(clauses), k)
        return [PassageHit(passage_of(self._searcher.doc(address)), score) for score, address in best]

    def _search_ordered(self, query: Any, k: int) -> list[tuple[float, Any]]:
        """Return the scores and tantivy addresses of the `k` best documents, equal scores in corpus order.

        If the last score is shared with further documents, these are fetched too before sorting.
        """
        hits = self._searcher.search(query, k + 1, count=False).hits
        if len(hits) > k and hits[k][0] == hits[k - 1][0]:
            hits = self._searcher.search(query, k + MAX_TIES, count=False).hits
        positions = self._searcher.fast_field_values(PLACE, [address for _, address in hits])
        ordered = sorted(zip(hits, positions, strict=True), key=lambda hit: (-hit[0][0], hit[1]))
        return [hit for hit, _ in ordered[:k]]

    def _boolean(self, clauses: Sequence[Any]) -> Any:
        return self._library.Query.boolean_query(list(clauses))


def open_corpus(folder: str | Path, *, boost_titles: bool = True) -> IndexedCorpus:
    """Open the index that `certigraph index` wrote to a folder, as a retriever.

    Args:
        folder: folder of the index.
        boost_titles: whether passages whose title a query names come first.

    Raises:
        Fault: the folder has no complete index of this version, or tantivy is missing; the message has the command.
    """
    folder = Path(folder)
    manifest, module = read_manifest(folder), import_tantivy()
    rebuild = index_command(manifest.source, folder)
    try:
        if not module.Index.is_compatible(str(folder)):
            raise Fault("data", f"{folder} was written by {manifest.engine}, here is {module.__version__}: {rebuild}")
        index = module.Index.open(str(folder))
    except (OSError, ValueError) as error:
        raise Fault("data", f"the index {folder} is damaged ({error}): {rebuild}") from error
    index.config_reader("manual")  # the default starts a thread that watches for commits
    return IndexedCorpus(index, manifest, boost_titles=boost_titles)
