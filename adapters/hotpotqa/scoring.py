"""HotpotQA's official scores: of an answer, of its supporting facts, of both together (hotpot_evaluate_v1)."""

from collections.abc import Mapping, Set

from certigraph.adapters.searching.scoring import NONE, Overlap, exact_match, harmonic, normalised, set_overlap
from certigraph.adapters.searching.scoring import token_overlap as any_overlap

WHOLE = {"yes", "no", "noanswer"}
"""Answers that are right as a whole or not at all: they have no token in common with another."""

Scores = dict[str, float]


def token_overlap(answer: str, gold: str) -> Overlap:
    """Precision, recall and F1 over tokens; nothing where one of both is yes, no or noanswer, and they differ."""
    first, second = normalised(answer), normalised(gold)
    return NONE if first != second and {first, second} & WHOLE else any_overlap(answer, gold)


def answer_scores(answer: str, gold: str) -> Scores:
    """EM, F1, precision and recall of an answer."""
    return named("", exact_match(answer, gold), token_overlap(answer, gold))


def support_scores(predicted: Set[tuple[str, int]], gold: Set[tuple[str, int]]) -> Scores:
    """The same of sets of supporting sentences (title, place)."""
    return named("sp_", float(predicted == gold), set_overlap(predicted, gold))


def joint_scores(answer: Mapping[str, float], support: Mapping[str, float]) -> Scores:
    """The products of the EMs, of the precisions and of the recalls, and the F1 of those products."""
    overlap = harmonic(
        answer["precision"] * support["sp_precision"],
        answer["recall"] * support["sp_recall"],
    )
    return named("joint_", answer["em"] * support["sp_em"], overlap)


def named(prefix: str, em: float, overlap: Overlap) -> Scores:
    """Four scores by their names."""
    values = {"em": em, "f1": overlap.f1, "precision": overlap.precision, "recall": overlap.recall}
    return {f"{prefix}{name}": value for name, value in values.items()}
