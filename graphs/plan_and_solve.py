"""Plan-and-solve: write a complete plan, then act on it without replanning (Wang et al., arXiv 2305.04091)."""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import add_gate, assemble
from certigraph.graphs.react import after_act
from certigraph.nodes import react as slots
from certigraph.nodes.beliefs import GATE
from certigraph.nodes.plans import outline
from certigraph.nodes.react import decide
from certigraph.nodes.world import act, reset
from certigraph.state.run import OutlineState as State
from certigraph.state.run import RunInput
from certigraph.state.run import turns_message as message
from certigraph.state.search import search_ending as ending

__all__ = ["State", "build", "ending", "graph", "message"]

PlanAndSolveGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET.filled(reset),
    slots.OUTLINE.filled(outline),
    slots.DECIDE_OUTLINED.filled(decide()),
    slots.ACT.filled(act),
    GATE,
)


class PlanAndSolveOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    reset: Operator
    outline: Operator
    decide: Operator
    act: Operator
    gate: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[PlanAndSolveOperators]) -> PlanAndSolveGraph:
    """Build plan-and-solve's graph, with your own operator in every slot that a keyword names.

    Raises:
        TypeError: a keyword names no slot.
    """
    builder = assemble("plan_and_solve", State, RunInput, SLOTS, operators)
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "outline")
    builder.add_edge("outline", "decide")
    builder.add_edge("decide", "act")
    builder.add_conditional_edges("act", after_act, {"continue": add_gate(builder, "decide"), "over": END})
    return builder.compile(checkpointer=checkpointer, name="plan_and_solve")


graph = build()
