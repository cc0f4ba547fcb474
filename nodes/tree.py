"""The operators of MCTS on its tree: select a leaf, back up what it led to, choose an action (appendix C.6.3)."""

from random import Random
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.appraising import digest
from certigraph.state.endings import Fault
from certigraph.state.records import Action
from certigraph.state.tree import (
    Node,
    Simulation,
    TreeView,
    children,
    found,
    leaf_of,
    solution,
    tally,
)

EXPLORATION = 0.3
"""Constant of UCT; rewards of neighbouring states lie some tenths apart."""

SIMULATIONS = 10
"""Expansions for one action."""


@factory
def select(*, c: float = EXPLORATION, seed: int = 0) -> Operator:
    """Go down the tree by UCT to the node that is expanded next.

    Args:
        c: weight of what was visited little against what was worth much.
        seed: of the lots that decide between equals.
    """

    async def select(state: TreeView, runtime: Runtime[Context]) -> dict[str, Any]:
        lots = Random(f"{seed}:{len(state['visited'])}:{state['searched']}")
        return {"leaf": leaf_of(state["tree"], tally(state["simulations"]), c, lots)}

    return select


@factory
def backpropagate(*, simulations: int = SIMULATIONS) -> Operator:
    """Hang what was imagined under the leaf and count its worth for every node above: a rollout of one step.

    A state that the episode or the tree has shown before is no new node. A leaf that leads nowhere new counts for
    nothing, so that the search turns elsewhere; one where the world has ended counts again for what it is worth.

    Args:
        simulations: expansions for one action; a path to the goal ends the search before.
    """

    async def backpropagate(state: TreeView, runtime: Runtime[Context]) -> dict[str, Any]:
        new = _new(state)
        passes = [Simulation(path=node.path, value=node.value) for node in new] or [_again(state)]
        spent = state["searched"] + 1 >= simulations
        searching = not spent and solution(new) is None
        return {"tree": new, "simulations": passes, "searching": searching}

    return backpropagate


async def most_visited(state: TreeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The first action to the goal where the search found one, else the action that was visited most.

    Raises:
        Fault: ("operator") the tree is empty.
    """
    tree, counts = state["tree"], tally(state["simulations"])
    if path := solution(tree):
        return {"thought": f"the goal is {len(path)} actions away", "action": Action(text=path[0])}
    if not (first := children(tree, ())):
        raise Fault("operator", "nothing was imagined, so nothing can be chosen: let `propose` return an action")
    best = max(first, key=lambda node: (counts.visits[node.path], counts.mean(node.path))).path
    told = f"{counts.visits[best]} of {counts.visits[()]} simulations, worth {counts.mean(best):.2f} on average"
    return {"thought": told, "action": Action(text=best[0])}


def _new(state: TreeView) -> list[Node]:
    known = {*state["visited"], *(digest(node.factored) for node in state["tree"])}
    new = []
    for node in state["imagined"]:
        if node.foreseen.solved or (shown := digest(node.factored)) not in known:
            new.append(node)
            known.add("" if node.foreseen.solved else shown)
    # At the root a way back is better than none: an action has to be taken.
    return new if new or state["leaf"] else list(state["imagined"])


def _again(state: TreeView) -> Simulation:
    node = found(state["tree"], state["leaf"])
    ended = node is not None and node.foreseen.done
    return Simulation(path=state["leaf"], value=node.value if node and ended else 0.0)
