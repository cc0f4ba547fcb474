"""What a retriever finds for a question, asked once or hop by hop, and the share of the evidence in it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from certigraph.adapters.embeddings import Encoder
from certigraph.adapters.retrieval.dense import Dense
from certigraph.adapters.retrieval.hybrid import Hybrid
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.evaluation.recall.questions import Asked
from certigraph.state.passages import Passage

MOST = 10
BASE = "bm25"
ONCE, WOVEN, EACH = "question", "hops, k in all", "hops, k each"

Finding = Callable[[int], Collection[str]]
"""k -> the ids of the passages found."""

Scores = dict[tuple[str, str, str], dict[str, list[float]]]
"""(method, queries, measure) -> question -> its one score, 0 to 1."""

MEASURES: dict[str, Callable[[Finding, frozenset[str]], float]] = {
    "R@2": lambda found, gold: recall(found(2), gold),
    "R@5": lambda found, gold: recall(found(5), gold),
    "R@10": lambda found, gold: recall(found(10), gold),
    "all@10": lambda found, gold: float(gold <= set(found(10))),
}
"""Share of a question's supporting passages among k hits; whether all of them are among ten."""


def methods(passages: Sequence[Passage], encoder: Encoder | None, vectors: Path) -> dict[str, Retriever]:
    """What is compared: BM25 over title and text, with titles first, vectors, and BM25 mixed with vectors."""
    plain = Pool(passages, boost_titles=False)
    lexical: dict[str, Retriever] = {BASE: plain, "two-stage": Pool(passages)}
    if encoder is None:
        return lexical
    dense = Dense(passages, encoder, folder=vectors)
    mixed = {f"hybrid {alpha}": Hybrid(plain, dense, alpha=alpha) for alpha in (0.9, 0.5)}
    return {**lexical, "dense": dense, **mixed}


def scored(questions: Iterable[Asked], retrievers: dict[str, Retriever]) -> Scores:
    """Every measure of every method on every question."""
    scores: Scores = {}
    for asked in questions:
        for method, retriever in retrievers.items():
            for queries, found in findings(retriever, asked).items():
                for measure, of in MEASURES.items():
                    scores.setdefault((method, queries, measure), {})[asked.id] = [of(found, asked.gold)]
    return scores


def findings(retriever: Retriever, asked: Asked) -> dict[str, Finding]:
    """The hits of the question alone; those of its hops taken in turn, k in all; and k hits of each hop."""
    once = _ids(retriever, asked.text)
    hops = [_ids(retriever, query) for query in asked.hops]
    woven = list(dict.fromkeys(id for id in chain.from_iterable(zip_longest(*hops)) if id is not None))
    return {
        ONCE: lambda k: once[:k],
        WOVEN: lambda k: woven[:k],
        EACH: lambda k: [id for hop in hops for id in hop[:k]],
    }


def recall(found: Collection[str], gold: frozenset[str]) -> float:
    """The share of `gold` that was found."""
    return len(gold.intersection(found)) / len(gold)


def _ids(retriever: Retriever, query: str) -> list[str]:
    return [hit.passage.id for hit in retriever.search(query, MOST)]
