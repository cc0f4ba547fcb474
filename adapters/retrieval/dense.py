"""Passages by sentence vectors, and their mixture with BM25."""

import hashlib
import importlib
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from certigraph.adapters.files import whole_file
from certigraph.adapters.matching import WIDTH, Encoder, encoder
from certigraph.adapters.retrieval.bm25 import Hit, Retriever, places_of, terms
from certigraph.state.records import Fault, UnknownName
from certigraph.state.search import Passage

if TYPE_CHECKING:
    from certigraph.adapters.matching import Vectors


# The vectors of a corpus on disk: computed once, in parts that survive a kill, then read through a memory map.

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


# Passages by the cosine of their vectors with the query's: exact search, which 84,000 passages do not outgrow.


class Dense:
    """Scores are cosines, -1 to 1, of all-MiniLM-L6-v2.

    A passage is encoded as its title, a full stop and its text, cut after the model's 256 word pieces; the model's
    own pooling is kept: the mean over word pieces, then length one. The query is encoded as it stands.
    """

    name = "minilm"

    def __init__(
        self, passages: Sequence[Passage], encoder: Encoder, *, folder: Path | None = None, told: Told | None = None
    ) -> None:
        """Encode the passages, about 15 a second and core.

        Args:
            passages: the corpus, in its order.
            encoder: `certigraph.adapters.matching.encoder()`.
            folder: where vectors are kept, in files named after model and corpus. None: in memory, in the encoder's
                cache of texts, which suits the few paragraphs that come with a question.
            told: called with how many of how many passages have their vectors; only with a folder.

        Raises:
            Fault: there are no passages, or two with one id; or as the encoder's.
        """
        self.passages = tuple(passages)
        self.places = places_of(self.passages)
        self._encoder = encoder
        texts = [encoded(passage) for passage in self.passages]
        self._vectors = stored_vectors(texts, encoder, folder, told) if folder else encoder.encode(texts)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages by falling cosine, equal ones in the corpus's order; none for a query of stopwords."""
        if not terms(query):
            return []
        numpy = importlib.import_module("numpy")
        cosines = self._vectors @ self._encoder.encode([query])[0]
        best = numpy.argsort(-cosines, kind="stable")[: max(k, 0)]
        return [Hit(self.passages[place], float(cosines[place])) for place in best]

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the corpus has none."""
        if id not in self.places:
            raise UnknownName(f"no passage {id!r} among the {len(self.passages):,} of this corpus")
        return self.passages[self.places[id]]


def encoded(passage: Passage) -> str:
    """What the encoder reads of a passage."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


# BM25 and cosine as one score: alpha * BM25 + (1 - alpha) * cosine (CGDP: alpha 0.9 for IRCoT, 0.5 otherwise).

POOL = 100
"""Hits of each leg that are mixed, as in IRCoT's retriever; more only where more are asked for."""


class Hybrid:
    """Two retrievers over one corpus, mixed. Scores are 0 to 1.

    Each leg's scores are min-max normalised over the hits that it returned, at most 100: its best gets 1, its last 0,
    and all get 1 where they are equal. A passage that a leg did not return gets 0 from it. A leg of weight 0 is not
    asked, so alpha 1 is the lexical order and alpha 0 the dense one, exactly. The paper leaves the range open.
    """

    def __init__(self, lexical: Retriever, dense: Dense, *, alpha: float) -> None:
        """Mix two retrievers of the same passages; `alpha` is the weight of the lexical one.

        Raises:
            Fault: alpha is not within 0 and 1.
        """
        self.name = f"hybrid {checked(alpha):g}"
        self._lexical, self._dense, self._alpha = lexical, dense, alpha

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages, the best first, equal scores in the corpus's order; none for a query of stopwords."""
        legs: tuple[tuple[float, Retriever], ...] = ((self._alpha, self._lexical), (1 - self._alpha, self._dense))
        found = [(weight, leg.search(query, max(POOL, k))) for weight, leg in legs if weight]
        if len(found) == 1:
            return [Hit(passage, score) for passage, score in normalised(found[0][1]).values()][: max(k, 0)]
        mixed = _sum([(weight, normalised(hits)) for weight, hits in found])
        return sorted(mixed, key=lambda hit: (-hit.score, self._dense.places[hit.passage.id]))[: max(k, 0)]

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where the corpus has none."""
        return self._dense.passage(id)


def mixed(lexical: Retriever, passages: Sequence[Passage], alpha: float, *, folder: Path | None = None) -> Retriever:
    """The retriever of a weight: `lexical` alone at 1 and where no encoder is installed, dense alone at 0, else both.

    Its `name` tells which it became. `folder` keeps the vectors (see `Dense`); while they are made, which may take
    hours, the log `certigraph` counts them. Raises Fault as Hybrid and Dense do.
    """
    model = encoder() if checked(alpha) < 1 else None
    if model is None:
        return lexical
    dense = Dense(passages, model, folder=folder, told=_told)
    return Hybrid(lexical, dense, alpha=alpha) if alpha else dense


def checked(alpha: float) -> float:
    """A weight of the lexical leg. Raises Fault where it is not within 0 and 1."""
    if not 0 <= alpha <= 1:
        raise Fault("data", f"alpha={alpha:g} is no share of BM25 in a mixed score: give 0 (dense) to 1 (BM25)")
    return alpha


def normalised(hits: Sequence[Hit]) -> dict[str, Hit]:
    """Hits by id in their order, scores min-max normalised to 0..1; all 1 where they do not differ."""
    low, high = (min(h.score for h in hits), max(h.score for h in hits)) if hits else (0.0, 0.0)
    return {h.passage.id: Hit(h.passage, (h.score - low) / (high - low) if high > low else 1.0) for h in hits}


def _told(done: int, total: int) -> None:
    if done < total:
        instead = "without them: --swap decide=pursue:alpha=1, in tdp execute=, in ircot decide=reason:alpha=1"
        told = f"vectors, made once and kept: {done:,} of {total:,} passages ({instead})"
        logging.getLogger("certigraph").warning(told)


def _sum(legs: Sequence[tuple[float, Mapping[str, Hit]]]) -> list[Hit]:
    passages = {id: hit.passage for _, leg in legs for id, hit in leg.items()}
    return [
        Hit(passage, sum(weight * leg[id].score for weight, leg in legs if id in leg))
        for id, passage in passages.items()
    ]
