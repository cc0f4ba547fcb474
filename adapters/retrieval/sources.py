"""Passages of corpora in the layouts that people have."""

import bz2
import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from certigraph.adapters.files import Row, parsed, read_list
from certigraph.state.records import Fault, read_bounded_lines
from certigraph.state.search import Passage

# One JSON row of a corpus, in any of the layouts that are read, as passages.

LAYOUTS = (
    '{"id": "1", "title": "...", "text": "..."}, the text also as "contents", "paragraph_text" or a list of sentences, '
    "or a question of HotpotQA or MuSiQue with its paragraphs"
)


def paragraph(title: str, text: str) -> Passage:
    """A paragraph without an id of its own: it gets sixteen hex digits of what it says, the same in every file."""
    digest = hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()
    return Passage(id=digest[:16], title=title, text=text)


def question_paragraphs(row: dict[str, Any]) -> list[Passage]:
    """The paragraphs of a question, in the official layout of HotpotQA or MuSiQue; none where the row is no question.

    Raises:
        KeyError, TypeError, ValueError: a paragraph is malformed.
    """
    if "context" in row:
        return [paragraph(title, "".join(sentences)) for title, sentences in row["context"]]
    return [paragraph(one["title"], one["paragraph_text"]) for one in row.get("paragraphs", ())]


def row_passage(row: dict[str, Any]) -> Passage:
    """The passage that a row is; without an id of its own it gets one as `paragraph` gives it.

    Raises:
        KeyError, TypeError, ValueError: it has no text, id and text are no strings, or half a surrogate is in them.
    """
    name = next((name for name in ("text", "contents", "paragraph_text") if name in row), "text")
    text = row[name] if isinstance(row[name], str) else "".join(row[name])
    passage = paragraph(row.get("title") or "", text)
    if "id" in row:
        id = str(row["id"]) if isinstance(row["id"], int) else row["id"]
        passage = Passage(id=id, title=passage.title, text=text)
    f"{passage.id}{passage.title}{passage.text}".encode()  # JSON may hold "\ud800", which no file of ours can
    return passage


# Passages of the corpora that people have: JSON lines, question files, the HotpotQA dump of Wikipedia's abstracts.

OPENERS: dict[str, Any] = {".jsonl": open, ".json": open, ".gz": gzip.open, ".bz2": bz2.open}
"""By the end of a file's name."""

_KINDS = "a .jsonl file, plain, .gz or .bz2; a .json file with a list; a folder or a .tar.bz2 of such files"


def read_passages(corpus: str | Path) -> Iterator[Passage]:
    """The passages of a corpus on disk, file by file in the order of names, read as they are asked for.

    Rows are `{"id", "title", "text"}` (id and title may be missing), or questions of HotpotQA or MuSiQue in their
    official layouts, whose paragraphs are taken once each, however many questions have them.

    Raises:
        Fault: there is no such corpus, it cannot be read, or a row is malformed; with its file and line.
    """
    seen: set[str] = set()
    for place, row in _rows(Path(corpus)):
        for passage, derived in _passages(place, row):
            if not derived:
                yield passage
            elif passage.id not in seen:
                seen.add(passage.id)
                yield passage


def _passages(place: str, row: Any) -> list[tuple[Passage, bool]]:
    try:
        paragraphs = question_paragraphs(row)
        return [(passage, True) for passage in paragraphs] if paragraphs else [(row_passage(row), "id" not in row)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Fault("data", f"{place}: not a row of a corpus ({error!r}); each is {LAYOUTS}") from error


def _rows(corpus: Path) -> Iterator[Row]:
    try:
        for name, file in _files(corpus):
            yield from _rows_of(name, file)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise Fault("data", f"{corpus} cannot be read ({error!r}): name {_KINDS}") from error


def _files(corpus: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if corpus.name.endswith((".tar.bz2", ".tar.gz", ".tar")):
        yield from _archived(corpus)
        return
    paths = [p for p in sorted(corpus.rglob("*")) if p.suffix in OPENERS] if corpus.is_dir() else [corpus]
    if not paths or not paths[0].is_file() or paths[0].suffix not in OPENERS:
        raise Fault("data", f"no corpus at {corpus}: name {_KINDS}")
    for path in paths:
        with OPENERS[path.suffix](path, "rb") as file:
            yield str(path), file


def _archived(corpus: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(corpus, "r|*") as archive:  # a stream, because seeking in bz2 reads from the start again
        for member in archive:
            file, suffix = archive.extractfile(member), Path(member.name).suffix
            if file and suffix in OPENERS:
                plain = file if suffix.startswith(".json") else OPENERS[suffix](file, "rb")
                yield f"{corpus}:{member.name}", plain


def _rows_of(name: str, file: IO[bytes]) -> Iterator[Row]:
    layout = f"each row is {LAYOUTS}"
    if ".json" in Path(name).suffixes:
        yield from read_list(file, name, layout)
        return
    for number, line in enumerate(read_bounded_lines(file, name), 1):
        if line.strip():
            place = f"{name}:{number}"
            value = parsed(line, place, layout)
            if isinstance(value, list):
                yield from (Row(f"{place}: row {inner}", row) for inner, row in enumerate(value, 1))
            else:
                yield Row(place, value)
