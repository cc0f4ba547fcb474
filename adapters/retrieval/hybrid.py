"""BM25 and cosine as one score: alpha * BM25 + (1 - alpha) * cosine (CGDP: alpha 0.9 for IRCoT, 0.5 otherwise)."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from certigraph.adapters.embeddings import encoder
from certigraph.adapters.retrieval.dense import Dense
from certigraph.adapters.retrieval.protocol import Hit, Retriever
from certigraph.state.endings import Fault
from certigraph.state.passages import Passage

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
