"""What a search agent has gathered, as prompts show it: it grows at its end alone, so that prefix caches hit."""

from collections.abc import Sequence
from itertools import chain
from typing import cast

from certigraph.adapters.prompting import BLOCK, clipped, listed, quoted
from certigraph.adapters.protocols import Limits
from certigraph.state.acting import DecideView, Turn
from certigraph.state.gathering import AnswerView, GateView
from certigraph.state.passages import listed_lines

ELIDED = "(shown above, or no longer)"


def gathered(state: DecideView | AnswerView | GateView, limits: Limits, *, paragraphs: int | None = None) -> str:
    """The turns that the agent sees, its notes and, where it has any, its advice; parts that are empty are left out."""
    advice = cast(Sequence[str], state.get("advice", ()))
    parts = [
        ("Rounds so far, each action with what it brought up", _quoted_turns(state["turns"], limits, paragraphs)),
        ("Notes from earlier rounds", quoted(state["belief"].text) if state["belief"].text else ""),
        ("To keep in mind", listed(advice) if advice else ""),
    ]
    return "\n".join(f"{name}:\n{told}\n" for name, told in parts if told)


def unbegun(state: DecideView) -> bool:
    """Whether this is an episode's first round; afterwards either a turn is left to see or a memory has worked."""
    return not state["turns"] and state["belief"].form == "native"


def transcript(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> str:
    """Thought, action and passages of each turn; a passage is shown once.

    Of what would take more than `limits.context` characters the oldest turns are dropped (CGDP Eq. 2), a block at a
    time; `limits.excerpt` bounds each passage, `paragraphs` the number of different ones, the latest.
    """
    kept = list(turns)
    while len(kept) > 1 and weight(kept, limits, paragraphs=paragraphs) > limits.context:
        kept = kept[BLOCK:] if len(kept) > BLOCK else kept[-1:]
    return clipped("\n".join(_told(kept, limits.excerpt, paragraphs)), limits.context)


def weight(turns: Sequence[Turn], limits: Limits, *, paragraphs: int | None = None) -> int:
    """Characters that all of these turns take in a transcript."""
    told = _told(turns, limits.excerpt, paragraphs)
    return sum(map(len, told)) + len(told)


def _quoted_turns(turns: Sequence[Turn], limits: Limits, paragraphs: int | None) -> str:
    return quoted(transcript(turns, limits, paragraphs=paragraphs), limits.context) if turns else ""


def _told(turns: Sequence[Turn], excerpt: int, paragraphs: int | None) -> list[str]:
    found = list(dict.fromkeys(chain.from_iterable(turn.sources for turn in turns)))
    seen = set(found[:-paragraphs] if paragraphs else ())
    return [_turn(turn, excerpt, seen) for turn in turns]


def _turn(turn: Turn, excerpt: int, seen: set[str]) -> str:
    thought = f"Thought: {turn.thought}\n" if turn.thought else ""
    return f"{thought}> {turn.action}\n" + "\n".join(_lines(turn, excerpt, seen))


def _lines(turn: Turn, excerpt: int, seen: set[str]) -> list[str]:
    listed = listed_lines(turn.observation, turn.sources)
    if listed is None:
        return [clipped(" ".join(turn.observation.splitlines()), excerpt)]
    new = [line for source, line in listed if source not in seen]
    seen.update(turn.sources)
    return [clipped(line, excerpt) for line in new] or [ELIDED]
