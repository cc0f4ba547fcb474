"""The blended counterfactual of the gate (CGDP, appendix G): its answer where it fired, else the natural one.

One run with a shadow gate holds both: the run goes on to its natural end, and where the gate would have stopped it the
final answer was asked for once. The gated run costs what was spent until then, with that call.
"""

from typing import NamedTuple

from certigraph.evaluation.studying.arms import ON, SHADOW
from certigraph.evaluation.studying.reading import Seen
from certigraph.evaluation.studying.spending import GATE, tokens_of
from certigraph.state.gathering import BY_GATE
from certigraph.state.trajectory import Event

AUTHOR = "executor"
"""The role that a final answer is asked of; a gate that asks a model asks another."""


class Blend(NamedTuple):
    """A run with and without its gate: scores 0 to 1, prompt and output tokens. Of a real gate both are its own.

    `fired` is the round, from 1, after which the gate stopped the run or would have; None: never. `answer_tokens` are
    those of the final answer that a shadow asked for: part of `blended_tokens`, none of `natural_tokens`.
    """

    fired: int | None
    natural: float
    blended: float
    natural_tokens: int
    blended_tokens: int
    answer_tokens: int


def blend_of(seen: Seen) -> Blend:
    """Both ends of a run."""
    if seen.arm.gate == SHADOW:
        return _shadowed(seen)
    tokens, gated = tokens_of(seen.events), seen.arm.gate == ON and seen.forced == BY_GATE
    return Blend(len(seen.rounds) if gated else None, seen.score, seen.score, tokens, tokens, 0)


def _shadowed(seen: Seen) -> Blend:
    natural = tokens_of([event for event in seen.events if event.node != GATE])
    place = next((at for at, event in enumerate(seen.events) if _fired(event) is not None), None)
    if place is None:
        return Blend(None, seen.score, seen.score, natural, tokens_of(seen.events), 0)
    event = seen.events[place]
    stagnation = seen.state["stagnation"]
    spent, answer = tokens_of(seen.events[: place + 1]), _answer_tokens(event)
    return Blend(_fired(event), seen.score, seen.judge(stagnation.answer or ""), natural, spent, answer)


def _fired(event: Event) -> int | None:
    """The round that a shadow noted."""
    noted = (event.update or {}).get("stagnation")
    at = noted.get("at") if event.node == GATE and isinstance(noted, dict) else None
    return at if isinstance(at, int) else None


def _answer_tokens(event: Event) -> int:
    calls = [call for call in event.calls if call["role"] == AUTHOR]
    return sum(int(str(call.get(part, 0))) for call in calls for part in ("input_tokens", "output_tokens"))
