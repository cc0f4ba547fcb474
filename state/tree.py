"""The search tree of MCTS: nodes as imagined, and simulations as a log from which every statistic is counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log, sqrt
from random import Random
from typing import NamedTuple

from typing_extensions import TypedDict

from certigraph.state.appraising import AppraisingState, Foreseen
from certigraph.state.channels import Log
from certigraph.state.factored import FactoredState
from certigraph.state.records import Record, Task

Path = tuple[str, ...]
"""Actions from the present to a node; the root's is empty."""


class Node(Record):
    """A state that was imagined."""

    path: Path
    foreseen: Foreseen
    reward: float
    factored: FactoredState
    goal: FactoredState

    @property
    def value(self) -> float:
        """What it is worth to the search: its reward; 1 where the goal is reached, 0 where the world ended without."""
        if self.foreseen.solved:
            return 1.0
        return 0.0 if self.foreseen.done else self.reward


class Simulation(Record):
    """One pass through the tree: the node that it came to, and what that was worth."""

    path: Path
    value: float


class TreeState(AppraisingState, total=False):
    """What MCTS knows beside where it stands."""

    tree: Log[Node]
    simulations: Log[Simulation]
    leaf: Path
    """The node that is expanded now."""
    searched: int
    """Expansions for the present action."""
    searching: bool
    imagined: tuple[Node, ...]
    """What was imagined from the leaf, before it is in the tree."""


class TreeView(TypedDict):
    """What the operators on the tree see: the tree, the node that is expanded, and what was imagined from there."""

    task: Task
    tree: Sequence[Node]
    simulations: Sequence[Simulation]
    leaf: Path
    searched: int
    visited: Sequence[str]
    imagined: Sequence[Node]


class Tally(NamedTuple):
    """Visits of every node and the sum of what they came to, by path."""

    visits: Counter[Path]
    totals: Counter[Path]

    def mean(self, path: Path) -> float:
        """Q: what a visit came to on average."""
        return self.totals[path] / self.visits[path] if self.visits[path] else 0.0

    def uct(self, path: Path, c: float) -> float:
        """Upper confidence bound of a node below the root (Kocsis and Szepesvari, 2006)."""
        visits, above = self.visits[path], self.visits[path[:-1]]
        return self.mean(path) + c * sqrt(log(above) / visits) if visits else float("inf")


def tally(simulations: Iterable[Simulation]) -> Tally:
    """Every simulation counts for all nodes on its path."""
    visits, totals = Counter[Path](), Counter[Path]()
    for one in simulations:
        for length in range(len(one.path) + 1):
            visits[one.path[:length]] += 1
            totals[one.path[:length]] += one.value  # type: ignore[assignment]
    return Tally(visits, totals)


def leaf_of(tree: Sequence[Node], counts: Tally, c: float, random: Random) -> Path:
    """The node to expand: down from the root by the highest bound, ties by lot."""
    here: Path = ()
    while below := children(tree, here):
        random.shuffle(below)
        here = max(below, key=lambda node: counts.uct(node.path, c)).path
    return here


def children(tree: Sequence[Node], path: Path) -> list[Node]:
    """The nodes one action below."""
    return [node for node in tree if node.path[:-1] == path and node.path]


def found(tree: Sequence[Node], path: Path) -> Node | None:
    """The node of a path; None for the root, which is the world itself."""
    return next((node for node in tree if node.path == path), None)


def solution(tree: Sequence[Node]) -> Path | None:
    """The shortest path on which the world says that the goal is reached."""
    return min((node.path for node in tree if node.foreseen.solved), key=len, default=None)


def below(tree: Sequence[Node], simulations: Sequence[Simulation], action: str) -> tuple[list[Node], list[Simulation]]:
    """The part of a search under an action, once that is taken: what is left to reuse."""
    nodes = [node.model_copy(update={"path": node.path[1:]}) for node in tree if node.path[:1] == (action,)]
    kept = [one.model_copy(update={"path": one.path[1:]}) for one in simulations if one.path[:1] == (action,)]
    return [node for node in nodes if node.path], kept
