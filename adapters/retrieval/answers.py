"""Scores of short answers: exact match, token F1, means over many answers, and text metrics (CGDP appendix F.2)."""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from statistics import fmean
from typing import Any, NamedTuple

from certigraph.adapters.benchmarks import standard_error
from certigraph.adapters.encoders import find_encoder, install_advice
from certigraph.adapters.extras import import_extra
from certigraph.adapters.retrieval.bm25 import words
from certigraph.state.endings import Fault

# Scores of short answers that the official scorers of HotpotQA and MuSiQue share (facts/qa_scoring.md).

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class Overlap(NamedTuple):
    """Precision, recall and their harmonic mean F1, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


NO_OVERLAP = Overlap(0.0, 0.0, 0.0)
"""Overlap of answers without a common token."""


def normalise_answer(text: str) -> str:
    """Normalise an answer: lower case, no ASCII punctuation, no articles (a, an, the), single spaces, in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """Return 1.0 if both texts are equal after normalisation, else 0.0."""
    return float(normalise_answer(answer) == normalise_answer(reference))


def token_f1(answer: str, reference: str) -> float:
    """Return F1 of the multisets of normalised tokens of both texts; 0 without a common token."""
    return token_overlap(answer, reference).f1


def token_overlap(answer: str, reference: str) -> Overlap:
    """Return precision, recall and F1 of the multisets of normalised tokens of both texts."""
    predicted, gold = Counter(normalise_answer(answer).split()), Counter(normalise_answer(reference).split())
    return overlap_of_counts((predicted & gold).total(), predicted.total(), gold.total())


def set_overlap(found: Set[object], wanted: Set[object]) -> Overlap:
    """Return precision, recall and F1 of the set `found` against the gold set `wanted`; 0 if a denominator is 0."""
    return overlap_of_counts(len(found & wanted), len(found), len(wanted))


def overlap_of_counts(common: int, found: int, wanted: int) -> Overlap:
    """Return precision, recall and F1 from the numbers of common, found and wanted elements."""
    return add_f1(common / found, common / wanted) if common else NO_OVERLAP


def add_f1(precision: float, recall: float) -> Overlap:
    """Return precision and recall with their harmonic mean, which is 0 if both are 0."""
    total = precision + recall
    return Overlap(precision, recall, 2 * precision * recall / total if total else 0.0)


# Metrics over many answers: means over all questions, where a missing answer counts 0.

EM, F1, EVIDENCE = "em", "f1", "evidence_found"
"""Names of scores: exact match, token F1, and the share of the gold paragraphs that were found."""
ANSWERED, FORCED = "answered", "forced"
"""Names of scores: whether a run submitted an answer, and whether something other than the agent decided to submit it.
"""

SCORES_WITH_ERROR = (EM, F1)
"""Scores that are reported with their standard error, and per kind of question."""


class ScoredQuestion(NamedTuple):
    """Scores of one question by name (`parts`), and its kind.

    A score is None if there was no prediction, or if it cannot be known.
    """

    kind: str
    parts: Mapping[str, float | None]


def answer_figures(scored: Sequence[ScoredQuestion]) -> dict[str, float]:
    """Return metrics over many questions.

    They are the number of questions `n`, the mean of every score, the standard errors of EM and F1, the metrics of
    `delivered_figures`, and EM and F1 per kind of question. A score that no question has is left out; otherwise a
    question without it counts 0, as in the official scorers. The mean of `evidence_found` is only over questions whose
    gold paragraphs are known.
    """
    figures: dict[str, float] = {"n": len(scored)}
    for name in dict.fromkeys(
        name for question in scored for name, value in question.parts.items() if value is not None
    ):
        values = _score_values(scored, name)
        figures[name] = fmean(values)
        if name in SCORES_WITH_ERROR:
            figures[f"{name}_stderr"] = standard_error(values)
    return figures | delivered_figures(scored) | _figures_by_kind(scored)


def delivered_figures(scored: Sequence[ScoredQuestion]) -> dict[str, float]:
    """Return the three metrics of TDP (section 4.1), computed from exact match.

    TDP uses a judge's verdicts instead (`certigraph judge --rubric tdp`). `accuracy` is the share of all questions that
    were answered right. `delivered_accuracy` is the share of right answers among the runs that submitted an answer that
    was not forced. `average` is the mean of both. The result is empty for files of predictions, which do not say how
    their answers were obtained.
    """
    if not any(ANSWERED in question.parts for question in scored):
        return {}
    unforced = [question for question in scored if question.parts.get(ANSWERED) and not question.parts.get(FORCED)]
    accuracy, delivered_accuracy = (
        fmean(_score_values(scored, EM)),
        fmean(_score_values(unforced, EM)) if unforced else 0.0,
    )
    return {
        "accuracy": accuracy,
        "delivered_accuracy": delivered_accuracy,
        "average": (accuracy + delivered_accuracy) / 2,
    }


def _figures_by_kind(scored: Sequence[ScoredQuestion]) -> dict[str, float]:
    kinds = sorted({question.kind for question in scored})
    groups = (
        {kind: [question for question in scored if question.kind == kind] for kind in kinds} if len(kinds) > 1 else {}
    )
    return {
        f"{part}_{kind}": fmean(_score_values(group, part))
        for kind, group in groups.items()
        for part in SCORES_WITH_ERROR
    }


def _score_values(scored: Sequence[ScoredQuestion], name: str) -> list[float]:
    known = scored if name != EVIDENCE else [question for question in scored if question.parts.get(name) is not None]
    return [question.parts.get(name) or 0.0 for question in known]


# The optional libraries behind the metrics, imported when they are first needed.


def import_metrics(module: str) -> Any:
    """Import a module of the extra `eval`.

    Raises:
        Fault: the extra is missing; the message gives the command that installs it.
    """
    return import_extra(module, "text metrics need", "eval")


@lru_cache(maxsize=1)
def load_stemmer() -> Any:
    """Return NLTK's Porter stemmer with NLTK's extensions, as LoCoMo's scorer uses it.

    Raises:
        Fault: as `import_metrics`.
    """
    return import_metrics("nltk.stem.porter").PorterStemmer()


# Five measures of an answer against its reference (CGDP appendix F.2). Each is in [0, 1], the cosine in [-1, 1].
#
# Exact match and token F1 normalise as HotpotQA's scorer does. ROUGE-1 is rouge-score's F-measure with Porter
# stemming. METEOR is NLTK's with its usual weights (alpha 0.9, beta 3, gamma 0.5) over lower-cased words, matched
# exactly and by Porter stem. Its third stage, WordNet's synonyms, is left out because NLTK would have to download that
# corpus; the score is therefore at most that of METEOR with synonyms.

Measure = Callable[[str, str], float]
"""Function (answer, reference) -> similarity."""


def rouge1(answer: str, reference: str) -> float:
    """Return ROUGE-1: the F-measure of common unigrams, by the package rouge-score.

    Raises:
        Fault: rouge-score is not installed.
    """
    return float(_rouge().score(reference, answer)["rouge1"].fmeasure)


def meteor(answer: str, reference: str) -> float:
    """Return METEOR without synonyms, by NLTK.

    Raises:
        Fault: NLTK is not installed.
    """
    score = import_metrics("nltk.translate.meteor_score").single_meteor_score
    return float(score(words(reference), words(answer), stemmer=load_stemmer(), wordnet=_NoSynonyms()))


MEASURES: Mapping[str, Measure] = {"em": exact_match, "f1": token_f1, "rouge1": rouge1, "meteor": meteor}
"""The measures that need no sentence vectors."""


def measure_answer(answer: str, references: Sequence[str]) -> dict[str, float]:
    """Return the measures of an answer by name, each the best over the references; 0 without references.

    Raises:
        Fault: rouge-score or NLTK is not installed.
    """
    return {name: max((measure(answer, r) for r in references), default=0.0) for name, measure in MEASURES.items()}


def measure_similarity(answer: str, references: Sequence[str]) -> dict[str, float]:
    """Return the measure `similarity`: the cosine similarity of an answer with its nearest reference.

    It is 0 without references.

    Raises:
        Fault: no encoder is installed.
    """
    encoder = find_encoder()
    if encoder is None:
        raise Fault("data", f"similarity needs sentence vectors: {install_advice()}")
    [vector] = encoder.encode([answer])
    cosines = (float(vector @ other) for other in (encoder.encode(references) if references else ()))
    return {"similarity": max(cosines, default=0.0)}


class _NoSynonyms:
    """Replacement of WordNet that has no synonyms."""

    def synsets(self, word: str) -> list[Any]:
        return []


@lru_cache(maxsize=1)
def _rouge() -> Any:
    return import_metrics("rouge_score.rouge_scorer").RougeScorer(["rouge1"], use_stemmer=True)
