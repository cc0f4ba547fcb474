"""The answers that the operators of research ask models for. Pages are named by number, as the prompt lists them."""

from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, Field, create_model

from certigraph.adapters.bounds import Cut, Within, at_most

MOST_QUERIES, MOST_PAGES = 3, 3
"""Of one step's try."""


class Step(BaseModel):
    """One narrowing step."""

    kind: Literal["collect", "filter", "extract", "compute"]
    goal: Annotated[str, Field(min_length=1), Within(240)]


class Decomposition(BaseModel):
    """Propose's answer, before it is known how many steps there may be. Role: planner."""

    steps: list[Step]


@lru_cache(maxsize=16)
def decomposition_form(most: int) -> type[Decomposition]:
    """The form of an answer with `most` steps (5 in the SDP paper, appendix A.4)."""
    return create_model("Decomposition", __base__=Decomposition, steps=(at_most(most, Step), ...))


class Tools(BaseModel):
    """Realize's answer, and Replan's: what to search for and which known pages to read. Roles: executor, planner."""

    queries: Annotated[list[str], Cut(MOST_QUERIES)]
    pages: Annotated[list[int], Cut(MOST_PAGES)]


class Found(BaseModel):
    """What the evidence says on a step. Role: extractor."""

    finding: Annotated[str, Within(600)]
    supported_by: Annotated[list[int], Cut(8)]
    contradicted_by: Annotated[list[int], Cut(8)]
    dispute: Annotated[str, Cut(300)]


class Adequacy(BaseModel):
    """Validate's answer on a finding. Role: validator."""

    reason: Annotated[str, Cut(200)]
    adequate: bool


class Answers(BaseModel):
    """The final answer: one text, several of a list, or one JSON object a text. Role: executor."""

    answers: Annotated[list[str], Cut(30)]
