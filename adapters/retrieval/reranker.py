"""Reranking: a cross-encoder, which reads a query and a passage together, reorders the first results of a search."""

import hashlib
import importlib
import math
import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from certigraph.adapters.encoders import WEIGHT_FILES, find_downloaded, load_model
from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.retrieval.bm25 import PassageHit, Retriever
from certigraph.adapters.retrieval.dense import encoded_text
from certigraph.state.endings import Fault
from certigraph.state.search import Passage

# Cross-encoders of sentence-transformers on this machine; nothing is downloaded.
#
# Looking for one is cheap. torch and the weights are loaded by the first `score` of the process.

DEFAULT_RERANKER = "ms-marco-MiniLM-L6-v2"
"""Cross-encoder with 22 million parameters, trained on MS MARCO's questions and passages (Apache-2.0)."""
DEFAULT_OWNER = "cross-encoder"
"""Owner of the Hugging Face repository of a model whose name has no slash."""

BATCH_PAIRS = 32
"""Number of pairs that the model reads at once."""

SCORE_DECIMALS = 4
"""Decimals of a score. Those below are noise: they depend on which pairs share a batch."""


class Reranker(Protocol):
    """Model that says how well texts answer a query."""

    name: str

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, in the model's own units: higher is better. May be called from any thread."""
        ...


class CrossEncoder:
    """Cross-encoder of sentence-transformers that runs on the CPU, so that results agree on all machines.

    Scores are the model's logits, before any sigmoid, which would make all good passages equal. The model truncates a
    query with its text to its maximum length, 512 word pieces for the default one. One call runs at a time.

    Args:
        folder: folder of the model.
        name: name of the model.
        remedy: command that installs the model again.
    """

    def __init__(self, folder: Path, name: str, remedy: str) -> None:
        self.folder, self.name, self.remedy = folder, name, remedy
        self._model: Any = None
        self._lock = threading.Lock()

    @cached_property
    def label(self) -> str:
        """Name of the model with the first digits of the sha256 of its weights, for headers and reports."""
        file = next(self.folder / name for name in WEIGHT_FILES if (self.folder / name).is_file())
        with file.open("rb") as weights:
            return f"{self.name} (weights sha256 {hashlib.file_digest(weights, 'sha256').hexdigest()[:12]})"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, rounded to SCORE_DECIMALS. Equal texts have equal scores.

        Raises:
            Fault: ("model") the library or the weights cannot be loaded, or the model does not give one finite number
                for each pair.
        """
        # A text that comes twice could differ in the last digits, because of the other texts in its batch.
        distinct = list(dict.fromkeys(texts))
        with self._lock:
            logits = self._infer([(query, text) for text in distinct])
        if logits.shape not in {(len(distinct),), (len(distinct), 1)} or not all(map(math.isfinite, logits.flat)):
            problem = f"gives {logits.shape} numbers for {len(distinct)} pairs, not one finite score for each"
            raise Fault("model", f"the reranker {self.name} {problem}: name another, as in rerank={DEFAULT_RERANKER}")
        scores = dict(zip(distinct, (round(float(logit), SCORE_DECIMALS) for logit in logits.flat), strict=True))
        return [scores[text] for text in texts]

    def _infer(self, pairs: Sequence[tuple[str, str]]) -> Any:
        if not pairs:
            return importlib.import_module("numpy").empty(0)
        if self._model is None:
            self._model = load_model(self.folder, self.name, self.remedy, "CrossEncoder")
        return self._model.predict(
            list(pairs), batch_size=BATCH_PAIRS, activation_fn=_keep_logits, show_progress_bar=False
        )


def _keep_logits(logits: Any) -> Any:
    return logits


def find_reranker(name: str = DEFAULT_RERANKER) -> CrossEncoder | None:
    """Return the process's cross-encoder of that name; None if sentence-transformers or the weights are not installed.

    Args:
        name: a cross-encoder in the Hugging Face cache, with the name of its owner (`BAAI/bge-reranker-base`) unless
            that is cross-encoder; or the model's folder.

    Raises:
        Fault: ("model") the model of that name is not a cross-encoder.
    """
    return _cached_reranker(name)


def load_reranker(name: str = DEFAULT_RERANKER) -> CrossEncoder:
    """Return the process's cross-encoder of that name.

    Raises:
        Fault: ("model") it is not installed, or is not a cross-encoder; the message has the command that helps.
    """
    installed = find_reranker(name)
    if installed is None:
        raise Fault("model", f"the reranker {name!r} is not installed: {reranker_advice(name)}")
    return installed


def reranker_advice(name: str = DEFAULT_RERANKER) -> str:
    """Return the command that installs a cross-encoder and its weights."""
    command = f"pip install 'certigraph[embeddings]' && hf download {_repository_of(name)}"
    return f"{command}, or name the folder of a cross-encoder: rerank=FOLDER"


@lru_cache(maxsize=8)
def _cached_reranker(name: str) -> CrossEncoder | None:
    folder = _find_weights(name) if find_spec("sentence_transformers") else None
    if folder is None:
        return None
    _check_architecture(folder, name)
    return CrossEncoder(folder, Path(name).name, reranker_advice(name))


def _repository_of(name: str) -> str:
    return name if "/" in name else f"{DEFAULT_OWNER}/{name}"


def _find_weights(name: str) -> Path | None:
    folder = Path(name)
    if name and (folder / "config.json").is_file() and any((folder / file).is_file() for file in WEIGHT_FILES):
        return folder
    return find_downloaded(_repository_of(name), "config.json")


def _check_architecture(folder: Path, name: str) -> None:
    """Raise Fault unless the model in `folder` gives scores: an encoder of sentences would get a random last layer."""
    found: list[object] = []
    for file, key in (("config.json", "architectures"), ("config_sentence_transformers.json", "model_type")):
        try:
            value = parse_json(read_bytes(folder / file, MAX_SETTINGS_BYTES))[key]
        except (Fault, ValueError, LookupError, TypeError):
            continue
        found += value if isinstance(value, list) else [value]
    if not any(str(kind).endswith("ForSequenceClassification") or kind == "CrossEncoder" for kind in found):
        kinds = ", ".join(map(str, found)) or "unknown"
        message = f"the model {name!r} is not a cross-encoder, its architecture is {kinds}"
        raise Fault("model", f"{message}: name one for sequence classification, as in rerank={DEFAULT_RERANKER}")


# A retriever whose first results a reranker reorders.

DEFAULT_CANDIDATES = 50
"""Number of results that are reranked: 6 to 9 CPU seconds for a model of the default's size at 2.5 GHz."""


class Reranked:
    """Retriever that reorders the first results of another one, which may be lexical, dense or hybrid.

    The results after the first `candidates` keep their order. Scores of the first ones are the reranker's. Those of the
    others are the retriever's, lowered by one amount where needed, so that they are not above the first ones.
    """

    def __init__(self, retriever: Retriever, reranker: Reranker, *, candidates: int = DEFAULT_CANDIDATES) -> None:
        """Create a retriever that reranks.

        Args:
            retriever: finds the passages.
            reranker: scores the first ones.
            candidates: number of first results that are reranked, also where fewer are asked for.

        Raises:
            Fault: ("data") `candidates` is below 1.
        """
        if candidates < 1:
            raise Fault("data", f"candidates={candidates} is not a number of results to rerank: write 1 or more")
        self.name = f"{retriever.name} + {reranker.name}, first {candidates}"
        self._retriever, self._reranker, self._candidates = retriever, reranker, candidates

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return at most `k` passages, best first; equal scores keep the retriever's order.

        The result is empty if the retriever finds nothing.

        Raises:
            Fault: as the retriever and the reranker raise.
        """
        if k < 1:
            return []
        hits = self._retriever.search(query, max(k, self._candidates))
        return rerank_hits(self._reranker, query, hits, self._candidates)[:k]

    def passage(self, id: str) -> Passage:
        """Return the passage with an id. Raises UnknownName if the corpus has none."""
        return self._retriever.passage(id)


def rerank_hits(reranker: Reranker, query: str, hits: Sequence[PassageHit], candidates: int) -> list[PassageHit]:
    """Return the hits, the first `candidates` of them sorted by the reranker's scores, and the others unmoved."""
    first, rest = hits[:candidates], hits[candidates:]
    if not first:
        return []
    scores = reranker.score(query, [encoded_text(hit.passage) for hit in first])
    scored = [PassageHit(hit.passage, score) for hit, score in zip(first, scores, strict=True)]
    ranked = sorted(scored, key=lambda hit: -hit.score)  # stable: equal scores keep their order
    excess = max(0.0, rest[0].score - ranked[-1].score) if rest else 0.0
    return [*ranked, *(PassageHit(hit.passage, hit.score - excess) for hit in rest)]
