"""The search tree of MCTS: imagined nodes, and a log of simulations from which every statistic is counted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log, sqrt
from random import Random
from typing import NamedTuple

from typing_extensions import TypedDict

from certigraph.state.channels import Log, LogIndexes
from certigraph.state.records import Record, Task
from certigraph.state.rewards import FactoredState, LookaheadState, PredictedOutcome, digest_of

ActionPath = tuple[str, ...]
"""Actions that lead from the present to a node of the search tree. The path of the root is empty."""


class SearchNode(Record):
    """A node of the search tree: a predicted outcome, its reward and its factored state."""

    path: ActionPath
    foreseen: PredictedOutcome
    reward: float
    factored: FactoredState
    goal: FactoredState

    @property
    def value(self) -> float:
        """Value of the node: 1 if the goal is reached, 0 if the world ended without it, else the predicted reward."""
        if self.foreseen.solved:
            return 1.0
        return 0.0 if self.foreseen.done else self.reward


class Simulation(Record):
    """One simulation of MCTS: the path to the node that it reached, and the value of that node."""

    path: ActionPath
    value: float


class TreeState(LookaheadState, total=False):
    """State of MCTS: the state of an agent that looks ahead, and the search tree."""

    tree: Log[SearchNode]
    simulations: Log[Simulation]
    leaf: ActionPath
    """Path to the node that is being expanded."""
    searched: int
    """Number of expansions made for the present action."""
    searching: bool
    imagined: tuple[SearchNode, ...]
    """Nodes predicted from the leaf that are not yet in the tree."""


class TreeView(TypedDict):
    """View of the operators of MCTS: the tree, the path to the node being expanded, and the nodes predicted from it."""

    task: Task
    tree: Sequence[SearchNode]
    simulations: Sequence[Simulation]
    leaf: ActionPath
    searched: int
    visited: Sequence[str]
    imagined: Sequence[SearchNode]


class VisitCounts(NamedTuple):
    """Number of visits and sum of values of every node of the search tree, by path."""

    visits: Counter[ActionPath]
    totals: Counter[ActionPath]

    def add(self, simulations: Iterable[Simulation]) -> None:
        """Count further simulations."""
        for simulation in simulations:
            for length in range(len(simulation.path) + 1):
                self.visits[simulation.path[:length]] += 1
                self.totals[simulation.path[:length]] += simulation.value  # type: ignore[assignment]

    def mean(self, path: ActionPath) -> float:
        """Return Q, the mean value over the visits of a node; 0 without a visit."""
        return self.totals[path] / self.visits[path] if self.visits[path] else 0.0

    def uct(self, path: ActionPath, c: float) -> float:
        """Return the upper confidence bound (UCT) of a node below the root (Kocsis and Szepesvari, 2006)."""
        visits, parent_visits = self.visits[path], self.visits[path[:-1]]
        return self.mean(path) + c * sqrt(log(parent_visits) / visits) if visits else float("inf")


def count_visits(simulations: Iterable[Simulation]) -> VisitCounts:
    """Count the visits and sum the values of nodes. A simulation counts for every node on its path."""
    counts = VisitCounts(Counter(), Counter())
    counts.add(simulations)
    return counts


class TreeIndex:
    """Index of the nodes of a search tree, by path and by the path of their parent."""

    def __init__(self) -> None:
        self.nodes: dict[ActionPath, SearchNode] = {}
        self.children: dict[ActionPath, list[SearchNode]] = {}
        self.digests: set[str] = set()
        """Digests of the nodes' factored states."""

    def add(self, nodes: Iterable[SearchNode]) -> None:
        """Add further nodes; of nodes with the same path the first stays the one at that path."""
        for node in nodes:
            self.nodes.setdefault(node.path, node)
            if node.path:  # the root is nobody's child
                self.children.setdefault(node.path[:-1], []).append(node)
            self.digests.add(digest_of(node.factored))


visits_of: LogIndexes[Simulation, VisitCounts] = LogIndexes(lambda: VisitCounts(Counter(), Counter()))
"""Function that counts the visits in the log of simulations of a state, as `count_visits` does."""

index_of: LogIndexes[SearchNode, TreeIndex] = LogIndexes(TreeIndex)
"""Function that indexes the log of nodes of a state."""


def select_leaf(tree: Sequence[SearchNode], counts: VisitCounts, c: float, random: Random) -> ActionPath:
    """Select the node to expand: from the root, always follow the child with the highest upper confidence bound.

    Args:
        tree: nodes of the search tree.
        counts: visits and values of the nodes.
        c: weight of exploration in the bound.
        random: breaks ties.
    """
    path: ActionPath = ()
    children = index_of(tree).children
    while options := [*children.get(path, ())]:
        random.shuffle(options)
        path = max(options, key=lambda node: counts.uct(node.path, c)).path
    return path


def children_of(tree: Sequence[SearchNode], path: ActionPath) -> list[SearchNode]:
    """Return the children of a node, which is given by its path."""
    return [*index_of(tree).children.get(path, ())]


def node_at(tree: Sequence[SearchNode], path: ActionPath) -> SearchNode | None:
    """Return the node at a path; None for the root, which is the present state of the world and not a prediction."""
    return index_of(tree).nodes.get(path)


def shortest_solution(tree: Sequence[SearchNode]) -> ActionPath | None:
    """Return the shortest path at whose end the world reports that the goal is reached; None if there is none."""
    return min((node.path for node in tree if node.foreseen.solved), key=len, default=None)


def subtree_of(
    tree: Sequence[SearchNode], simulations: Sequence[Simulation], action: str
) -> tuple[list[SearchNode], list[Simulation]]:
    """Return the nodes and simulations of a search tree that lie below an action, to reuse them once it is taken.

    The action is removed from the beginning of their paths.
    """
    nodes = [node.model_copy(update={"path": node.path[1:]}) for node in tree if node.path[:1] == (action,)]
    remaining = [
        simulation.model_copy(update={"path": simulation.path[1:]})
        for simulation in simulations
        if simulation.path[:1] == (action,)
    ]
    return [node for node in nodes if node.path], remaining
