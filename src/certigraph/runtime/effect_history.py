"""Effects in a trajectory: the calls of a run over tools, folded from its events as they arrive.

Graphs inside nodes, such as those of sub-tasks, have logs of their own. Records stay as they are in the trajectory and
are validated when they are asked for, so that a thousand runs without tools are read in little time.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from certigraph.state.call_checks import CallCheck
from certigraph.state.effects import Effect, list_effects
from certigraph.state.records import Certificate, Step
from certigraph.state.run import AnsweredCall
from certigraph.state.trajectory import Event

LOGS = ("answers", "checks", "certificates", "history")
"""Logs of a graph's state from which effects are listed."""


class RefusedCall(NamedTuple):
    """A call that a check denied, and the sub-task in which it was chosen; empty outside a task graph."""

    check: CallCheck
    subtask: str = ""


class _GraphLogs:
    """The logs of one graph, as plain JSON."""

    def __init__(self, subtask: str) -> None:
        self.subtask = subtask
        self.logs: dict[str, list[Any]] = {name: [] for name in LOGS}
        self.outer = 0

    def fold(self, event: Event) -> None:
        update: Mapping[str, Any] = event.update or {}
        if "history" in event.replaced:  # a new episode, in which actions are numbered from 1 again
            self.logs["checks"] = []
            # a run inside another one begins with the steps of that run, which its lines leave out
            self.outer, self.logs["history"] = event.repeated, [UNKNOWN_STEP] * event.repeated
        for name in LOGS:
            if name in event.replaced and name != "history":
                self.logs[name] = []
            self.logs[name].extend(update.get(name) or ())

    def effects(self) -> list[Effect]:
        return list_effects(
            [AnsweredCall.model_validate(one) for one in self.logs["answers"]],
            self.checks(),
            [Certificate.model_validate(one) for one in self.logs["certificates"]],
            [Step.model_validate(one) for one in self.logs["history"]],
            outer=self.outer,
            subtask=self.subtask,
        )

    def checks(self) -> list[CallCheck]:
        return [CallCheck.model_validate(one) for one in self.logs["checks"]]


UNKNOWN_STEP: Mapping[str, Any] = {"action": {"text": ""}, "digest": ""}
"""A step of the run around this one, which its own lines of the trajectory have."""


class EffectHistory:
    """The effects of a run so far, of its outermost graph and then of its sub-tasks, in the order of their start."""

    def __init__(self) -> None:
        self._graphs: dict[str, _GraphLogs] = {}

    def fold(self, event: Event) -> None:
        """Update with one event of the run, of whichever of its graphs."""
        update = event.update or {}
        if not update.keys().isdisjoint(LOGS):
            self._graphs.setdefault(event.scope, _GraphLogs(event.subtask)).fold(event)

    @property
    def effects(self) -> list[Effect]:
        """The calls that were made and whose effect lasts."""
        return [effect for graph in self._ordered() for effect in graph.effects()]

    @property
    def refused(self) -> list[RefusedCall]:
        """The calls that a check denied, in order; those of earlier turns have no number of an action."""
        checks = [(one, graph.subtask) for graph in self._ordered() for one in graph.checks()]
        return [RefusedCall(one, subtask) for one, subtask in checks if one.is_denied and one.action]

    def _ordered(self) -> Iterator[_GraphLogs]:
        outermost = self._graphs.get("")
        if outermost:
            yield outermost
        yield from (graph for scope, graph in self._graphs.items() if scope)


def read_effects(events: Iterable[Event]) -> EffectHistory:
    """Read the effects of a run from its events; a run without tools has none."""
    history = EffectHistory()
    for event in events:
        history.fold(event)
    return history
