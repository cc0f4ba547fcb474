"""One node of a task graph as it is shown: what it was to do, what became of it, and what that took."""

from collections.abc import Mapping
from typing import Any, Literal

from certigraph.evaluation.comparing.rows import steps_of
from certigraph.evaluation.report.html import clipped
from certigraph.evaluation.report.standing import tally
from certigraph.state.dag import Node
from certigraph.state.records import Certificate
from certigraph.state.tdp import Outcome
from certigraph.state.trajectory import Event

LONGEST_NAME = 60

Status = Literal["pending", "working", "completed", "failed", "removed"]


class Worked:
    """A node with everything that the graph inside it did.

    Args:
        node: as it was first specified.
        added: number of the revision that added it; 0 for a node of the first graph.
    """

    def __init__(self, node: Node, added: int = 0) -> None:
        self.node, self.added = node, added
        self.status: Status = node.status
        self.former: list[tuple[int, Node]] = []
        """What it was before, with the number of the revision that changed it."""
        self.removed = 0
        self.outcome: Outcome | None = None
        self.events: list[Event] = []
        self.spans: list[tuple[float, float]] = []
        """When its operators worked, in seconds since the run began."""
        self.calls = self.tokens = self.steps = self.replans = 0
        self.seconds = 0.0
        self.action = ""
        self.certificates: list[Certificate] = []
        self._planned = self._head = 0

    @property
    def name(self) -> str:
        """Its id, as short as a label."""
        return clipped(self.node.id, LONGEST_NAME)

    @property
    def certified(self) -> int:
        """How many predicates stand certified, where its solver certifies some."""
        return tally(self.certificates).certified

    @property
    def passed(self) -> int:
        """How many a policy let pass, uncertified."""
        return tally(self.certificates).passed

    @property
    def whole(self) -> int:
        """Predicates certified or passed and those still to come; 0 where its solver has none."""
        return sum(tally(self.certificates)) + max(self._planned - self._head, 0)

    @property
    def changed(self) -> str:
        """What revisions did to it, in a word or two; empty for a node that is as it first was."""
        if self.removed:
            return f"{self.outcome.status}, removed" if self.outcome else "removed"
        return "revised" if self.former else "added" if self.added else ""

    def charge(self, event: Event) -> None:
        """Count what an event of the inner graph cost."""
        usage = event.usage
        self.calls += usage.calls
        self.tokens += usage.input_tokens + usage.output_tokens
        self.seconds += usage.seconds

    def take(self, event: Event, ended: float) -> None:
        """Fold an event of the inner graph, which ended so many seconds after the run began."""
        self.events.append(event)
        self.spans.append((max(ended - event.usage.seconds, 0.0), ended))
        if self.status == "pending":
            self.status = "working"
        self.steps += steps_of(event)
        if "|" not in event.scope:
            self._apply(event, event.update or {})

    def _apply(self, event: Event, update: Mapping[str, Any]) -> None:
        self.action = update.get("action", {}).get("text", self.action)
        self.certificates += map(Certificate.model_validate, update.get("certificates", ()))
        self.replans += event.node == "replan" and bool(update)
        self._planned = len(update["plan"]) if "plan" in update else self._planned
        self._head = update.get("head", self._head)
