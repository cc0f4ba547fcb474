"""Rubrics by which judges grade answers, by name.

The criteria and scales are the papers'; the wording, and the formula of `cgdp`, are certigraph's. `strings` and
`similarity` need no judge: they compare an answer with its references by the measures of CGDP, appendix F.2.
"""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from certigraph.adapters.models.schemas import Reasoning
from certigraph.adapters.retrieval.answers import measure_answer, measure_similarity
from certigraph.evaluation.judges import MAX_SCORE, MeasureRubric, Rubric
from certigraph.state.endings import UnknownName

COUNT_SCALE = Field(ge=0, le=10)

RATING_SCALE = Field(ge=1, le=10)


class CgdpVerdict(BaseModel):
    """Three counts of 0 to 10 (CGDP section 6.1 names them and the scale 0 to 100 of the whole)."""

    reason: Reasoning
    correctness: int = COUNT_SCALE
    completeness: int = COUNT_SCALE
    irrelevance: int = COUNT_SCALE


class SweVerdict(BaseModel):
    """Five ratings of 1 to 10, 5 being average (SWE-QA, and SWE-QA-Pro after it)."""

    correctness: int = RATING_SCALE
    completeness: int = RATING_SCALE
    relevance: int = RATING_SCALE
    clarity: int = RATING_SCALE
    reasoning: int = RATING_SCALE


class TdpVerdict(BaseModel):
    """Right or wrong (TDP section 4.1)."""

    reason: Reasoning
    correct: bool


def cgdp_score(verdict: CgdpVerdict) -> float:
    """Compute the score of the rubric `cgdp`, at least 0.

    It is 10 x (0.6 correctness + 0.4 completeness) - 2 x irrelevance.
    """
    earned = 10 * (0.6 * verdict.correctness + 0.4 * verdict.completeness)
    return max(0.0, earned - 2 * verdict.irrelevance)


def swe_score(verdict: SweVerdict) -> float:
    """Compute the score of the rubric `swe-qa`: the sum of the five ratings in percent of 50, the maximum."""
    return 2.0 * (verdict.correctness + verdict.completeness + verdict.relevance + verdict.clarity + verdict.reasoning)


def tdp_score(verdict: TdpVerdict) -> float:
    """Return 100 for a correct answer, else 0. The mean over answers is the accuracy in the TDP paper, in percent."""
    return MAX_SCORE * verdict.correct


def rubric_by_name(name: str) -> Rubric | MeasureRubric:
    """Return a rubric by its name.

    Raises:
        UnknownName: there is no such rubric; the message lists the known ones.
    """
    if name not in RUBRICS:
        raise UnknownName(f"no rubric {name!r}; known: {', '.join(RUBRICS)}")
    return RUBRICS[name]


CGDP = """\
Give three whole numbers from 0 to 10.
correctness: how far what the answer states agrees with the reference; 10 nothing disagrees, 0 its main point is wrong.
completeness: how much of what the reference says the answer says too; 10 all of it, 0 nothing.
irrelevance: how much of the answer neither the question asks for nor the reference says; 0 nothing, 10 nearly all.
Other words, forms of a name and formats of a date for the same thing agree. Where the reference says that the question
cannot be answered, an answer that says so has 10, 10 and 0, and one that names something has correctness 0."""

SWE_QA = """\
Rate an answer about source code by five criteria, each a whole number from 1 to 10; 5 is an average answer.
correctness: its statements about the code are true by the reference.
completeness: it covers the points of the reference.
relevance: it keeps to the question.
clarity: a developer can follow it at once.
reasoning: its conclusions follow from the places in the code that it names."""

TDP = """\
Decide whether the answer is correct: it names what the reference names, whatever the wording, and contradicts it
nowhere. More detail is not a mistake; a missing part of the reference, or a second answer beside it, is one."""

RUBRICS: Mapping[str, Rubric | MeasureRubric] = {
    "cgdp": Rubric("cgdp", CGDP, CgdpVerdict, cgdp_score),
    "swe-qa": Rubric("swe-qa", SWE_QA, SweVerdict, swe_score),
    "tdp": Rubric("tdp", TDP, TdpVerdict, tdp_score),
    "strings": MeasureRubric("strings", measure_answer, "f1"),
    "similarity": MeasureRubric("similarity", measure_similarity, "similarity"),
}
