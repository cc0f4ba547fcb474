"""MuSiQue's official scores, and chain coverage (evaluate_v1.0; facts/qa_scoring.md, section 2.2)."""

from collections.abc import Sequence, Set

from certigraph.adapters.searching.scoring import exact_match, normalised, set_overlap, token_f1

Scores = dict[str, float]


def answer_scores(answer: str, references: Sequence[str]) -> Scores:
    """EM and F1, each the best over the answer and its aliases; yes and no are answers like others."""
    return {
        "em": max(exact_match(answer, reference) for reference in references),
        "f1": max(_f1(answer, reference) for reference in references),
    }


def support_scores(predicted: Set[int], gold: Set[int]) -> Scores:
    """EM and F1 over sets of paragraph numbers; both 1 where both sets are empty."""
    return {
        "support_em": float(predicted == gold),
        "support_f1": set_overlap(predicted, gold).f1 if predicted or gold else 1.0,
    }


def chain_coverage(predicted: Set[int], chain: Sequence[int]) -> float:
    """The share of a question's gold hops whose paragraph is among the predicted ones; no official figure.

    A paragraph that serves two hops counts for both; predicting too many costs nothing, unlike in the support's F1.
    """
    return sum(number in predicted for number in chain) / len(chain)


def _f1(answer: str, reference: str) -> float:
    if not (normalised(answer) and normalised(reference)):
        return float(normalised(answer) == normalised(reference))
    return token_f1(answer, reference)
