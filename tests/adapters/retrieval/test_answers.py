"""Tests of `adapters.retrieval.answers`."""

import numpy
import pytest

from certigraph.adapters.retrieval.answers import (
    MEASURES,
    ScoredQuestion,
    answer_figures,
    exact_match,
    measure_answer,
    measure_similarity,
    meteor,
    normalise_answer,
    rouge1,
    token_f1,
    token_overlap,
)
from certigraph.benchmarks.hotpotqa import benchmark as hotpotqa
from certigraph.benchmarks.musique import benchmark as musique

# Text metrics: hand-worked figures, and what they say where a library is missing.


class Letters:
    """Vectors of how often a, b and c occur, of length one."""

    name = "letters"

    def encode(self, texts):
        counts = numpy.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=numpy.float32)
        return counts / numpy.linalg.norm(counts, axis=1, keepdims=True)

    encode_once = encode


@pytest.mark.slow
def test_rouge1_counts_stemmed_unigrams():
    # cat(s), sat: two of three words on each side
    assert rouge1("the cat sat", "cats sat on") == pytest.approx(2 / 3)
    assert rouge1("", "cats") == 0.0


@pytest.mark.slow
def test_meteor_weighs_recall_and_punishes_fragments():
    # one match of one chunk: P 1/2, R 1; F = P R / (0.9 P + 0.1 R); penalty 0.5 * (1/1)^3
    assert meteor("blue Paris", "paris") == pytest.approx(0.5 * (0.5 / (0.9 * 0.5 + 0.1)))
    # three matches in one chunk
    assert meteor("a b c", "a b c") == pytest.approx(1 - 0.5 / 27)


def test_meteor_matches_stems_and_no_synonyms():
    assert meteor("runs", "running") == pytest.approx(0.5)
    assert meteor("automobile", "car") == 0.0


def test_an_answer_counts_with_its_best_reference():
    found = measure_answer("the Spurs", ["Tottenham Hotspur", "Spurs"])
    assert set(found) == set(MEASURES)
    assert (found["em"], found["f1"]) == (1.0, 1.0)
    assert measure_answer("x", []) == dict.fromkeys(MEASURES, 0.0)


def test_similarity_is_the_cosine_with_the_nearest_reference(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("certigraph.adapters.retrieval.answers.find_encoder", Letters)
    assert measure_similarity("a", ["b"]) == {"similarity": 0.0}
    assert measure_similarity("ab", ["b", "aabb"]) == {"similarity": pytest.approx(1.0)}
    assert measure_similarity("a", []) == {"similarity": 0.0}


# The official rules of facts/qa_scoring.md, sections 1.2 and 2.2, each by hand.


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Beatles", "beatles"),
        ("A  Tale of\ta City ", "tale of city"),
        ("U.S.", "us"),
        ("Jean-Luc's", "jeanlucs"),
        ("the-end", "theend"),  # punctuation goes before articles, so that no article is left here
        ("«Ångström»", "«ångström»"),  # only ASCII punctuation is deleted
        ("Theatre an der Wien", "theatre der wien"),  # whole words only
        ("...", ""),
    ],
)
def test_normalisation(text: str, normal: str):
    assert normalise_answer(text) == normal


def test_exact_match_is_of_normalised_strings():
    assert exact_match("the Spurs!", "Spurs") == 1.0
    assert exact_match("Spurs FC", "Spurs") == 0.0


def test_token_f1_counts_tokens_as_often_as_they_occur():
    # "new" twice against once: 2 tokens in common of 3 and of 2
    found = token_overlap("new new york", "New York")
    assert found == pytest.approx((2 / 3, 1.0, 0.8))
    assert token_overlap("new new york", "new new jersey") == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert token_f1("Paris", "London") == 0.0
    assert token_f1("", "London") == 0.0


@pytest.mark.parametrize(
    ("answer", "gold"), [("yes", "yes it is"), ("yes it is", "yes"), ("no", "no way"), ("noanswer", "noanswer known")]
)
def test_hotpotqa_gives_nothing_for_a_verdict_that_differs(answer: str, gold: str):
    assert hotpotqa.hotpot_overlap(answer, gold) == (0.0, 0.0, 0.0)


def test_hotpotqa_verdicts_that_agree_once_normalised_are_right():
    assert hotpotqa.answer_scores("Yes.", "yes") == {"em": 1.0, "f1": 1.0, "precision": 1.0, "recall": 1.0}


def test_hotpotqa_supporting_facts_are_sets_of_title_and_place():
    gold = {("A", 0), ("B", 2)}
    both = hotpotqa.support_scores({("B", 2), ("A", 0)}, gold)
    assert both == {"sp_em": 1.0, "sp_f1": 1.0, "sp_precision": 1.0, "sp_recall": 1.0}
    more = hotpotqa.support_scores({("A", 0), ("A", 1), ("B", 0), ("B", 2)}, gold)
    assert more == pytest.approx({"sp_em": 0.0, "sp_f1": 2 / 3, "sp_precision": 0.5, "sp_recall": 1.0})
    none = hotpotqa.support_scores(set(), gold)
    assert set(none.values()) == {0.0}


def test_hotpotqa_joint_scores_multiply():
    answer = {"em": 1.0, "f1": 0.8, "precision": 1.0, "recall": 2 / 3}
    support = {"sp_em": 0.0, "sp_f1": 0.6, "sp_precision": 0.5, "sp_recall": 0.75}
    joint = hotpotqa.joint_scores(answer, support)
    # precision 1 * 1/2, recall 2/3 * 3/4 = 1/2, so F1 is 1/2 as well
    wanted = {"joint_em": 0.0, "joint_f1": 0.5, "joint_precision": 0.5, "joint_recall": 0.5}
    assert joint == pytest.approx(wanted)


def test_hotpotqa_joint_f1_is_0_where_both_products_are():
    nothing = hotpotqa.answer_scores("x", "y")
    assert hotpotqa.joint_scores(nothing, hotpotqa.support_scores({("A", 0)}, {("A", 0)}))["joint_f1"] == 0.0


def test_musique_takes_the_best_alias_for_each_score_apart():
    # EM by the alias; F1 of the first reference alone would be 2 * 2 / (2 + 3)
    assert musique.answer_scores("Stanley Hall", ["G. Stanley Hall"])["f1"] == pytest.approx(0.8)
    assert musique.answer_scores("Stanley Hall", ["G. Stanley Hall", "Stanley Hall"]) == {"em": 1.0, "f1": 1.0}


def test_musique_has_no_rule_for_verdicts():
    assert musique.answer_scores("yes it is", ["yes"])["f1"] == pytest.approx(0.5)


def test_musique_empty_answers():
    assert musique.answer_scores("the", ["a"]) == {"em": 1.0, "f1": 1.0}  # both normalise to nothing
    assert musique.answer_scores("", ["Paris"]) == {"em": 0.0, "f1": 0.0}


def test_musique_support_is_a_set_of_paragraph_numbers():
    assert musique.support_scores({3, 7}, {7, 3}) == {"support_em": 1.0, "support_f1": 1.0}
    assert musique.support_scores({3}, {3, 7}) == pytest.approx({"support_em": 0.0, "support_f1": 2 / 3})
    assert musique.support_scores(set(), set()) == {"support_em": 1.0, "support_f1": 1.0}
    assert musique.support_scores(set(), {3}) == {"support_em": 0.0, "support_f1": 0.0}


def test_chain_coverage_is_the_share_of_hops_whose_paragraph_was_predicted():
    assert musique.chain_coverage({1, 2, 9}, [1, 2, 3, 4]) == 0.5
    assert musique.chain_coverage({1}, [1, 1, 2]) == pytest.approx(2 / 3)


def test_rates_divide_by_all_questions_and_leave_out_what_nobody_predicted():
    right, absent = {"em": 1.0, "f1": 1.0, "sp_em": 1.0}, {"em": 0.0, "f1": 0.0}
    figures = answer_figures(
        [ScoredQuestion("bridge", right), ScoredQuestion("bridge", absent), ScoredQuestion("comparison", absent)]
    )
    assert figures["n"] == 3
    assert figures["em"] == figures["sp_em"] == pytest.approx(1 / 3)
    assert figures["em_stderr"] == pytest.approx(1 / 3)  # stdev of 1, 0, 0 is 1/sqrt(3)
    assert (figures["em_bridge"], figures["em_comparison"]) == (0.5, 0.0)
    assert "sp_em" not in answer_figures([ScoredQuestion("bridge", absent)])


def test_evidence_is_the_mean_over_the_questions_whose_evidence_is_known():
    known = {"em": 0.0, "f1": 0.0, "evidence_found": 0.5}
    unknown = {"em": 0.0, "f1": 0.0, "evidence_found": None}
    assert answer_figures([ScoredQuestion("x", known), ScoredQuestion("x", unknown)])["evidence_found"] == 0.5


def test_delivered_accuracy_is_of_answers_that_were_not_forced():
    def one(em: float, answered: float, forced: float) -> ScoredQuestion:
        return ScoredQuestion("x", {"em": em, "f1": em, "answered": answered, "forced": forced})

    figures = answer_figures([one(1, 1, 0), one(1, 1, 1), one(0, 1, 0), one(0, 0, 0), one(1, 1, 0)])
    assert (figures["accuracy"], figures["delivered_accuracy"]) == pytest.approx((3 / 5, 2 / 3))
    assert figures["average"] == pytest.approx((3 / 5 + 2 / 3) / 2)
    lost = answer_figures([one(1, 1, 0), ScoredQuestion("x", {})])
    assert (lost["accuracy"], lost["delivered_accuracy"]) == (0.5, 1.0)
    none = answer_figures([one(0, 0, 0)])
    assert (none["accuracy"], none["delivered_accuracy"], none["average"]) == (0, 0, 0)


def test_predictions_made_elsewhere_do_not_say_how_they_were_delivered():
    assert "delivered_accuracy" not in answer_figures([ScoredQuestion("x", {"em": 1.0, "f1": 1.0})])
