"""Operators of Monte Carlo tree search over imagined actions (StateFactory, appendix C.6.3)."""

from collections.abc import Sequence
from random import Random
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes import lookahead
from certigraph.nodes.slots import Slot, Update, factory
from certigraph.state.endings import Fault
from certigraph.state.records import Action
from certigraph.state.rewards import (
    AppraiseView,
    LookaheadView,
    appraise_view,
    digest_of,
    lookahead_view,
    turns_of,
)
from certigraph.state.run import Evidence
from certigraph.state.search_tree import (
    ActionPath,
    SearchNode,
    Simulation,
    TreeState,
    TreeView,
    children_of,
    index_of,
    node_at,
    select_leaf,
    shortest_solution,
    subtree_of,
    visits_of,
)

# The slots of MCTS, and the bookkeeping around its operators' updates.

MAX_DEPTH = 12
"""Maximum number of imagined actions in a row: world models are not reliable further ahead."""


def tree_view(state: TreeState) -> TreeView:
    """Return the part of the state that the operators on the search tree may read."""
    return {
        "task": state["task"],
        "tree": state["tree"],
        "simulations": state["simulations"],
        "leaf": _leaf_path(state),
        "searched": state["searched"],
        "visited": state["visited"],
        "imagined": state["imagined"],
    }


def leaf_lookahead_view(state: TreeState) -> LookaheadView:
    """Return the view for proposing actions at the leaf, as if the agent had taken the imagined actions up to it."""
    view, path = lookahead_view(state), _leaf_path(state)
    by_path = index_of(state["tree"]).nodes
    nodes = [node for length in range(1, len(path) + 1) if (node := by_path.get(path[:length]))]
    if not nodes:
        return view
    turns = (*view["turns"], *turns_of([node.foreseen for node in nodes]))
    return {**view, "path": path, "turns": turns, "evidence": Evidence(view=nodes[-1].foreseen.observation)}


def leaf_appraise_view(state: TreeState) -> AppraiseView:
    """Return the view for rating the outcomes of actions at the leaf: the outcomes, and the leaf's state and reward."""
    view, node = appraise_view(state), node_at(state["tree"], _leaf_path(state))
    if node is None:
        return view
    actions = (*view["actions"], *node.path)
    return {**view, "actions": actions, "factored": node.factored, "goal": node.goal, "reward": node.reward}


def _leaf_path(state: TreeState) -> ActionPath:
    return tuple(state["leaf"])  # checkpoints restore tuples as lists


def _clear_tree(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    reset = lookahead.RESET.record(state, update, runtime)
    return {**reset, **_tree_update([], [])}


def _tree_update(tree: Sequence[SearchNode], simulations: Sequence[Simulation]) -> Update:
    empty = {"leaf": (), "searched": 0, "searching": True, "imagined": ()}
    return {**empty, "tree": Overwrite([*tree]), "simulations": Overwrite([*simulations])}


def _skip_at_end(state: TreeState, runtime: Runtime[Context]) -> Update | None:
    node = node_at(state["tree"], _leaf_path(state))
    ended = node is not None and (node.foreseen.done or len(node.path) >= MAX_DEPTH)
    return {"candidates": ()} if ended else None


def _appraisals_to_nodes(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    nodes = tuple(
        SearchNode(
            path=(*_leaf_path(state), one.foreseen.action),
            foreseen=one.foreseen,
            reward=one.appraisal.reward,
            factored=one.factored,
            goal=one.goal,
        )
        for one in update["appraisals"]
    )
    return {"imagined": nodes, "appraisals": tuple(one.appraisal for one in update["appraisals"])}


def _count_simulation(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "searched": state["searched"] + 1, "imagined": ()}


def _prune_tree(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    """Keep the part of the tree below the action that was taken, or nothing if the world did not answer as imagined."""
    action, imagined = state["action"].text, node_at(state["tree"], (state["action"].text,))
    as_imagined = imagined is not None and imagined.foreseen.observation == update["observation"].text
    tree, simulations = subtree_of(state["tree"], state["simulations"], action) if as_imagined else ([], [])
    expected = lookahead.keep_states(state, state["factored"], [imagined] if imagined else [])
    return {**lookahead.ACT.record(state, update, runtime), **_tree_update(tree, simulations), **expected}


RESET = lookahead.RESET._replace(record=_clear_tree)
SELECT = Slot("select", {"leaf": ActionPath}, tree_view)
PROPOSE = lookahead.PROPOSE._replace(view=leaf_lookahead_view, skip=_skip_at_end)
IMAGINE = lookahead.IMAGINE._replace(view=leaf_lookahead_view)
APPRAISE = lookahead.APPRAISE._replace(view=leaf_appraise_view, record=_appraisals_to_nodes)
BACKPROPAGATE = Slot(
    "backpropagate",
    {"tree": Sequence[SearchNode], "simulations": Sequence[Simulation], "searching": bool},
    tree_view,
    _count_simulation,
)
CHOOSE = Slot("choose", {"action": Action, "thought": str}, tree_view)
ACT = lookahead.ACT._replace(record=_prune_tree)


# The operators of MCTS on its tree: select a leaf, back up the value of its outcomes, choose an action.

EXPLORATION = 0.3
"""Default exploration constant of UCT, chosen for rewards that differ by a few tenths between neighbouring states."""

SIMULATIONS = 10
"""Default number of leaves that are expanded before an action is chosen."""


@factory
def select(*, c: float = EXPLORATION, seed: int = 0) -> Operator:
    """Descend the search tree by UCT to the node that is expanded next.

    Args:
        c: weight of exploration (nodes with few visits) against exploitation (nodes of high value).
        seed: seed of the random choice between nodes that UCT ranks equally.
    """

    async def select(state: TreeView, runtime: Runtime[Context]) -> dict[str, Any]:
        random = Random(f"{seed}:{len(state['visited'])}:{state['searched']}")
        return {"leaf": select_leaf(state["tree"], visits_of(state["simulations"]), c, random)}

    return select


@factory
def backpropagate(*, simulations: int = SIMULATIONS) -> Operator:
    """Add the imagined outcomes below the leaf, and back up their values to every node above (a rollout of one step).

    An outcome is not added if its state already occurs in the episode or in the tree. A leaf without new states backs
    up 0, so that the search goes elsewhere. A leaf at which the world has ended backs up its own value again.

    Args:
        simulations: maximum number of expansions before an action is chosen; the search ends earlier if it finds a path
            to the goal.
    """

    async def backpropagate(state: TreeView, runtime: Runtime[Context]) -> dict[str, Any]:
        new = _new_nodes(state)
        passes = [Simulation(path=node.path, value=node.value) for node in new] or [_repeat_leaf(state)]
        spent = state["searched"] + 1 >= simulations
        searching = not spent and shortest_solution(new) is None
        return {"tree": new, "simulations": passes, "searching": searching}

    return backpropagate


async def most_visited(state: TreeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Take the first action of the path to the goal if the search found one, else the action with the most visits.

    Raises:
        Fault: ("operator") the tree is empty.
    """
    tree, counts = state["tree"], visits_of(state["simulations"])
    if path := shortest_solution(tree):
        return {"thought": f"the goal is {len(path)} actions away", "action": Action(text=path[0])}
    if not (first := children_of(tree, ())):
        raise Fault("operator", "no outcome was imagined, so no action can be chosen: let `propose` return an action")
    best = max(first, key=lambda node: (counts.visits[node.path], counts.mean(node.path))).path
    thought = f"{counts.visits[best]} of {counts.visits[()]} simulations, worth {counts.mean(best):.2f} on average"
    return {"thought": thought, "action": Action(text=best[0])}


def _new_nodes(state: TreeView) -> list[SearchNode]:
    known, in_tree = {*state["visited"]}, index_of(state["tree"]).digests
    new = []
    for node in state["imagined"]:
        shown = digest_of(node.factored)
        if node.foreseen.solved or (shown not in known and shown not in in_tree):
            new.append(node)
            known.add("" if node.foreseen.solved else shown)
    # At the root known states are kept if there are no new ones, because an action has to be taken.

    return new if new or state["leaf"] else list(state["imagined"])


def _repeat_leaf(state: TreeView) -> Simulation:
    node = node_at(state["tree"], state["leaf"])
    ended = node is not None and node.foreseen.done
    return Simulation(path=state["leaf"], value=node.value if node and ended else 0.0)
