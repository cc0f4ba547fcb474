"""ReAct: think, act, observe, until the world ends the episode (Yao et al., arXiv 2210.03629).

The baseline of SDP, TDP and STEP. An agent that goes round in circles is stopped: see `Limits.repeats`.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.graphs.assembly import assemble
from certigraph.nodes import acting_slots as slots
from certigraph.nodes.act import act, reset
from certigraph.nodes.decide import decide
from certigraph.state.acting import ActingState as State
from certigraph.state.run import RunInput
from certigraph.state.run import world_ending as ending

__all__ = ["State", "build", "ending", "graph"]

ReactGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET, slots.DECIDE, slots.ACT)


def after_act(state: State, runtime: Runtime[Context]) -> str:
    """`over` when the episode is, else `continue`."""
    return "over" if slots.over(state, runtime) else "continue"


class Operators(TypedDict, total=False):
    """The keywords of `build`."""

    reset: Operator
    decide: Operator
    act: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> ReactGraph:
    """ReAct's graph, with operators of your own where a keyword names a slot.

    Raises:
        TypeError: a keyword names no slot.
    """
    defaults = Operators(reset=reset, decide=decide, act=act)
    builder = assemble(State, RunInput, SLOTS, defaults, operators)
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "decide")
    builder.add_edge("decide", "act")
    builder.add_conditional_edges("act", after_act, {"continue": "decide", "over": END})
    return builder.compile(checkpointer=checkpointer, name="react")


graph = build()
