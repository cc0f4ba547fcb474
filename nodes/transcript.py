"""Rounds of a search as a prompt shows them: it only ever grows at its end, so that prefix caches hit."""

from collections.abc import Sequence

from certigraph.adapters.prompting import BLOCK, clipped
from certigraph.adapters.protocols import Limits
from certigraph.state.acting import Turn

AGAIN = "(shown above)"


def transcript(turns: Sequence[Turn], limits: Limits) -> str:
    """Thought, action and passages of each turn; a passage is shown once.

    Of what would take more than `limits.context` characters the oldest turns are dropped (CGDP Eq. 2), a block at a
    time; `limits.excerpt` bounds each passage.
    """
    kept = list(turns)
    told = _told(kept, limits.excerpt)
    while len(kept) > 1 and sum(map(len, told)) > limits.context:
        kept = kept[BLOCK:] if len(kept) > BLOCK else kept[-1:]
        told = _told(kept, limits.excerpt)
    return "\n".join(told) or "(nothing)"


def _told(turns: Sequence[Turn], excerpt: int) -> list[str]:
    seen: set[str] = set()
    return [_turn(turn, excerpt, seen) for turn in turns]


def _turn(turn: Turn, excerpt: int, seen: set[str]) -> str:
    thought = f"Thought: {turn.thought}\n" if turn.thought else ""
    return f"{thought}> {turn.action}\n" + "\n".join(_lines(turn, excerpt, seen))


def _lines(turn: Turn, excerpt: int, seen: set[str]) -> list[str]:
    lines = turn.observation.splitlines()
    if len(lines) != len(turn.sources):  # no list of passages
        return [clipped(" ".join(lines), excerpt)]
    new = [line for line, source in zip(lines, turn.sources, strict=True) if source not in seen]
    seen.update(turn.sources)
    return [clipped(line, excerpt) for line in new] or [AGAIN]
