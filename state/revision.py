"""Self-Revision's changes to a task graph (TDP section 3.4): what has run stays as it is, whatever a model says."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from certigraph.state.dag import Dag, Node, problems

Nodes = tuple[Node, ...]


class Revision(NamedTuple):
    """What is to become of a graph."""

    change: Nodes = ()
    """Pending nodes as they are to be, by id."""
    add: Nodes = ()
    remove: tuple[str, ...] = ()


def room(dag: Dag, most: int) -> int:
    """How many nodes may be added. Failed ones take none: what replaces them needs it."""
    return max(most - sum(node.status != "failed" for node in dag.nodes), 0)


def new_ids(dag: Dag, count: int) -> list[str]:
    """So many ids that no node has."""
    taken = {node.id for node in dag.nodes}
    return [id_ for number in range(1, len(taken) + count + 1) if (id_ := f"n{number}") not in taken][:count]


def effective(dag: Dag, revision: Revision) -> Revision:
    """The revision without changes that change nothing: models repeat what is there."""
    there = {(node.id, node.task, node.needs) for node in dag.nodes}
    change, add = ([n for n in nodes if (n.id, n.task, n.needs) not in there] for nodes in revision[:2])
    return Revision(tuple(change), tuple(add), tuple(dict.fromkeys(revision.remove)))


def refusals(dag: Dag, revision: Revision, most: int) -> Iterator[str]:
    """What keeps a revision from being carried out, each with the ids."""
    yield from _out_of_reach(dag, revision)
    nodes = revised(dag, revision)
    if (count := sum(node.status != "failed" for node in nodes)) > most:
        yield f"{count} sub-tasks that have not failed, at most {most} are allowed"
    # What ran last would pass for what settles the task.
    if dag.pending and all(node.status != "pending" for node in nodes):
        yield f"{_ids(node.id for node in dag.pending)}: without them nothing is left that settles the task"
    yield from problems(nodes)


def ran_otherwise(before: Dag, after: Dag) -> list[str]:
    """The ids of nodes that have run in one of two graphs and are not the same in both."""
    ran = [{node.id: node for node in dag.nodes if node.status != "pending"} for dag in (before, after)]
    return [id_ for id_ in {**ran[0], **ran[1]} if ran[0].get(id_) != ran[1].get(id_)]


def revised(dag: Dag, revision: Revision) -> Nodes:
    """The nodes as they are to be, what settles the task last; of a revision that is refused no task graph.

    Those that have run come first, each as it is.
    """
    changed = {node.id: node for node in revision.change}
    left = [node for node in dag.pending if node.id not in revision.remove]
    run = [node for node in dag.nodes if node.status != "pending"]
    return (*run, *_goal_last([*(changed.get(node.id, node) for node in left), *revision.add]))


def _out_of_reach(dag: Dag, revision: Revision) -> Iterator[str]:
    status = {node.id: node.status for node in dag.nodes}
    touched = [*(node.id for node in revision.change), *revision.remove]
    if unknown := [id_ for id_ in touched if id_ not in status]:
        yield f"there is no sub-task {_ids(unknown)} to change or remove"
    if over := [id_ for id_ in touched if status.get(id_, "pending") != "pending"]:
        yield f"{_ids(over)}: what has run cannot be changed or removed; add a new sub-task with a new id"
    if twice := [id_ for id_ in touched if touched.count(id_) > 1]:
        yield f"{_ids(twice)}: changed twice, or changed and removed"
    new = [*revision.change, *revision.add]
    if vain := [f"{node.id} needs {need}" for node in new for need in node.needs if status.get(need) == "failed"]:
        yield f"{_ids(vain)}, which failed: it would never be done"


def _goal_last(nodes: list[Node]) -> list[Node]:
    needed = {need for node in nodes for need in node.needs}
    return sorted(nodes, key=lambda node: node.id not in needed)


def _ids(ids: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(ids))
