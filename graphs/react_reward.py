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
from certigraph.graphs.assembly import add_path, assemble
from certigraph.graphs.react import after_act
from certigraph.nodes import lookahead as slots
from certigraph.nodes.factored_states import extract_state, interpret_goal
from certigraph.nodes.lookahead import appraise, choose_by_reward, propose_actions, rehearsed
from certigraph.nodes.rewards import route
from certigraph.nodes.world import act, reset
from certigraph.state.rewards import LookaheadState as State
from certigraph.state.run import RunInput
from certigraph.state.search import search_ending as ending

__all__ = ["State", "build", "ending", "graph"]

RewardedGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET,
    slots.EXTRACT,
    slots.INTERPRET,
    slots.ROUTE,
    slots.PROPOSE,
    slots.IMAGINE,
    slots.APPRAISE,
    slots.CHOOSE,
    slots.ACT,
)


class Operators(TypedDict, total=False):
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


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> RewardedGraph:
    """Build the graph of ReAct with rewards, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(imagine=predicted, choose=greedy)`. The operators of
            `extract`, `interpret` and `route` also rate the imagined outcomes.

    Raises:
        TypeError: a keyword names no slot.
    """
    rating_operators = rating_operators_of(operators)
    defaults = {
        "reset": reset,
        **rating_operators,
        "propose": propose_actions(),
        "imagine": rehearsed,
        "appraise": appraise(**rating_operators),
        "choose": choose_by_reward,
        "act": act,
    }
    builder = assemble(State, RunInput, SLOTS, defaults, operators)
    builder.add_edge(START, "reset")
    add_path(builder, *(slot.name for slot in SLOTS))
    builder.add_conditional_edges("act", after_act, {"continue": "extract", "over": END})
    return builder.compile(checkpointer=checkpointer, name="react_reward")


def rating_operators_of(operators: Mapping[str, object]) -> dict[str, Operator]:
    """Return the operators that rate outcomes, by slot: StateFactory's, unless `operators` replaces them."""
    defaults = {"extract": extract_state, "interpret": interpret_goal, "route": route()}
    return {slot: cast(Operator, operators.get(slot, operator)) for slot, operator in defaults.items()}


graph = build()
