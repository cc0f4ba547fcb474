"""ReAct with StateFactory's rewards: look one step ahead, then act (Shen et al., arXiv 2603.09400, appendix C.6.2).

Before each action the agent proposes several, imagines the outcome of each, rates the outcomes with StateFactory, and
chooses, given the gain of each. The default world model is a copy of the simulator, which is privileged information;
with `imagine=predicted` the model predicts the outcomes instead.
"""

from collections.abc import Mapping
from typing import TypedDict, Unpack, cast

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import add_gate, add_path, assemble
from certigraph.graphs.react import after_act
from certigraph.nodes import lookahead as slots
from certigraph.nodes.beliefs import GATE
from certigraph.nodes.factored_states import extract_state, interpret_goal
from certigraph.nodes.lookahead import appraise, choose_by_reward, propose_actions, rehearsed
from certigraph.nodes.rewards import route
from certigraph.nodes.world import act, reset
from certigraph.state.rewards import LookaheadState as State
from certigraph.state.run import RunInput
from certigraph.state.run import turns_message as message
from certigraph.state.search import search_ending as ending

__all__ = ["State", "build", "ending", "graph", "message"]

RewardedGraph = CompiledStateGraph[State, Context, RunInput, State]

RATING_SLOTS = (
    slots.EXTRACT.filled(extract_state),
    slots.INTERPRET.filled(interpret_goal),
    slots.ROUTE.filled(route()),
)
"""The slots of StateFactory, which compute the reward of the present state."""

SLOTS = (
    slots.RESET.filled(reset),
    *RATING_SLOTS,
    slots.PROPOSE.filled(propose_actions()),
    slots.IMAGINE.filled(rehearsed),
    slots.APPRAISE,
    slots.CHOOSE.filled(choose_by_reward),
    slots.ACT.filled(act),
    GATE,
)
"""The slots of the graph. The default of `appraise` is set by `build`: it uses the operators of `RATING_SLOTS`."""


class RewardedOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    reset: Operator
    extract: Operator
    interpret: Operator
    route: Operator
    propose: Operator
    imagine: Operator
    appraise: Operator
    choose: Operator
    act: Operator
    gate: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[RewardedOperators]) -> RewardedGraph:
    """Build the graph of ReAct with rewards, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(imagine=predicted, choose=greedy)`. The operators of
            `extract`, `interpret` and `route` also rate the imagined outcomes.

    Raises:
        TypeError: a keyword names no slot.
    """
    builder = assemble("react_reward", State, RunInput, SLOTS, {"appraise": appraise_like(operators), **operators})
    builder.add_edge(START, "reset")
    add_path(builder, *(slot.name for slot in SLOTS if slot.name != "gate"))
    builder.add_conditional_edges("act", after_act, {"continue": add_gate(builder, "extract"), "over": END})
    return builder.compile(checkpointer=checkpointer, name="react_reward")


def appraise_like(operators: Mapping[str, object]) -> Operator:
    """Create the operator of `appraise`, which rates predicted outcomes as the graph rates the present state.

    A graph with the default operators has the model describe all outcomes in one request.

    Args:
        operators: operators by slot that replace the defaults; only those of `RATING_SLOTS` are used.
    """
    rating = {slot.name: cast(Operator, operators.get(slot.name, slot.default)) for slot in RATING_SLOTS}
    return appraise(**rating, together=not {"extract", "interpret"} & operators.keys())


graph = build()
