"""How often runs show the gaps G1 to G7 of a search harness (CGDP, appendix A.2 and table 7).

The paper defines G4 and G5/6; the other definitions are ours. Each tells True, False, or None where it cannot tell.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from certigraph.adapters.retrieval.analyzer import terms, words
from certigraph.adapters.retrieval.titles import title_keys
from certigraph.evaluation.studying.phrases import nothing_known
from certigraph.evaluation.studying.reading import Seen
from certigraph.nodes.transcript import transcript
from certigraph.state.acting import Turn, remembered_turns
from certigraph.state.beliefs import jaccard

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


class Gap(NamedTuple):
    """A gap by its name in the paper, what counts as one, and the rule."""

    name: str
    definition: str
    shows: Callable[[Seen], bool | None]


def evidence_lost(seen: Seen) -> bool | None:
    """G1."""
    if not seen.truth.support:
        return None
    early = _turns(seen)[: _half(len(seen.rounds))]
    found = {source for turn in early for source in turn.sources} & seen.truth.support.keys()
    kept = f" {' '.join(words(_kept(seen)))} "
    return _wrong(seen) and any(f" {title_keys(seen.truth.support[source])[-1]} " not in kept for source in found)


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


GAPS = (
    Gap(
        "G1",
        "evidence not persisted: a wrong answer, and the title of a gold passage that was retrieved in the first half "
        "of the rounds stands neither in the turns nor in the belief that the agent saw at the end",
        evidence_lost,
    ),
    Gap(
        "G2",
        f"goal displacement: a wrong answer after at least {LATE} rounds, and on average less than {ON_GOAL:.0%} of the "
        "content words of the late actions (second half) occur in the question or in gold passages found before",
        goal_displaced,
    ),
    Gap(
        "G3",
        f"parametric dominance: less than {GROUNDED:.0%} of the content words that the answer adds to the question "
        "occur in anything retrieved, and it is no abstention; right or wrong",
        parametric,
    ),
    Gap("G4", f"premature stop: the agent stopped by itself after at most {PREMATURE} rounds, wrong", premature),
    Gap(
        "G5/G6",
        f"retrieval stagnation: the Jaccard similarity of consecutive actions exceeds {REPEATING:g} for at least "
        f"{PAIRS} pairs in a row",
        stagnant,
    ),
    Gap("G7", "evidence-action misalignment: a question without an answer in the corpus was answered", misaligned),
)
"""Wrong is a score below `CORRECT`."""


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
    return f"{seen.belief.text}\n{transcript(turns, seen.limits)}"


def _on_goal(seen: Seen, place: int) -> float:
    """The share of an action's content words that the question or the gold evidence found before has."""
    said, turns = set(terms(seen.rounds[place].action)), _turns(seen)[:place]
    lines = [line for turn in turns for line in _gold_lines(turn, seen)]
    known = {word for text in (seen.question, *lines) for word in terms(text)}
    return len(said & known) / len(said) if said else 0.0


def _gold_lines(turn: Turn, seen: Seen) -> list[str]:
    lines = turn.observation.splitlines()
    if len(lines) != len(turn.sources):
        return []
    return [line for line, source in zip(lines, turn.sources, strict=True) if source in seen.truth.support]
