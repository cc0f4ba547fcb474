"""The slots of MCTS, and the bookkeeping around its operators' answers."""

from collections.abc import Sequence

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.context import Context
from certigraph.nodes import appraising_slots
from certigraph.nodes.slots import Slot, Update
from certigraph.state.appraising import AppraiseView, LookaheadView, appraise_view, lookahead_view, turns_of
from certigraph.state.records import Action
from certigraph.state.run import Evidence
from certigraph.state.tree import Node, Path, Simulation, TreeState, TreeView, below, found

DEPTH = 12
"""Imagined actions in a row; further ahead no world model is trusted."""


def tree_view(state: TreeState) -> TreeView:
    """What the operators on the tree see."""
    return {
        "task": state["task"],
        "tree": state["tree"],
        "simulations": state["simulations"],
        "leaf": _leaf(state),
        "searched": state["searched"],
        "visited": state["visited"],
        "imagined": state["imagined"],
    }


def leaf_lookahead(state: TreeState) -> LookaheadView:
    """Candidates and outcomes from the leaf, told as if the agent were there."""
    view, path = lookahead_view(state), _leaf(state)
    way = [node for length in range(1, len(path) + 1) if (node := found(state["tree"], path[:length]))]
    if not way:
        return view
    turns = (*view["turns"], *turns_of([node.foreseen for node in way]))
    return {**view, "path": path, "turns": turns, "evidence": Evidence(view=way[-1].foreseen.observation)}


def leaf_appraisal(state: TreeState) -> AppraiseView:
    """The outcomes from the leaf, and the state there."""
    view, node = appraise_view(state), found(state["tree"], _leaf(state))
    if node is None:
        return view
    return {**view, "factored": node.factored, "goal": node.goal, "reward": node.reward}


def _leaf(state: TreeState) -> Path:
    return tuple(state["leaf"])  # a checkpoint gives lists back


def _no_tree(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    begun = appraising_slots.RESET.record(state, update, runtime)
    return {**begun, **_pruned([], [])}


def _pruned(tree: Sequence[Node], simulations: Sequence[Simulation]) -> Update:
    none_yet = {"leaf": (), "searched": 0, "searching": True, "imagined": ()}
    return {**none_yet, "tree": Overwrite([*tree]), "simulations": Overwrite([*simulations])}


def _nowhere_further(state: TreeState, runtime: Runtime[Context]) -> Update | None:
    node = found(state["tree"], _leaf(state))
    ended = node is not None and (node.foreseen.done or len(node.path) >= DEPTH)
    return {"candidates": ()} if ended else None


def _as_nodes(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    nodes = tuple(
        Node(
            path=(*_leaf(state), one.foreseen.action),
            foreseen=one.foreseen,
            reward=one.appraisal.reward,
            factored=one.factored,
            goal=one.goal,
        )
        for one in update["appraisals"]
    )
    return {"imagined": nodes, "appraisals": tuple(one.appraisal for one in update["appraisals"])}


def _counted(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "searched": state["searched"] + 1, "imagined": ()}


def _acted(state: TreeState, update: Update, runtime: Runtime[Context]) -> Update:
    """What was searched under the action is kept where the world answered as imagined."""
    action, imagined = state["action"].text, found(state["tree"], (state["action"].text,))
    right = imagined is not None and imagined.foreseen.observation == update["observation"].text
    tree, simulations = below(state["tree"], state["simulations"], action) if right else ([], [])
    return {**appraising_slots.ACT.record(state, update, runtime), **_pruned(tree, simulations)}


RESET = appraising_slots.RESET._replace(record=_no_tree)
SELECT = Slot("select", frozenset({"leaf"}), tree_view)
PROPOSE = appraising_slots.PROPOSE._replace(view=leaf_lookahead, skip=_nowhere_further)
IMAGINE = appraising_slots.IMAGINE._replace(view=leaf_lookahead)
APPRAISE = appraising_slots.APPRAISE._replace(view=leaf_appraisal, record=_as_nodes)
BACKPROPAGATE = Slot("backpropagate", frozenset({"tree", "simulations", "searching"}), tree_view, _counted)
CHOOSE = Slot("choose", frozenset({"action", "thought"}), tree_view, types={"action": Action})
ACT = appraising_slots.ACT._replace(record=_acted)
