"""Five measures of an answer beside its reference (CGDP appendix F.2), each 0 to 1 but for the cosine's -1 to 1.

Exact match and token F1 normalise as HotpotQA's scorer does. ROUGE-1 is rouge-score's F-measure with Porter stemming.
METEOR is NLTK's with its usual weights (alpha 0.9, beta 3, gamma 0.5) over lower-cased words, matched as they are and
by Porter stem; its third stage, WordNet's synonyms, is left out, for NLTK downloads that corpus: the figure is at most
that of METEOR with synonyms.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from certigraph.adapters.embeddings import Encoder, encoder, how_to_install
from certigraph.adapters.metrics.libraries import measuring, stemmer
from certigraph.adapters.retrieval.analyzer import words
from certigraph.adapters.searching.scoring import exact_match, token_f1
from certigraph.state.endings import Fault

Measure = Callable[[str, str], float]
"""(answer, reference) -> how near they are."""


def rouge1(answer: str, reference: str) -> float:
    """F-measure of common unigrams, by rouge-score. Raises Fault where that is not installed."""
    return float(_rouge().score(reference, answer)["rouge1"].fmeasure)


def meteor(answer: str, reference: str) -> float:
    """METEOR without synonyms, by NLTK; see this module. Raises Fault where that is not installed."""
    score = measuring("nltk.translate.meteor_score").single_meteor_score
    return float(score(words(reference), words(answer), stemmer=stemmer(), wordnet=_NoSynonyms()))


MEASURES: Mapping[str, Measure] = {"em": exact_match, "f1": token_f1, "rouge1": rouge1, "meteor": meteor}
"""Those that need no vectors."""


def measured(answer: str, references: Sequence[str], names: Sequence[str] = tuple(MEASURES)) -> dict[str, float]:
    """The measures of an answer, each against the reference that it is best with; 0 without references.

    Raises:
        Fault: rouge-score or NLTK is not installed.
    """
    return {name: max((MEASURES[name](answer, r) for r in references), default=0.0) for name in names}


def similarities(answers: Sequence[str], references: Sequence[str], with_: Encoder | None = None) -> list[float] | None:
    """Cosines of the sentence vectors of answers and their references; None where no encoder is installed.

    Args:
        answers: n texts.
        references: their n references.
        with_: another encoder than the process's.
    """
    model = with_ or encoder()
    if model is None:
        return None
    pairs = zip(model.encode(answers), model.encode(references), strict=True)
    return [float(one @ other) for one, other in pairs]


def similarity(answer: str, references: Sequence[str]) -> dict[str, float]:
    """`similarity`: the cosine of an answer with the reference that it is nearest to; 0 without references.

    Raises:
        Fault: no encoder is installed.
    """
    cosines = similarities([answer] * len(references), references)
    if cosines is None:
        raise Fault("data", f"similarity needs sentence vectors: {how_to_install()}")
    return {"similarity": max(cosines, default=0.0)}


class _NoSynonyms:
    """WordNet's place, empty."""

    def synsets(self, word: str) -> list[Any]:
        return []


@lru_cache(maxsize=1)
def _rouge() -> Any:
    return measuring("rouge_score.rouge_scorer").RougeScorer(["rouge1"], use_stemmer=True)
