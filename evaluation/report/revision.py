"""What a revision did to a task graph."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from certigraph.state.dag import Node


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
