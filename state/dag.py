"""TDP's task graph (section 3.2): sub-tasks, and what each needs. Immutable; what is no such graph cannot be made.

The goal is the one unfinished node that no unfinished node needs: what settles the task. Every other unfinished node
leads to it.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Literal, Self

from pydantic import Field, model_validator

from certigraph.state.records import Record

Status = Literal["pending", "completed", "failed"]


class Node(Record):
    """A sub-task with a specification that stands alone, and the ids of those whose outcomes it needs."""

    id: str = Field(min_length=1)
    task: str = Field(min_length=1)
    needs: tuple[str, ...] = ()
    status: Status = "pending"


class BadDagError(ValueError):
    """Nodes that make no task graph; `problems` says why, each with the ids."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Dag(Record):
    """A task graph. Raises BadDagError's problems as a validation error where the nodes make none."""

    nodes: tuple[Node, ...] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if found := list(problems(self.nodes)):
            raise BadDagError(found)
        return self

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        """The nodes by id, in the order in which they were listed."""
        return {node.id: node for node in self.nodes}

    @property
    def pending(self) -> tuple[Node, ...]:
        """The nodes that have not run."""
        return tuple(node for node in self.nodes if node.status == "pending")

    @property
    def ready(self) -> tuple[Node, ...]:
        """The nodes that may run now: all that they need is completed."""
        return tuple(n for n in self.pending if all(self.by_id[need].status == "completed" for need in n.needs))

    @property
    def goal(self) -> Node | None:
        """The node that settles the task; the last one where all have run, None in an empty graph."""
        ends = _sinks(self.pending) or self.nodes[-1:]
        return ends[0] if ends else None

    def order(self) -> tuple[str, ...]:
        """The ids in a topological order, the same for the same graph."""
        return tuple(TopologicalSorter({node.id: node.needs for node in self.nodes}).static_order())

    def before(self, id_: str) -> frozenset[str]:
        """Everything that a node builds on: what it needs, what that needs, and so on."""
        found, waiting = set[str](), list(self.by_id[id_].needs)
        while waiting:
            need = waiting.pop()
            if need not in found:
                found.add(need)
                waiting += self.by_id[need].needs
        return frozenset(found)

    def with_status(self, statuses: Mapping[str, Status]) -> "Dag":
        """The graph with what became of some nodes."""
        changed = (n.model_copy(update={"status": statuses.get(n.id, n.status)}) for n in self.nodes)
        return Dag.model_construct(nodes=tuple(changed))  # the structure is as it was


def problems(nodes: Iterable[Node]) -> Iterator[str]:
    """What keeps nodes from being a task graph: ids used twice, unknown needs, cycles, and more ends than one."""
    nodes = tuple(nodes)
    known = [node.id for node in nodes]
    if twice := sorted({id_ for id_ in known if known.count(id_) > 1}):
        yield f"ids used twice: {', '.join(twice)}"
    unknown = [f"{node.id} needs {need}" for node in nodes for need in node.needs if need not in known]
    if unknown:
        yield f"needs that are no node: {'; '.join(unknown)}"
    if cycle := cycle_in(nodes):
        yield f"nodes that wait for each other: {' -> '.join(cycle)}"
    elif len(ends := _sinks([n for n in nodes if n.status == "pending"])) > 1:
        yield f"several ends: {', '.join(n.id for n in ends)}; all but the one that settles the task must be needed"


def cycle_in(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The ids along a cycle, its first one again at the end; none where there is no cycle."""
    try:
        TopologicalSorter({node.id: node.needs for node in nodes}).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def _sinks(nodes: Iterable[Node]) -> list[Node]:
    nodes = list(nodes)
    needed = {need for node in nodes for need in node.needs}
    return [node for node in nodes if node.id not in needed]
