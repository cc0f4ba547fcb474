"""What a belief state takes and how it degrades: reorganisation (CGDP, H.4) and 'no evidence' artefacts (table 4)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from certigraph.evaluation.studying.arms import BELIEFS, STRUCTURED
from certigraph.evaluation.studying.phrases import nothing_known
from certigraph.evaluation.studying.reading import Seen
from certigraph.evaluation.studying.spending import MEMORY
from certigraph.state.trajectory import Event

EXTRACTOR = "extractor"


class Upkeep(NamedTuple):
    """`reorganisations` of a run's belief, the calls and tokens they took, and whether an open question was none.

    None where the memory condition has no such thing.
    """

    reorganisations: int | None
    calls: int | None
    tokens: int | None
    artefact: bool | None


def upkeep_of(seen: Seen) -> Upkeep:
    """What the belief of one run took."""
    if seen.arm.memory not in BELIEFS:
        return Upkeep(None, None, None, None)
    paid = [call for event in _reorganising(seen) for call in _second_calls(event)]
    asked = [question for event in seen.events for question in _belief(event).get("questions", ())]
    artefact = any(map(nothing_known, asked)) if seen.arm.memory == STRUCTURED else None
    return Upkeep(seen.belief.reorganised, len(paid), sum(map(_tokens, paid)), artefact)


def _reorganising(seen: Seen) -> Iterator[Event]:
    """The updates in which the belief was curated."""
    before = 0
    for event in seen.events:
        count = _belief(event).get("reorganised", before)
        if count > before:
            yield event
        before = count


def _second_calls(event: Event) -> Sequence[Mapping[str, Any]]:
    """The extractor's calls after its extraction, refused tries of which are no reorganisation."""
    calls = [call for call in event.calls if call["role"] == EXTRACTOR]
    extracted = next((place for place, call in enumerate(calls) if not call.get("failure")), len(calls))
    return calls[extracted + 1 :]


def _belief(event: Event) -> Mapping[str, Any]:
    found: Any = (event.update or {}).get("belief", {})
    return found if event.node == MEMORY else {}


def _tokens(call: Mapping[str, Any]) -> int:
    return int(call.get("input_tokens", 0)) + int(call.get("output_tokens", 0))
