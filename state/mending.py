"""What a model gave for a task graph, made one by rule, and no further from what it said than need be."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

from certigraph.state.dag import Node, cycle_in, problems, sinks

Nodes = tuple[Node, ...]


class Mended(NamedTuple):
    """Nodes that make a task graph, and what was changed about them, a line each."""

    nodes: Nodes
    notes: tuple[str, ...]


def flaws(nodes: Nodes, most: int) -> Iterator[str]:
    """What keeps nodes from being the graph of a whole task with at most `most` sub-tasks, each with the ids."""
    if not nodes:
        yield "there is no sub-task"
    if len(nodes) > most:
        yield f"{len(nodes)} sub-tasks, at most {most} are allowed; too many: {_ids(nodes[most:])}"
    if same := _others(nodes, _first(nodes, lambda node: node.task)):
        yield f"the same text as another sub-task: {_ids(same)}"
    yield from problems(nodes)


def mended(nodes: Iterable[Node], *, goal: str, most: int) -> Mended:
    """The nodes as a graph without flaws; what has none stays as it is.

    Args:
        nodes: as a model gave them; none of them has run.
        goal: text of the task, the one sub-task where no other is left.
        most: nodes that are kept; what settles the task is one of them.
    """
    made, notes = tuple(nodes), list[str]()
    for mend in (_named, _once, _distinct, _known, _acyclic, _one_end, lambda nodes: _few(nodes, most)):
        made, changed = mend(made)
        notes += changed
    if made:
        return Mended(made, tuple(notes))
    return Mended((Node(id="task", task=goal),), (*notes, "mended: the task is its only sub-task"))


def _named(nodes: Nodes) -> Mended:
    return _kept(nodes, [node for node in nodes if node.id and node.task], "without id or text")


def _once(nodes: Nodes) -> Mended:
    return _kept(nodes, _first(nodes, lambda node: node.id), "the same id again")


def _distinct(nodes: Nodes) -> Mended:
    return _kept(nodes, _first(nodes, lambda node: node.task), "the same text again")


def _known(nodes: Nodes) -> Mended:
    known = {node.id for node in nodes}
    return _needing(nodes, {node.id: [need for need in node.needs if need in known] for node in nodes})


def _acyclic(nodes: Nodes) -> Mended:
    """Whatever is listed first in a cycle waits for something listed later: it no longer does."""
    place, needs = {node.id: n for n, node in enumerate(nodes)}, {node.id: node.needs for node in nodes}
    made = nodes
    while cycle := cycle_in(made):
        need, first = min(pairwise(cycle), key=lambda pair: place[pair[1]])
        needs[first] = tuple(other for other in needs[first] if other != need)
        made = tuple(node.model_copy(update={"needs": needs[node.id]}) for node in nodes)
    return _needing(nodes, needs)


def _one_end(nodes: Nodes) -> Mended:
    """The last end settles the task."""
    return _towards(_ends(nodes)[-1], nodes) if nodes else Mended(nodes, ())


def _few(nodes: Nodes, most: int) -> Mended:
    """What settles the task and what can be done first, as many as there is room for."""
    if len(nodes) <= most:
        return Mended(nodes, ())
    goal = _ends(nodes)[-1]
    order = TopologicalSorter({node.id: node.needs for node in nodes}).static_order()
    ids = {goal, *[id_ for id_ in order if id_ != goal][: most - 1]}
    kept, notes = _kept(nodes, [node for node in nodes if node.id in ids], f"more than {most}")
    return Mended(_towards(goal, _known(kept).nodes).nodes, notes)


def _towards(goal: str, nodes: Nodes) -> Mended:
    """The goal needs all other ends."""
    others = [id_ for id_ in _ends(nodes) if id_ != goal]
    return _needing(nodes, {node.id: (*node.needs, *others) for node in nodes if node.id == goal})


def _ends(nodes: Nodes) -> list[str]:
    return [node.id for node in sinks(nodes)]


def _first(nodes: Nodes, key: Callable[[Node], str]) -> list[Node]:
    found = dict[str, Node]()
    for node in nodes:
        found.setdefault(key(node), node)
    return [*found.values()]


def _kept(nodes: Nodes, kept: Sequence[Node], why: str) -> Mended:
    out = _others(nodes, kept)
    return Mended(tuple(kept), (f"mended: left out {_ids(out)}, {why}",) if out else ())


def _others(nodes: Nodes, kept: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if not any(node is one for one in kept)]


def _needing(nodes: Nodes, needs: Mapping[str, Sequence[str]]) -> Mended:
    made = [node.model_copy(update={"needs": tuple(needs.get(node.id, node.needs))}) for node in nodes]
    pairs = [(old, new) for old, new in zip(nodes, made, strict=True) if old != new]
    notes = (f"mended: {new.id} needs {', '.join(new.needs) or 'nothing'}" for _, new in pairs)
    return Mended(tuple(made), tuple(notes))


def _ids(nodes: Iterable[Node]) -> str:
    return ", ".join(node.id or "?" for node in nodes)
