"""The rules by which a run shows a gap of its harness; what they mean is in `gaps`.

Each tells True or False, or None where the benchmark's gold does not say enough.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from certigraph.adapters.retrieval.analyzer import terms, words
from certigraph.adapters.retrieval.titles import title_keys
from certigraph.evaluation.studying.arms import IRCOT
from certigraph.evaluation.studying.phrases import nothing_known
from certigraph.evaluation.studying.reading import Seen
from certigraph.nodes.harnesses import PARAGRAPHS
from certigraph.nodes.transcript import transcript
from certigraph.state.acting import Turn, remembered_turns
from certigraph.state.beliefs import jaccard
from certigraph.state.passages import listed_lines

CORRECT = 0.5
"""Score from which an answer counts as right."""

EARLY = 0.5
"""Part of the rounds in which evidence counts as found early; the rounds after it are the late ones."""

ON_GOAL = 1 / 3
"""Least share of a late action's content words that the question or gold evidence found before has, on average."""

LATE = 3
"""Rounds from which a run has late actions."""

GROUNDED = 0.5
"""Least share of an answer's own content words that occur in what was retrieved."""

PREMATURE = 2
"""Most rounds of a premature stop (CGDP, A.2)."""

REPEATING, PAIRS = 0.5, 2
"""Similarity that consecutive actions exceed, and consecutive pairs of them that are a stagnation (CGDP, A.2)."""


def evidence_lost(seen: Seen) -> bool | None:
    """G1."""
    if not seen.truth.support:
        return None
    early = _turns(seen)[: _half(len(seen.rounds))]
    found = {source for turn in early for source in turn.sources} & seen.truth.support.keys()
    kept = f" {' '.join(words(_kept(seen)))} "
    return _wrong(seen) and not all(_names(kept, seen.truth.support[source]) for source in found)


def goal_displaced(seen: Seen) -> bool | None:
    """G2."""
    if not seen.truth.support:
        return None
    if not _wrong(seen) or len(seen.rounds) < LATE:
        return False
    first = _half(len(seen.rounds))
    shares = [_on_goal(seen, place) for place in range(first, len(seen.rounds))]
    return sum(shares) / len(shares) < ON_GOAL


def parametric(seen: Seen) -> bool | None:
    """G3."""
    own = set(terms(seen.answer)) - set(terms(seen.question))
    if not own or nothing_known(seen.answer):
        return False
    retrieved = {word for turn in _turns(seen) for word in terms(turn.observation)}
    return len(own & retrieved) / len(own) < GROUNDED


def premature(seen: Seen) -> bool | None:
    """G4."""
    return _wrong(seen) and seen.stopped_itself and len(seen.rounds) <= PREMATURE


def stagnant(seen: Seen) -> bool | None:
    """G5 and G6."""
    longest = streak = 0
    for before, after in pairwise(seen.rounds):
        streak = streak + 1 if jaccard(before.action, after.action) > REPEATING else 0
        longest = max(longest, streak)
    return longest >= PAIRS


def misaligned(seen: Seen) -> bool | None:
    """G7."""
    return None if seen.truth.answerable else _wrong(seen)


def _wrong(seen: Seen) -> bool:
    return seen.score < CORRECT


def _half(rounds: int) -> int:
    return ceil(rounds * EARLY)


def _turns(seen: Seen) -> Sequence[Turn]:
    """The turns of search: the one of the final answer is none."""
    turns: Sequence[Turn] = seen.state["turns"]
    return turns[: len(seen.rounds)]


def _kept(seen: Seen) -> str:
    """What the agent saw before its last decision."""
    turns = remembered_turns({**seen.state, "turns": list(_turns(seen))})  # type: ignore[typeddict-item]
    paragraphs = PARAGRAPHS if seen.arm.harness == IRCOT else None
    return f"{seen.belief.text}\n{transcript(turns, seen.limits, paragraphs=paragraphs)}"


def _names(kept: str, title: str) -> bool:
    keys = title_keys(title)
    return not keys or any(f" {key} " in kept for key in keys)


def _on_goal(seen: Seen, place: int) -> float:
    """The share of an action's content words that the question or the gold evidence found before has."""
    said, turns = set(terms(seen.rounds[place].action)), _turns(seen)[:place]
    lines = [line for turn in turns for line in _gold_lines(turn, seen)]
    known = {word for text in (seen.question, *lines) for word in terms(text)}
    return len(said & known) / len(said) if said else 0.0


def _gold_lines(turn: Turn, seen: Seen) -> list[str]:
    listed = listed_lines(turn.observation, turn.sources) or ()
    return [line for source, line in listed if source in seen.truth.support]
