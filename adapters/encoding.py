"""Sentence vectors of one model, kept by text: batched, computed once, the same on every machine."""

import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from certigraph.state.endings import Fault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
else:
    Vectors = "NDArray[np.float32]"

WIDTH = 384
"""Numbers in a vector of all-MiniLM-L6-v2."""

MOST_VECTORS = 65_536
"""Vectors kept, by text: the texts of a whole benchmark. 100 MB at 384 numbers each."""


class Encoder(Protocol):
    """Texts to vectors whose dot product is their cosine similarity."""

    name: str

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Float32 vectors of length one, a row each (of 384 numbers, by default). May be called from any thread."""
        ...

    def encode_once(self, texts: Sequence[str]) -> Vectors:
        """As `encode`, for texts of a corpus: they come once, so nothing is looked up and nothing kept."""
        ...


class SentenceEncoder:
    """A sentence-transformers model on the CPU, so that machines agree. Calls queue for the one model.

    Args:
        folder: the model's.
        name: what it is called.
        remedy: the command that brings it anew.
    """

    def __init__(self, folder: Path, name: str, remedy: str) -> None:
        self.folder, self.name, self.remedy = folder, name, remedy
        self._model: Any = None
        self._vectors: dict[str, Any] = {}  # the least recently used stands first
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Float32 vectors of length one, a row each, from the cache where the text is known.

        Raises:
            Fault: the library or the weights are there and cannot be loaded.
        """
        with self._lock:
            found = self._known(texts)
            found |= self._computed([text for text in dict.fromkeys(texts) if text not in found])
            self._keep(found)
        vectors: Vectors = _rows([found[text] for text in texts])
        return vectors

    def encode_once(self, texts: Sequence[str]) -> Vectors:
        """As `encode`, and raises as it does; the cache is neither asked nor filled."""
        with self._lock:
            vectors: Vectors = _rows(self._inferred(texts))
        return vectors

    def _known(self, texts: Sequence[str]) -> dict[str, Any]:
        return {text: vector for text in texts if (vector := self._vectors.get(text)) is not None}

    def _computed(self, new: Sequence[str]) -> dict[str, Any]:
        # Copies, because a row that is kept keeps the whole batch.
        return {text: vector.copy() for text, vector in zip(new, self._inferred(new), strict=True)}

    def _inferred(self, texts: Sequence[str]) -> Any:
        if not texts:
            return ()
        if self._model is None:
            self._model = _loaded(self.folder, self.name, self.remedy)
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    def _keep(self, used: dict[str, Any]) -> None:
        for text, vector in used.items():
            self._vectors.pop(text, None)
            self._vectors[text] = vector
        while len(self._vectors) > MOST_VECTORS:
            del self._vectors[next(iter(self._vectors))]


def _rows(vectors: Any) -> Any:
    numpy = importlib.import_module("numpy")
    if not len(vectors):
        return numpy.empty((0, WIDTH), dtype=numpy.float32)
    return numpy.asarray(vectors, dtype=numpy.float32)


def _loaded(folder: Path, name: str, remedy: str) -> Any:
    try:
        library = importlib.import_module("sentence_transformers")
        bars = importlib.import_module("transformers.utils.logging")
        shown = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()
        try:
            return library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        finally:
            if shown:
                bars.enable_progress_bar()
    except Exception as error:
        raise Fault("model", f"cannot load {name} from {folder} ({error!r}); run {remedy}") from error
