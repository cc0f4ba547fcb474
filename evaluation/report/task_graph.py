"""The task graph of a run, folded from its events as they come: its nodes, its revisions, and when it was worked on."""

from graphlib import TopologicalSorter
from typing import Any

from certigraph.evaluation.report.revision import Revision, differ, revision
from certigraph.evaluation.report.worked import Worked
from certigraph.state.dag import Node
from certigraph.state.states import state_type
from certigraph.state.tdp import Outcome
from certigraph.state.trajectory import Event, Trajectory


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
