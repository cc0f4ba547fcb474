"""ReAct: think, act, observe, until the world ends the episode (Yao et al., arXiv 2210.03629).

The baseline of SDP, TDP, STEP and CGDP. An agent that goes round in circles is stopped: see `Limits.repeats`. Given a
memory or a gate, it is the loop of CGDP's search harnesses.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import assemble
from certigraph.graphs.pbai import search_loop
from certigraph.nodes import react as slots
from certigraph.nodes.react import REACT, decide
from certigraph.nodes.world import act, reset
from certigraph.state.run import ActingState as State
from certigraph.state.run import RunInput
from certigraph.state.search import ending

__all__ = ["State", "build", "ending", "graph"]

ReactGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET, slots.DECIDE, slots.ACT)


def after_act(state: State, runtime: Runtime[Context]) -> str:
    """`over` when the episode is finished, else `continue`: without steps the next node ends the run `limit:steps`."""
    return "over" if slots.finished(state, runtime) else "continue"


class Operators(TypedDict, total=False):
    """The keywords of `build`; those from `gate` on make it a search harness."""

    reset: Operator
    decide: Operator
    act: Operator
    gate: Operator
    memory: Operator | str
    answer: Operator
    deliver: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> ReactGraph:
    """ReAct's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot; with `memory="freeform"` or `gate=...` the graph
            is a search harness, which gives a final answer when its rounds are used up.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: no memory condition of that name.
    """
    defaults = Operators(reset=reset, decide=decide, act=act)
    if {"gate", "memory", "answer", "deliver"} & set(operators):
        return search_loop("react", decide, operators, rounds=REACT.rounds, checkpointer=checkpointer)
    builder = assemble(State, RunInput, SLOTS, defaults, operators)
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "decide")
    builder.add_edge("decide", "act")
    builder.add_conditional_edges("act", after_act, {"continue": "decide", "over": END})
    return builder.compile(checkpointer=checkpointer, name="react")


graph = build()
