"""What an episode of a search world came to."""

from collections.abc import Callable, Set
from typing import NamedTuple

from certigraph.state.passages import Passage
from certigraph.state.records import Scores


class Claim(NamedTuple):
    """A finding that was filed for a sub-question, and the passage it is taken from, where one could be told."""

    finding: str
    passage: Passage | None


class Outcome(NamedTuple):
    """What an episode came to, for a benchmark to score."""

    answer: str | None
    """Handed in, else the last one noted."""
    forced: bool
    claims: tuple[Claim, ...]
    """The last one for each sub-question."""
    found: tuple[Passage, ...]
    """What searches brought up; once a claim was filed also what was at hand from the start, for it was read."""


Judge = Callable[[Outcome], Scores]
"""Scores an outcome, by the gold that it knows."""


def course(outcome: Outcome, wanted: Set[str], found: Set[str]) -> dict[str, float | None]:
    """How an episode went: the share of the gold paragraphs that it found (None without any), whether it answered.

    Both sets hold the paragraphs by what the benchmark knows them by.
    """
    return {
        "evidence_found": len(wanted & found) / len(wanted) if wanted else None,
        "answered": float(bool(outcome.answer)),
        "forced": float(outcome.forced),
    }
