"""Scores of answers: exact match, F1 and the text metrics of CGDP appendix F.2."""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from certigraph.adapters.matching import Encoder, encoder, how_to_install
from certigraph.adapters.processes import library
from certigraph.adapters.retrieval.bm25 import words
from certigraph.state.records import Fault

# Scores of short answers, as HotpotQA's and MuSiQue's official scorers have in common (facts/qa_scoring.md).

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class Overlap(NamedTuple):
    """Precision, recall and their harmonic mean, each 0 to 1."""

    precision: float
    recall: float
    f1: float


NONE = Overlap(0.0, 0.0, 0.0)


def normalised(text: str) -> str:
    """Lower case; ASCII punctuation deleted; the words a, an, the blanked out; blanks collapsed: in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """1.0 where both are the same once normalised, else 0.0."""
    return float(normalised(answer) == normalised(reference))


def token_f1(answer: str, reference: str) -> float:
    """F1 over the multisets of normalised tokens; 0 without a common one."""
    return token_overlap(answer, reference).f1


def token_overlap(answer: str, reference: str) -> Overlap:
    """The same with precision and recall."""
    found, wanted = Counter(normalised(answer).split()), Counter(normalised(reference).split())
    return overlap((found & wanted).total(), found.total(), wanted.total())


def set_overlap(found: Set[object], wanted: Set[object]) -> Overlap:
    """Precision, recall and F1 of a set against the wanted one; 0 where a denominator is."""
    return overlap(len(found & wanted), len(found), len(wanted))


def overlap(common: int, found: int, wanted: int) -> Overlap:
    """Of the numbers of things in common, found and wanted."""
    return harmonic(common / found, common / wanted) if common else NONE


def harmonic(precision: float, recall: float) -> Overlap:
    """Precision and recall with their harmonic mean; 0 where both are."""
    total = precision + recall
    return Overlap(precision, recall, 2 * precision * recall / total if total else 0.0)


# The figures of several answers: means over all questions asked, a missing answer counting 0.

EM, F1, EVIDENCE = "em", "f1", "evidence_found"
ANSWERED, FORCED = "answered", "forced"
"""Whether a run handed an answer in, and whether that was not the agent's own decision."""

WITH_ERROR = (EM, F1)
"""Figures that are reported with their standard error, and by kind of question."""


class Scored(NamedTuple):
    """The scores of one question, by name; None where nothing was predicted or nothing is known."""

    kind: str
    parts: Mapping[str, float | None]


def rates(scored: Sequence[Scored]) -> dict[str, float]:
    """`n`, EM and F1 with standard errors, the other parts, TDP's figures of runs, then EM and F1 by kind of question.

    Parts that nobody predicted (support) are left out; where somebody did, who did not counts 0, as official scorers
    have it. `evidence_found` is the mean over the questions whose evidence is known.
    """
    figures: dict[str, float] = {"n": len(scored)}
    for name in dict.fromkeys(name for one in scored for name, value in one.parts.items() if value is not None):
        values = _values(scored, name)
        figures[name] = fmean(values)
        if name in WITH_ERROR:
            figures[f"{name}_stderr"] = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    return figures | delivered(scored) | _by_kind(scored)


def delivered(scored: Sequence[Scored]) -> dict[str, float]:
    """TDP's figures (section 4.1) by exact match; its own are a judge's verdicts (`certigraph judge --rubric tdp`).

    `accuracy` is the share of all questions that were answered right, `delivered_accuracy` the share of those right
    whose run came to an answer of its own, none forced at the end, and `average` the mean of both. None where nobody
    answered in a run: files of predictions do not say how their answers came about.
    """
    if not any(ANSWERED in one.parts for one in scored):
        return {}
    own = [one for one in scored if one.parts.get(ANSWERED) and not one.parts.get(FORCED)]
    accuracy, of_own = fmean(_values(scored, EM)), fmean(_values(own, EM)) if own else 0.0
    return {"accuracy": accuracy, "delivered_accuracy": of_own, "average": (accuracy + of_own) / 2}


def _by_kind(scored: Sequence[Scored]) -> dict[str, float]:
    kinds = sorted({one.kind for one in scored})
    groups = {kind: [one for one in scored if one.kind == kind] for kind in kinds} if len(kinds) > 1 else {}
    return {f"{part}_{kind}": fmean(_values(group, part)) for kind, group in groups.items() for part in WITH_ERROR}


def _values(scored: Sequence[Scored], name: str) -> list[float]:
    known = scored if name != EVIDENCE else [one for one in scored if one.parts.get(name) is not None]
    return [one.parts.get(name) or 0.0 for one in known]


# The optional libraries behind the metrics, imported when first used.


def measuring(module: str) -> Any:
    """A module of the extra `eval`. Raises Fault with the command that brings it."""
    return library(module, "text metrics need", "eval")


@lru_cache(maxsize=1)
def stemmer() -> Any:
    """NLTK's Porter stemmer with its own extensions, as LoCoMo's scorer uses it. Raises Fault as `measuring` does."""
    return measuring("nltk.stem.porter").PorterStemmer()


# Five measures of an answer beside its reference (CGDP appendix F.2), each 0 to 1 but for the cosine's -1 to 1.
#
# Exact match and token F1 normalise as HotpotQA's scorer does. ROUGE-1 is rouge-score's F-measure with Porter
# stemming. METEOR is NLTK's with its usual weights (alpha 0.9, beta 3, gamma 0.5) over lower-cased words, matched as
# they are and by Porter stem; its third stage, WordNet's synonyms, is left out, for NLTK downloads that corpus: the
# figure is at most that of METEOR with synonyms.

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
