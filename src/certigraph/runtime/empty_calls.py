"""Model calls of a run that brought no information, counted from the events of its trajectory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from certigraph.runtime.texts import format_count
from certigraph.state.trajectory import Event

NEWS = ("depth", "facts", "outdated", "unreachable", "exhausted", "finding", "forced")
"""Fields of a verdict that tell something, in place of their defaults."""


class EmptyCalls(NamedTuple):
    """Model calls that brought no information, by reason.

    A chain counts as one call: what was left of it has to be chosen again. Work that was repeated after a crash does
    not count.
    """

    verdicts: int = 0
    """Calls of verdicts that find the target unmet and nothing else: no new fact, no outdated one, no closed way."""
    chains: int = 0
    """Chains of actions, chosen together, of which the rest was dropped before it was taken."""
    requests: int = 0
    """Requests that failed or were repeated because their answer could not be used."""

    @property
    def total(self) -> int:
        """Number of these calls."""
        return sum(self)

    def __str__(self) -> str:
        """Format the counts in words; empty if there is none."""
        parts = [
            f"{format_count(self.verdicts, 'verdict')} after which nothing was new" if self.verdicts else "",
            f"{format_count(self.chains, 'chain')} cut before the end" if self.chains else "",
            f"{format_count(self.requests, 'request')} without a usable answer" if self.requests else "",
        ]
        return ", ".join(filter(None, parts))


def count_empty_calls(events: Iterable[Event]) -> EmptyCalls:
    """Count the model calls of a run, of graphs inside its nodes too, that brought no information."""
    verdicts = chains = requests = 0
    upcoming = defaultdict[str, list[Any]](list)
    for event in events:
        update: Mapping[str, Any] = event.update or {}
        failed = sum(bool(call.get("failure")) for call in event.calls)
        requests += failed
        attempts = update.get("attempts") or ()
        if attempts and not any(_tells(attempt["verdict"]) for attempt in attempts):
            verdicts += len(event.calls) - failed
        if "upcoming" in update:
            left, upcoming[event.scope] = upcoming[event.scope], list(update["upcoming"] or ())
            if left and update.get("action") == left[0]:
                left = left[1:]
            chains += bool(left) and event.node != "reset" and upcoming[event.scope] != left
    return EmptyCalls(verdicts, chains, requests)


def _tells(verdict: Mapping[str, Any]) -> bool:
    return any(verdict.get(name) for name in NEWS)
