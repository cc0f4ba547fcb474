"""CoT: write a plan once and carry it out without replanning (TDP paper, section 4.1).

It is TDP's baseline and uses TDP's operators. The plan is for the complete task, and every action is decided with all
earlier actions in the prompt.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import add_gate, add_path, assemble
from certigraph.graphs.react import after_act
from certigraph.nodes import plans as slots
from certigraph.nodes import react
from certigraph.nodes.beliefs import GATE
from certigraph.nodes.plans import plan
from certigraph.nodes.react import decide
from certigraph.nodes.world import act, reset
from certigraph.state.run import RunInput
from certigraph.state.run import turns_message as message
from certigraph.state.search import search_ending as ending
from certigraph.state.subtask import (
    SubtaskState as State,
)

__all__ = ["State", "build", "ending", "graph", "message"]

CotGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET.filled(reset),
    slots.PLAN.filled(plan),
    slots.EXECUTE.filled(decide()),
    react.ACT.filled(act),
    GATE,
)


class CotOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    reset: Operator
    plan: Operator
    execute: Operator
    act: Operator
    gate: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[CotOperators]) -> CotGraph:
    """Build CoT's graph, with your own operator in every slot that a keyword names.

    Raises:
        TypeError: a keyword names no slot.
    """
    builder = assemble("cot", State, RunInput, SLOTS, operators)
    builder.add_edge(START, "reset")
    add_path(builder, "reset", "plan", "execute", "act")
    builder.add_conditional_edges("act", after_act, {"continue": add_gate(builder, "execute"), "over": END})
    return builder.compile(checkpointer=checkpointer, name="cot")


graph = build()
