"""A run's events folded into TDP's task graph."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any, Literal, NamedTuple

from certigraph.runtime.history import steps_of, tally
from certigraph.runtime.html import clipped
from certigraph.state.records import Certificate
from certigraph.state.tdp import Node, Outcome
from certigraph.state.trajectory import Event, Trajectory, state_type

# One node of a task graph as it is shown: what it was to do, what became of it, and what that took.

LONGEST_NAME = 60

NodeStatus = Literal["pending", "working", "completed", "failed", "removed"]


class Worked:
    """A node with everything that the graph inside it did.

    Args:
        node: as it was first specified.
        added: number of the revision that added it; 0 for a node of the first graph.
    """

    def __init__(self, node: Node, added: int = 0) -> None:
        self.node, self.added = node, added
        self.status: NodeStatus = node.status
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


# What a revision did to a task graph.


class Revision(NamedTuple):
    """The ids that it added, changed and removed, and what of it had to be refused or mended."""

    number: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """Everything on one line; empty where it left the graph as it was."""
        done = {"added": self.added, "changed": self.changed, "removed": self.removed}
        told = [f"{what} {', '.join(ids)}" for what, ids in done.items() if ids]
        return "; ".join([*told, *self.notes])


def revision(number: int, before: Mapping[str, Node], after: Sequence[Node], notes: Sequence[str]) -> Revision:
    """The revision that made of the nodes before, by id, those after."""
    kept = {node.id for node in after}
    return Revision(
        number,
        added=tuple(node.id for node in after if node.id not in before),
        changed=tuple(node.id for node in after if node.id in before and differ(node, before[node.id])),
        removed=tuple(id_ for id_ in before if id_ not in kept),
        notes=tuple(notes),
    )


def differ(node: Node, other: Node) -> bool:
    """Whether they are to be done otherwise."""
    return (node.task, node.needs) != (other.task, other.needs)


# The task graph of a run, folded from its events as they come: its nodes, its revisions, and when it was worked on.


class TaskGraph:
    """The nodes by id, those included that a revision removed; `drawn` for a run that has a task graph at all."""

    def __init__(self, graph: str = "") -> None:
        self.drawn = "dag" in state_type(graph).__annotations__
        self._begin()

    def take(self, event: Event) -> None:
        """Fold one event, of the run's own graph or of one inside a node."""
        ended = self._since_begin(event)
        if event.scope:
            self._work(event, ended)
            return
        update: dict[str, Any] = {**(event.update or {})}
        if "outcomes" in event.replaced:
            self._begin()
        self.drawn |= "dag" in update
        if update.get("dag"):
            self._draw(update)
        for outcome in map(Outcome.model_validate, update.get("outcomes", ())):
            if worked := self.nodes.get(outcome.node):
                worked.outcome, worked.status = outcome, outcome.status
        if event.node in ("decompose", "revise"):
            self.supervised.append((max(ended - event.usage.seconds, 0.0), ended))

    def charge(self, event: Event) -> None:
        """Count what an event cost that a resume has superseded."""
        if event.scope and (worked := self._node_of(event)):
            worked.charge(event)

    @property
    def goal(self) -> str:
        """Id of the node that settles the task: the one that no other node needs; empty in an empty graph."""
        live = [worked.node for worked in self.nodes.values() if not worked.removed]
        for nodes in ([node for node in live if node.status == "pending"], live):
            needed = {need for node in nodes for need in node.needs}
            if ends := [node.id for node in nodes if node.id not in needed]:
                return ends[-1]
        return ""

    def count(self, status: str) -> int:
        """How many nodes have the status."""
        return sum(worked.status == status for worked in self.nodes.values())

    @property
    def live(self) -> int:
        """How many nodes no revision has removed."""
        return len(self.nodes) - self.count("removed")

    @property
    def steps(self) -> int:
        """World steps of all nodes."""
        return sum(worked.steps for worked in self.nodes.values())

    def levels(self) -> list[list[Worked]]:
        """The nodes by the length of the longest way to them, each level in the order in which it was listed."""
        needs = {id_: [n for n in worked.node.needs if n in self.nodes] for id_, worked in self.nodes.items()}
        level: dict[str, int] = {}
        for id_ in TopologicalSorter(needs).static_order():
            level[id_] = 1 + max((level[need] for need in needs[id_]), default=-1)
        found: list[list[Worked]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for id_, worked in self.nodes.items():
            found[level[id_]].append(worked)
        return found

    def _begin(self) -> None:
        self.nodes: dict[str, Worked] = {}
        self.revisions: list[Revision] = []
        self.supervised: list[tuple[float, float]] = []
        """When the graph was made and revised."""
        self.resumed: list[float] = []
        self._scopes: dict[str, str] = {}
        self._latest = self._before = 0.0

    def _since_begin(self, event: Event) -> float:
        """Seconds since the run began, without the time between a kill and the resume, which counts from 0 again."""
        if event.t < self._latest:
            self._before += self._latest
            self.resumed.append(self._before)
        self._latest = event.t
        return self._before + event.t

    def _work(self, event: Event, ended: float) -> None:
        if worked := self._node_of(event):
            worked.charge(event)
            worked.take(event, ended)

    def _node_of(self, event: Event) -> Worked | None:
        """The node of this graph, also for an event of a graph that is nested deeper."""
        outermost, *deeper = event.scope.split("|")
        if not deeper:
            self._scopes[outermost] = event.subtask
        return self.nodes.get(self._scopes.get(outermost, ""))

    def _draw(self, update: dict[str, Any]) -> None:
        nodes = [Node.model_validate(node) for node in update["dag"].get("nodes", ())]
        before = {id_: worked.node for id_, worked in self.nodes.items() if not worked.removed}
        made = revision(update.get("revisions", 0), before, nodes, update.get("notes", ()))
        if made.number and made.words:
            self.revisions.append(made)
        for node in nodes:
            worked = self.nodes.setdefault(node.id, Worked(node, made.number))
            if differ(node, worked.node):
                worked.former.append((made.number, worked.node))
            worked.node, worked.status, worked.removed = node, node.status, 0
            worked.outcome = None if node.status == "pending" else worked.outcome  # it is to be done again
        for id_ in made.removed:
            self.nodes[id_].status, self.nodes[id_].removed = "removed", made.number


def read_task_graph(trajectory: Trajectory) -> TaskGraph:
    """Fold a trajectory; what it lost to a resume is counted where it was spent."""
    tasks = TaskGraph(trajectory.header.graph)
    for event in trajectory.events:
        tasks.take(event)
    for event in trajectory.superseded:
        tasks.charge(event)
    return tasks
