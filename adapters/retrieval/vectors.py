"""The vectors of a corpus on disk: computed once, in parts that survive a kill, then read through a memory map."""

import hashlib
import importlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from certigraph.adapters.caching import whole_file
from certigraph.adapters.embeddings import WIDTH, Encoder
from certigraph.state.endings import Fault

if TYPE_CHECKING:
    from certigraph.adapters.embeddings import Vectors

PART = 512
"""Texts of a part: half a minute of one core."""

SPOILT = (EOFError, ValueError, TypeError, ArithmeticError, MemoryError, SyntaxError, TokenError)
"""What numpy raises for a spoilt file: of a vast or negative shape, or with a header that it takes for Python."""

Told = Callable[[int, int], None]
"""Called with how many of how many texts have their vectors."""


def stored_vectors(texts: Sequence[str], encoder: Encoder, folder: Path, told: Told | None = None) -> "Vectors":
    """The vectors of texts, float32, shape (len(texts), 384), memory-mapped from a file in `folder`.

    The file is named after the encoder and a sha256 of the texts in their order, so another corpus or model has a
    file of its own. It appears complete or not at all; a computation that was cut off goes on after its last part.

    Raises:
        Fault: the file has another shape than the texts; or as the encoder's.
    """
    path = folder / f"{encoder.name}-{_digest(texts)}.npy"
    if not path.exists():
        parts = path.with_suffix(".parts")
        _join(texts, encoder, parts, path, told or _silent)
        shutil.rmtree(parts, ignore_errors=True)
    return _opened(path, len(texts))


def _join(texts: Sequence[str], encoder: Encoder, parts: Path, path: Path, told: Told) -> None:
    formats = importlib.import_module("numpy.lib.format")
    with whole_file(path) as unfinished:
        rows = formats.open_memmap(unfinished, mode="w+", dtype="float32", shape=(len(texts), WIDTH))
        for start in range(0, len(texts), PART):
            some = texts[start : start + PART]
            rows[start : start + PART] = _part(some, encoder, parts / f"{start:09}.npy")
            told(start + len(some), len(texts))
        rows.flush()


def _part(texts: Sequence[str], encoder: Encoder, path: Path) -> Any:
    numpy = importlib.import_module("numpy")
    try:
        return numpy.load(path, allow_pickle=False)
    except (FileNotFoundError, *SPOILT):  # not there, or spoilt; another process may have joined them
        vectors = encoder.encode_once(texts)
    with whole_file(path) as unfinished, unfinished.open("wb") as file:
        numpy.save(file, vectors)
    return vectors


def _opened(path: Path, count: int) -> "Vectors":
    numpy = importlib.import_module("numpy")
    try:
        vectors: Vectors = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, *SPOILT) as error:
        raise Fault("data", f"cannot read the vectors in {path} ({error}): delete the file") from error
    if vectors.shape != (count, WIDTH):
        raise Fault("data", f"{path} has vectors of shape {vectors.shape}, not {(count, WIDTH)}: delete the file")
    return vectors


def _digest(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def _silent(done: int, total: int) -> None:
    pass
