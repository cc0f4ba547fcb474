"""Readers of corpora: passages from JSON lines, question files and Wikipedia dumps."""

import bz2
import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from certigraph.adapters.files import JsonRow, decode_json, read_list, skip_byte_order_mark
from certigraph.adapters.json_lines import read_bounded_lines
from certigraph.state.endings import Fault
from certigraph.state.search import Passage

# Conversion of a JSON row, in any supported layout, to passages.

ROW_LAYOUTS = (
    '{"id": "1", "title": "...", "text": "..."}, the text also as "contents", "paragraph_text" or a list of sentences, '
    "or a question with its paragraphs"
)
"""The supported layouts of a row, for error messages."""


def passage_of_text(title: str, text: str) -> Passage:
    """Create a passage from a title and a text. Its id is the first sixteen hex digits of a sha256 of both."""
    digest = hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()
    return Passage(id=digest[:16], title=title, text=text)


def question_paragraphs(row: dict[str, Any]) -> list[Passage]:
    """Return the paragraphs of a question in the layout of HotpotQA or MuSiQue; none if the row is not a question.

    Raises:
        KeyError, TypeError, ValueError: a paragraph is malformed.
    """
    if "context" in row:
        return [passage_of_text(title, "".join(sentences)) for title, sentences in row["context"]]
    return [passage_of_text(item["title"], item["paragraph_text"]) for item in row.get("paragraphs", ())]


def passage_of_row(row: dict[str, Any]) -> Passage:
    """Convert a row to a passage. If the row has no id, the passage gets one from its content (`passage_of_text`).

    Raises:
        KeyError, TypeError, ValueError: the text is missing, id or text are not strings, or contain an unpaired
            surrogate.
    """
    name = next((name for name in ("text", "contents", "paragraph_text") if name in row), "text")
    text = row[name] if isinstance(row[name], str) else "".join(row[name])
    passage = passage_of_text(row.get("title") or "", text)
    if "id" in row:
        id = str(row["id"]) if isinstance(row["id"], int) else row["id"]
        passage = Passage(id=id, title=passage.title, text=text)
    f"{passage.id}{passage.title}{passage.text}".encode()  # JSON may contain "\ud800", which cannot be written as UTF-8
    return passage


# Reading of complete corpora: JSON lines, question files, the HotpotQA dump of Wikipedia's abstracts.

OPENERS: dict[str, Any] = {".jsonl": open, ".json": open, ".gz": gzip.open, ".bz2": bz2.open}
"""Functions that open a file, by the suffix of the file's name."""

_CORPUS_FORMS = "a .jsonl file, plain, .gz or .bz2; a .json file with a list; a folder or a .tar.bz2 of such files"


def read_passages(corpus: str | Path) -> Iterator[Passage]:
    """Read the passages of a corpus on disk lazily, file by file in the order of names.

    Rows are `{"id", "title", "text"}` (id and title may be missing), or questions of HotpotQA or MuSiQue in their
    official layouts. A paragraph that occurs in several questions is returned once.

    Raises:
        Fault: the corpus is missing or cannot be read, or a row is malformed; the message names file and line.
    """
    seen: set[str] = set()
    for location, row in _read_rows(Path(corpus)):
        for passage, id_is_derived in _passages(location, row):
            if not id_is_derived:
                yield passage
            elif passage.id not in seen:
                seen.add(passage.id)
                yield passage


def _passages(location: str, row: Any) -> list[tuple[Passage, bool]]:
    try:
        paragraphs = question_paragraphs(row)
        return [(passage, True) for passage in paragraphs] if paragraphs else [(passage_of_row(row), "id" not in row)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Fault("data", f"{location}: not a row of a corpus ({error!r}); each is {ROW_LAYOUTS}") from error


def _read_rows(corpus: Path) -> Iterator[JsonRow]:
    try:
        for name, file in _open_files(corpus):
            yield from _rows_of_file(name, file)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise Fault("data", f"{corpus} cannot be read ({error!r}): name {_CORPUS_FORMS}") from error


def _open_files(corpus: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if corpus.name.endswith((".tar.bz2", ".tar.gz", ".tar")):
        yield from _open_archive(corpus)
        return
    paths = [p for p in sorted(corpus.rglob("*")) if p.suffix in OPENERS] if corpus.is_dir() else [corpus]
    if not paths or not paths[0].is_file() or paths[0].suffix not in OPENERS:
        raise Fault("data", f"no corpus at {corpus}: name {_CORPUS_FORMS}")
    for path in paths:
        with OPENERS[path.suffix](path, "rb") as file:
            yield str(path), skip_byte_order_mark(file)


def _open_archive(corpus: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(corpus, "r|*") as archive:  # a stream, because seeking in bz2 reads from the start again
        for member in archive:
            file, suffix = archive.extractfile(member), Path(member.name).suffix
            if file and suffix in OPENERS:
                unpacked = file if suffix.startswith(".json") else OPENERS[suffix](file, "rb")
                yield f"{corpus}:{member.name}", skip_byte_order_mark(unpacked)


def _rows_of_file(name: str, file: IO[bytes]) -> Iterator[JsonRow]:
    layout = f"each row is {ROW_LAYOUTS}"
    if ".json" in Path(name).suffixes:
        yield from read_list(file, name, layout)
        return
    for number, line in enumerate(read_bounded_lines(file, name), 1):
        if line.strip():
            location = f"{name}:{number}"
            value = decode_json(line, location, layout)
            if isinstance(value, list):
                yield from (
                    JsonRow(f"{location}: row {inner_number}", row) for inner_number, row in enumerate(value, 1)
                )
            else:
                yield JsonRow(location, value)
