"""Rubrics: how the criteria of each paper add up to a score."""

import pytest

from certigraph.state.endings import UnknownName
from certigraph.studies.rubrics import CgdpVerdict, SweVerdict, TdpVerdict, rubric_by_name


@pytest.mark.parametrize(
    ("counts", "score"),
    [((10, 10, 0), 100), ((10, 10, 10), 80), ((5, 5, 0), 50), ((10, 0, 0), 60), ((0, 10, 0), 40), ((0, 0, 10), 0)],
)
def test_cgdp_weighs_correctness_most_and_takes_off_what_is_irrelevant(counts: tuple[int, int, int], score: float):
    correctness, completeness, irrelevance = counts
    verdict = CgdpVerdict(reason="", correctness=correctness, completeness=completeness, irrelevance=irrelevance)
    assert rubric_by_name("cgdp").score(verdict) == score


def test_swe_qa_is_the_share_of_fifty_points():
    worst, best = (dict.fromkeys(SweVerdict.model_fields, n) for n in (1, 10))
    assert [rubric_by_name("swe-qa").score(SweVerdict(**one)) for one in (worst, best)] == [10, 100]


def test_tdp_is_right_or_wrong():
    assert [rubric_by_name("tdp").score(TdpVerdict(reason="", correct=right)) for right in (True, False)] == [100, 0]


def test_an_unknown_rubric_lists_the_known():
    with pytest.raises(UnknownName, match="cgdp, swe-qa, tdp"):
        rubric_by_name("harsh")
