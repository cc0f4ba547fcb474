"""A run with graphs inside its nodes, taken apart: every inner graph's events by themselves, and the run's own."""

from collections.abc import Iterable
from typing import NamedTuple

from certigraph.evaluation.exporting.rounds import Round
from certigraph.state.trajectory import Event


class Part(NamedTuple):
    """The events of one graph in order; `scope` is its namespace and `subtask` the node that it solved."""

    scope: str
    subtask: str
    events: tuple[Event, ...]


class Parts(NamedTuple):
    """The run's own events, and those of its inner graphs in the order in which these began."""

    own: tuple[Event, ...]
    inner: tuple[Part, ...]

    def within(self, scope: str = "") -> list[Part]:
        """The graphs right inside that one; a node of theirs may have the id of one of its own."""
        return [part for part in self.inner if part.scope.rpartition("|")[0] == scope]


def parts_of(events: Iterable[Event]) -> Parts:
    """Take the events of a run apart. Graphs that ran at the same time are mixed in a trajectory."""
    grouped: dict[tuple[str, str], list[Event]] = {("", ""): []}
    for event in events:
        grouped.setdefault((event.scope, event.subtask), []).append(event)
    own = grouped.pop(("", ""))
    return Parts(tuple(own), tuple(Part(*place, tuple(found)) for place, found in grouped.items()))


def solved_in(part: Round) -> list[str]:
    """The sub-tasks whose outcomes a round of the run's own graph brought."""
    return [str(outcome["node"]) for outcome in part.update.get("outcomes", ())]
