"""What an episode of a search world came to."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from certigraph.state.chains import Hop
from certigraph.state.passages import Passage
from certigraph.state.records import Scores


class Claim(NamedTuple):
    """A finding of a sub-question, and the passage that bears it out, where one could be told."""

    finding: str
    passage: Passage | None


class Outcome(NamedTuple):
    """What an episode came to, for a benchmark to score."""

    answer: str | None
    """Handed in, else the last one noted."""
    forced: bool
    claims: tuple[Claim, ...]
    """Those that the answer stands on: certified ones, in the order of its chain."""
    found: tuple[Passage, ...]
    """What searches brought up; once a claim was filed also what was at hand from the start, for it was read."""


def claims_of(
    chain: Sequence[Hop], at_hand: Sequence[Passage], filed: Mapping[tuple[str, str], Passage | None]
) -> tuple[Claim, ...]:
    """The claims of a certified chain, each with the passage that was verified, else the one that it was filed with."""
    known = {passage.id: passage for passage in at_hand}
    return tuple(Claim(hop.finding, known.get(hop.passage) or filed.get((hop.question, hop.finding))) for hop in chain)


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
