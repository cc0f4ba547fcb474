"""Remembers what was computed of records that have no hash."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

Given = TypeVarTuple("Given")
T = TypeVar("T")

MOST = 4_096
"""Answers that are kept; past them it begins anew."""


def remembered(compute: Callable[[*Given], T]) -> Callable[[*Given], T]:
    """The function, computing once for the same objects: resampling asks for the same runs a thousand times."""
    answers: dict[tuple[int, ...], tuple[tuple[*Given], T]] = {}

    def answer(*given: *Given) -> T:
        key = tuple(map(id, given))
        if key not in answers:
            if len(answers) >= MOST:
                answers.clear()
            answers[key] = (given, compute(*given))  # beside the objects, so that no others take their identities
        return answers[key][1]

    return answer
