"""Dense retrieval with sentence vectors, and its combination with BM25."""

import hashlib
import importlib
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

from certigraph.adapters.encoders import VECTOR_WIDTH, Encoder, Vectors, find_encoder
from certigraph.adapters.files import replace_file
from certigraph.adapters.retrieval.bm25 import PassageHit, Retriever, positions_of, terms
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.search import Passage

# Vectors of a corpus on disk: computed once, in parts that survive a kill, then memory-mapped.

PART_TEXTS = 512
"""Number of texts that are encoded and saved together; they take about half a minute on one core."""

CORRUPTED_FILE_ERRORS = (EOFError, ValueError, TypeError, ArithmeticError, MemoryError, SyntaxError, TokenError)
"""Exceptions of numpy for a corrupted file, for example one with a negative shape or an invalid header."""

ProgressCallback = Callable[[int, int], None]
"""Function (number of texts that have vectors, number of all texts) that reports progress."""


def load_vectors(
    texts: Sequence[str], encoder: Encoder, folder: Path, progress: ProgressCallback | None = None
) -> Vectors:
    """Return the sentence vectors of texts, float32, shape (len(texts), 384), memory-mapped from a file in `folder`.

    If the file does not exist, the vectors are computed. The file is named after the encoder and a sha256 of the texts
    in order, so that each corpus and model has its own file. It is written atomically; an interrupted computation is
    resumed after its last saved part of PART_TEXTS texts.

    Args:
        texts: the texts.
        encoder: the sentence encoder.
        folder: folder of the files of vectors.
        progress: called after each part.

    Raises:
        Fault: the file cannot be read, or has vectors for another number of texts; or as the encoder raises.
    """
    path = folder / f"{encoder.name}-{_digest_of(texts)}.npy"
    if not path.exists():
        parts = path.with_suffix(".parts")
        _compute_vectors(texts, encoder, parts, path, progress or _ignore_progress)
        shutil.rmtree(parts, ignore_errors=True)
    return _open_vectors(path, len(texts))


def _compute_vectors(
    texts: Sequence[str], encoder: Encoder, parts: Path, path: Path, progress: ProgressCallback
) -> None:
    formats = importlib.import_module("numpy.lib.format")
    with replace_file(path) as unfinished:
        rows = formats.open_memmap(unfinished, mode="w+", dtype="float32", shape=(len(texts), VECTOR_WIDTH))
        for start in range(0, len(texts), PART_TEXTS):
            batch = texts[start : start + PART_TEXTS]
            rows[start : start + PART_TEXTS] = _load_part(batch, encoder, parts / f"{start:09}.npy")
            progress(start + len(batch), len(texts))
        rows.flush()


def _load_part(texts: Sequence[str], encoder: Encoder, path: Path) -> Any:
    numpy = importlib.import_module("numpy")
    try:
        return numpy.load(path, allow_pickle=False)
    except (
        FileNotFoundError,
        *CORRUPTED_FILE_ERRORS,
    ):  # missing or corrupted; another process may have joined and deleted the parts
        vectors = encoder.encode_once(texts)
    with replace_file(path) as unfinished, unfinished.open("wb") as file:
        numpy.save(file, vectors)
    return vectors


def _open_vectors(path: Path, count: int) -> Vectors:
    numpy = importlib.import_module("numpy")
    try:
        vectors: Vectors = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, *CORRUPTED_FILE_ERRORS) as error:
        raise Fault("data", f"cannot read the vectors in {path} ({error}): delete the file") from error
    if vectors.shape != (count, VECTOR_WIDTH):
        raise Fault(
            "data", f"{path} has vectors of shape {vectors.shape}, not {(count, VECTOR_WIDTH)}: delete the file"
        )
    return vectors


def _digest_of(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def _ignore_progress(done: int, total: int) -> None:
    pass


# Exact search by cosine: fast enough for 84,000 passages.


class Dense:
    """Retriever by sentence vectors of the model all-MiniLM-L6-v2. Scores are cosine similarities, -1 to 1.

    A passage is encoded as its title, a full stop and its text, truncated after the model's 256 word pieces. Its vector
    is the mean over the word pieces, normalised to length one. The query is encoded unchanged.
    """

    name = "minilm"

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        folder: Path | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        """Encode the passages, about 15 per second and core.

        Args:
            passages: the corpus, in its order.
            encoder: `certigraph.adapters.encoders.find_encoder()`.
            folder: folder in which the vectors are stored, in files named after model and corpus. None keeps them in
                memory, in the encoder's cache, which suits the few paragraphs that come with a question.
            progress: called with the number of passages that have vectors and the number of all passages. It is called
                only if there is a folder.

        Raises:
            Fault: there are no passages, or two have the same id; or as the encoder raises.
        """
        self.passages = tuple(passages)
        self.positions = positions_of(self.passages)
        self._encoder = encoder
        texts = [encoded_text(passage) for passage in self.passages]
        self._vectors = load_vectors(texts, encoder, folder, progress) if folder else encoder.encode(texts)

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return at most `k` passages by descending cosine similarity, equal scores in corpus order.

        The result is empty for a query that consists of stopwords.
        """
        if not terms(query):
            return []
        numpy = importlib.import_module("numpy")
        cosines = self._vectors @ self._encoder.encode([query])[0]
        best = numpy.argsort(-cosines, kind="stable")[: max(k, 0)]
        return [PassageHit(self.passages[position], float(cosines[position])) for position in best]

    def passage(self, id: str) -> Passage:
        """Return the passage with an id. Raises UnknownName if the corpus has none."""
        if id not in self.positions:
            raise UnknownName(f"no passage {id!r} among the {len(self.passages):,} of this corpus")
        return self.passages[self.positions[id]]


def encoded_text(passage: Passage) -> str:
    """Return the text that stands for a passage when it is encoded: title, full stop and text."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


# BM25 and cosine in one score: alpha * BM25 + (1 - alpha) * cosine (CGDP: alpha 0.9 for IRCoT, 0.5 otherwise).

MIN_COMBINED_HITS = 100
"""Minimum number of hits of each retriever that are combined, as in IRCoT's retriever."""


class Hybrid:
    """Weighted combination of two retrievers over one corpus, as in CGDP. Scores are 0 to 1.

    The scores of each retriever are min-max normalised over its first 100 hits (`k` hits if that is more): the best hit
    gets 1, the last 0, and all get 1 if they are equal. A passage that a retriever did not return gets 0 from it. A
    retriever with weight 0 is not called, so that alpha 1 is exactly the lexical order and alpha 0 exactly the dense
    one. CGDP does not specify how many hits are normalised.
    """

    def __init__(self, lexical: Retriever, dense: Dense, *, alpha: float) -> None:
        """Combine two retrievers of the same passages.

        Args:
            lexical: retriever by words, such as BM25.
            dense: retriever by sentence vectors.
            alpha: weight of the lexical retriever, 0 to 1; the dense one has weight 1 - alpha.

        Raises:
            Fault: alpha is not within 0 and 1.
        """
        self.name = f"hybrid {check_alpha(alpha):g}"
        self._lexical, self._dense, self._alpha = lexical, dense, alpha

    def search(self, query: str, k: int) -> list[PassageHit]:
        """Return at most `k` passages, best first, equal scores in corpus order; none for a query of stopwords."""
        retrievers: tuple[tuple[float, Retriever], ...] = ((self._alpha, self._lexical), (1 - self._alpha, self._dense))
        results = [
            (weight, retriever.search(query, max(MIN_COMBINED_HITS, k))) for weight, retriever in retrievers if weight
        ]
        if len(results) == 1:
            return [PassageHit(passage, score) for passage, score in normalise_scores(results[0][1]).values()][
                : max(k, 0)
            ]
        combined = _add_scores([(weight, normalise_scores(hits)) for weight, hits in results])
        return sorted(combined, key=lambda hit: (-hit.score, self._dense.positions[hit.passage.id]))[: max(k, 0)]

    def passage(self, id: str) -> Passage:
        """Return the passage with an id. Raises UnknownName if the corpus has none."""
        return self._dense.passage(id)


def combine_retrievers(
    lexical: Retriever, passages: Sequence[Passage], alpha: float, *, folder: Path | None = None
) -> Retriever:
    """Create a retriever that combines `lexical` with sentence vectors at a given weight.

    It is `lexical` alone if `alpha` is 1 or no encoder is installed, `Dense` alone if `alpha` is 0, else `Hybrid`; its
    attribute `name` tells which. Computing vectors may take hours; progress is written to the logger "certigraph".

    Args:
        lexical: a retriever of the same passages.
        passages: the corpus.
        alpha: weight of `lexical`, 0 to 1.
        folder: folder in which the vectors are stored (see `Dense`).

    Raises:
        Fault: `alpha` is not within 0 and 1, or as Dense raises.
    """
    model = find_encoder() if check_alpha(alpha) < 1 else None
    if model is None:
        return lexical
    dense = Dense(passages, model, folder=folder, progress=_log_progress)
    return Hybrid(lexical, dense, alpha=alpha) if alpha else dense


def check_alpha(alpha: float) -> float:
    """Return `alpha`, the weight of the lexical retriever, if it is within 0 and 1; else raise Fault."""
    if not 0 <= alpha <= 1:
        raise Fault("data", f"alpha={alpha:g} is not a weight of BM25 in a combined score: use 0 (dense) to 1 (BM25)")
    return alpha


def normalise_scores(hits: Sequence[PassageHit]) -> dict[str, PassageHit]:
    """Return the hits by passage id, in order, their scores min-max normalised to [0, 1]; all 1 if they are equal."""
    low, high = (min(h.score for h in hits), max(h.score for h in hits)) if hits else (0.0, 0.0)
    return {h.passage.id: PassageHit(h.passage, (h.score - low) / (high - low) if high > low else 1.0) for h in hits}


def _log_progress(done: int, total: int) -> None:
    if done < total:
        alternative = "without them: --swap decide=pursue:alpha=1, in tdp execute=, in ircot decide=reason:alpha=1"
        message = f"vectors, computed once and stored: {done:,} of {total:,} passages ({alternative})"
        logging.getLogger("certigraph").warning(message)


def _add_scores(retrievers: Sequence[tuple[float, Mapping[str, PassageHit]]]) -> list[PassageHit]:
    passages = {id: hit.passage for _, hits in retrievers for id, hit in hits.items()}
    return [
        PassageHit(passage, sum(weight * hits[id].score for weight, hits in retrievers if id in hits))
        for id, passage in passages.items()
    ]
