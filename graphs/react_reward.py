"""ReAct with StateFactory's rewards: look one step ahead, then act (Shen et al., arXiv 2603.09400, appendix C.6.2).

Before each action the agent proposes some, imagines what each leads to, has StateFactory rate the outcomes, and
chooses knowing what each would gain. Its world model is by default a copy of the simulator, which is privileged
information: `imagine=predicted` has the model foresee outcomes itself.
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
from certigraph.state.rewards import AppraisingState as State
from certigraph.state.run import RunInput
from certigraph.state.search import ending

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
    """The keywords of `build`."""

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
    """The graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot: `build(imagine=predicted, choose=greedy)`. Those of
            `extract`, `interpret` and `route` rate the imagined outcomes too.

    Raises:
        TypeError: a keyword names no slot.
    """
    rating = rating_of(operators)
    defaults = {
        "reset": reset,
        **rating,
        "propose": propose_actions(),
        "imagine": rehearsed,
        "appraise": appraise(**rating),
        "choose": choose_by_reward,
        "act": act,
    }
    builder = assemble(State, RunInput, SLOTS, defaults, operators)
    builder.add_edge(START, "reset")
    add_path(builder, *(slot.name for slot in SLOTS))
    builder.add_conditional_edges("act", after_act, {"continue": "extract", "over": END})
    return builder.compile(checkpointer=checkpointer, name="react_reward")


def rating_of(operators: Mapping[str, object]) -> dict[str, Operator]:
    """The operators that rate: StateFactory's, unless others are given by their slots."""
    usual = {"extract": extract_state, "interpret": interpret_goal, "route": route()}
    return {slot: cast(Operator, operators.get(slot, operator)) for slot, operator in usual.items()}


graph = build()
