"""One pass over the events of a run: its plan, tries, certificates and what each took, without building the state.

`Trajectory.state()` validates every record; a thousand runs are read here in the time that takes for a few.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from certigraph.evaluation.anatomy.certified import Certified, Cost, Plain
from certigraph.evaluation.comparing.rows import steps_of
from certigraph.state.records import RESTORE
from certigraph.state.trajectory import Event

CHECKS = frozenset({"audit", "revalidate"})
"""Nodes that lead to a replan though tries at the target are left."""

EXTENDED = "certify"
"""The node before Replan where it extends a plan that was cut: that is neither a replan nor are tries used up."""

PLANNING = frozenset({"reset", "propose"})
"""Nodes whose cost is the whole plan's, not that of the first predicate."""


class Tried(NamedTuple):
    """An attempt: `number` counts the tries at this target from 1, `step` is the world step it was made at."""

    position: int
    target: Plain
    number: int
    depth: int
    step: int


class Exhaustion(NamedTuple):
    """The first time all tries at a target were used up: cursor and plan length then."""

    head: int
    planned: int


@dataclass
class Fold:
    """What the events of a run add up to; of a graph without predicates, little but `steps`."""

    plan: Sequence[Plain] = ()
    head: int = 0
    steps: int = 0
    replans: int = 0
    exhaustion: Exhaustion | None = None
    tries: list[Tried] = field(default_factory=list)
    certificates: list[Certified] = field(default_factory=list)
    since: Cost = field(default_factory=Cost)
    fresh: int = 0
    """Where in `tries` those since the last certificate begin."""
    decided: set[int] = field(default_factory=set)
    """Which of `tries` were certified."""
    invalidated: set[tuple[int, int]] = field(default_factory=set)
    """Certified predicates found undone, and not held again by a return: index of the certificate, its target."""
    invalidated_at: list[frozenset[tuple[int, int]]] = field(default_factory=lambda: [frozenset()])
    """The same for every certified state, the empty one first."""
    before: str = ""
    """The node of the event before that did not fail."""

    def take(self, event: Event) -> None:
        """Go on by one event. One without an update failed: it changed nothing but what it spent."""
        update: dict[str, Any] = event.update or {}
        if event.node == "replan":
            if self.before not in CHECKS | {EXTENDED}:
                self.exhaustion = self.exhaustion or Exhaustion(self.head, len(self.plan))
            self.replans += bool(update.get("plan")) and self.before != EXTENDED
        if event.update is not None:
            self.before = event.node
        for lost in update.get("invalidations", ()):
            self.invalidated.add((lost["certificate"], lost["target"]))
        taken = steps_of(event)
        self.steps += taken
        self.since = self.since if event.node in PLANNING else self.since.plus(event.usage, taken)
        self.plan = update.get("plan", self.plan)
        for attempt in update.get("attempts", ()):
            self.tries.append(self._tried(attempt))
        for certificate in update.get("certificates", ()):
            self._certify(certificate)
        self.head = update.get("head", self.head)

    def open_tries(self) -> Sequence[Tried]:
        """Those since the last certificate."""
        return self.tries[self.fresh :]

    def standing(self) -> frozenset[int]:
        """Which certificates and passes still hold at the end: those that no return went behind."""
        states: list[tuple[int, ...]] = [()]
        for place, certificate in enumerate(self.certificates):
            to = certificate.record.get("restores")
            states.append((*states[-1], place) if to is None else states[to])
        return frozenset(states[-1])

    def _tried(self, attempt: Plain) -> Tried:
        position, target = attempt["position"], attempt["target"]
        before = sum(t.position == position and t.target == target for t in self.open_tries())
        return Tried(position, target, before + 1, attempt["verdict"]["depth"], self.steps)

    def _certify(self, record: Plain) -> None:
        to = record.get("restores")
        if to is not None:
            self.invalidated = {*self.invalidated_at[to]}
        self.invalidated_at.append(frozenset(self.invalidated))
        first = record["targets"][0]
        rejected = sum(t.target == first for t in self.open_tries()[:-1])
        self.certificates.append(Certified(record, rejected, self.since))
        self.since, self.fresh = Cost(), len(self.tries)
        if not self.certificates[-1].forced:
            self.decided.add(self.fresh - 1)


def folded_graphs(events: Iterable[Event]) -> Sequence[Fold]:
    """Fold all events of a run: its own graph's, then those of each graph inside a node, as these began."""
    folds = {"": Fold()}
    for event in events:
        folds.setdefault(event.scope, Fold()).take(event)
    return tuple(folds.values())


def kind_of(target: Plain) -> str:
    """The kind of a predicate; `condition` where it has none of its own."""
    kind: str = target.get("kind", "condition")
    return kind


def is_return(target: Plain) -> bool:
    """Whether a predicate asks for a return to an earlier certified state."""
    return kind_of(target) == RESTORE
