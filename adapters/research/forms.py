"""The answers that the operators of research ask models for. Pages are named by number, as the prompt lists them."""

from typing import Literal

from pydantic import BaseModel, Field

MOST_STEPS = 5
"""Steps of a decomposition (SDP paper, appendix A.4)."""

MOST_QUERIES, MOST_PAGES = 3, 3
"""Of one step's try."""


class Step(BaseModel):
    """One narrowing step."""

    kind: Literal["collect", "filter", "extract", "compute"]
    goal: str = Field(min_length=1, max_length=240)


class Decomposition(BaseModel):
    """Propose's answer. Role: planner."""

    steps: list[Step] = Field(max_length=MOST_STEPS)


class Tools(BaseModel):
    """Realize's answer, and Replan's: what to search for and which known pages to read. Roles: executor, planner."""

    queries: list[str] = Field(max_length=MOST_QUERIES)
    pages: list[int] = Field(max_length=MOST_PAGES)


class Found(BaseModel):
    """What the evidence says on a step. Role: extractor."""

    finding: str = Field(max_length=600)
    supported_by: list[int] = Field(max_length=8)
    contradicted_by: list[int] = Field(max_length=8)
    dispute: str = Field(max_length=300)


class Adequacy(BaseModel):
    """Validate's answer on a finding. Role: validator."""

    reason: str = Field(max_length=200)
    adequate: bool


class Answers(BaseModel):
    """The final answer: one text, several of a list, or one JSON object a text. Role: executor."""

    answers: list[str] = Field(max_length=30)
