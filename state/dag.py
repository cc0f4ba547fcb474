"""TDP's task graph (section 3.2): sub-tasks, and what each needs. Immutable; what is no such graph cannot be made.

The goal is the one unfinished node that no unfinished node needs: what settles the task. Every other unfinished node
leads to it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Literal, Self

from pydantic import model_validator

from certigraph.state.records import Record

Status = Literal["pending", "completed", "failed"]


class Node(Record):
    """A sub-task with a specification that stands alone, and the ids of those whose outcomes it needs."""

    id: str
    task: str
    needs: tuple[str, ...] = ()
    status: Status = "pending"


class Dag(Record):
    """A task graph, or an empty one. Raises a validation error with all `problems` where the nodes make none."""

    nodes: tuple[Node, ...] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if found := list(problems(self.nodes)):
            raise ValueError("; ".join(found))
        return self

    @property
    def by_id(self) -> Mapping[str, Node]:
        """The nodes by id, in the order in which they are listed."""
        return {node.id: node for node in self.nodes}

    @property
    def pending(self) -> tuple[Node, ...]:
        """The nodes that have not run."""
        return tuple(node for node in self.nodes if node.status == "pending")

    @property
    def ready(self) -> tuple[Node, ...]:
        """The nodes that may run now: all that they need is completed."""
        completed = {node.id for node in self.nodes if node.status == "completed"}
        return tuple(node for node in self.pending if completed.issuperset(node.needs))

    @property
    def goal(self) -> Node | None:
        """The node that settles the task; where all have run, the one that was it last. None in an empty graph."""
        ends = sinks(self.pending) or sinks(self.nodes)
        return ends[-1] if ends else None

    def order(self) -> tuple[str, ...]:
        """The ids in a topological order, the same for the same graph."""
        return tuple(TopologicalSorter({node.id: node.needs for node in self.nodes}).static_order())

    def before(self, id_: str) -> frozenset[str]:
        """Everything that a node builds on: what it needs, what that needs, and so on."""
        nodes = self.by_id
        found, waiting = set[str](), list(nodes[id_].needs)
        while waiting:
            need = waiting.pop()
            if need not in found:
                found.add(need)
                waiting += nodes[need].needs
        return frozenset(found)

    def with_status(self, statuses: Mapping[str, Status]) -> "Dag":
        """The graph with what became of some nodes, all of which were ready."""
        # Checked anew: a checkpoint whose graph is refused would come back as plain values, without a word.
        nodes = self.by_id
        ran = {id_: nodes[id_].model_copy(update={"status": status}) for id_, status in statuses.items()}
        return Dag(nodes=tuple(ran.get(node.id, node) for node in self.nodes))


def problems(nodes: Iterable[Node]) -> Iterator[str]:
    """What keeps nodes from being a task graph, each with the ids: none where `Dag` takes them."""
    nodes = tuple(nodes)
    known = Counter(node.id for node in nodes)
    if nameless := [node.id or "?" for node in nodes if not (node.id and node.task)]:
        yield f"sub-tasks without id or text: {', '.join(nameless)}"
    if twice := [id_ for id_, count in known.items() if count > 1]:
        yield f"ids used twice: {', '.join(twice)}"
    if unknown := [f"{node.id} needs {need}" for node in nodes for need in node.needs if need not in known]:
        yield f"needs that are no sub-task: {', '.join(unknown)}"
    if cycle := cycle_in(nodes):
        yield f"sub-tasks that wait for each other: {' -> '.join(cycle)}"
    elif len(ends := sinks(node for node in nodes if node.status == "pending")) > 1:
        yield f"several ends: {', '.join(node.id for node in ends)}; all but the last one must be needed by another"


def cycle_in(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The ids along a cycle, each needed by the next and the first again at the end; none where there is no cycle."""
    try:
        TopologicalSorter({node.id: node.needs for node in nodes}).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def sinks(nodes: Iterable[Node]) -> list[Node]:
    """Those of the nodes that none of them needs."""
    nodes = list(nodes)
    needed = {need for node in nodes for need in node.needs}
    return [node for node in nodes if node.id not in needed]
