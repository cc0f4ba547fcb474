"""Monte Carlo Tree Search over a world model, with StateFactory's reward as its value (appendix C.6.3).

Before each action, repeat: select a leaf of the tree by UCT, expand it (propose and imagine actions), rate the outcomes
with a rollout of one step, and back the values up. Then take the most visited action and keep the tree below it. The
default world model is a copy of the simulator, which is privileged information, as in `react_reward`.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import add_gate, add_path, assemble
from certigraph.graphs.react import after_act
from certigraph.graphs.react_reward import RATING_SLOTS, appraise_like
from certigraph.nodes import mcts as slots
from certigraph.nodes.beliefs import GATE
from certigraph.nodes.lookahead import propose_actions, rehearsed
from certigraph.nodes.mcts import backpropagate, most_visited, select
from certigraph.nodes.world import act, reset
from certigraph.state.run import RunInput
from certigraph.state.run import turns_message as message
from certigraph.state.search import search_ending as ending
from certigraph.state.search_tree import TreeState as State
from certigraph.state.search_tree import shortest_solution

__all__ = ["State", "build", "ending", "graph", "message"]

TreeGraph = CompiledStateGraph[State, Context, RunInput, State]

SEARCH_SLOTS = (
    slots.SELECT.filled(select()),
    slots.PROPOSE.filled(propose_actions()),
    slots.IMAGINE.filled(rehearsed),
    slots.APPRAISE,
    slots.BACKPROPAGATE.filled(backpropagate()),
)
"""The slots of one simulation. The default of `appraise` is set by `build`: it uses `extract`, `interpret` and `route`.
"""

SLOTS = (
    slots.RESET.filled(reset),
    *RATING_SLOTS,
    *SEARCH_SLOTS,
    slots.CHOOSE.filled(most_visited),
    slots.ACT.filled(act),
    GATE,
)


def after_route(state: State, runtime: Runtime[Context]) -> str:
    """Return `known` if the search tree already has a path to the goal, else `search`."""
    return "known" if shortest_solution(state["tree"]) else "search"


def after_backup(state: State, runtime: Runtime[Context]) -> str:
    """Return `again` while simulations are left and no path to the goal is found, else `decide`."""
    return "again" if state["searching"] else "decide"


class TreeOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    reset: Operator
    extract: Operator
    interpret: Operator
    route: Operator
    select: Operator
    propose: Operator
    imagine: Operator
    appraise: Operator
    backpropagate: Operator
    choose: Operator
    act: Operator
    gate: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[TreeOperators]) -> TreeGraph:
    """Build the graph of the tree search, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(propose=listed)`. The operators of `extract`, `interpret`
            and `route` also rate the imagined outcomes.

    Raises:
        TypeError: a keyword names no slot.
    """
    builder = assemble("mcts", State, RunInput, SLOTS, {"appraise": appraise_like(operators), **operators})
    builder.add_edge(START, "reset")
    add_path(builder, "reset", *(slot.name for slot in RATING_SLOTS))
    builder.add_conditional_edges("route", after_route, {"search": "select", "known": "choose"})
    add_path(builder, *(slot.name for slot in SEARCH_SLOTS))
    builder.add_conditional_edges("backpropagate", after_backup, {"again": "select", "decide": "choose"})
    builder.add_edge("choose", "act")
    builder.add_conditional_edges("act", after_act, {"continue": add_gate(builder, "extract"), "over": END})
    return builder.compile(checkpointer=checkpointer, name="mcts")


graph = build()
