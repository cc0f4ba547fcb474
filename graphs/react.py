"""ReAct: think, act, observe, until the world ends the episode (Yao et al., arXiv 2210.03629).

It is the baseline of SDP, TDP, STEP and CGDP. An agent that repeats the same action is stopped: see `Limits.repeats`.
With a memory or a gate it is the loop of CGDP's search agents.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import UNEXTENDED, Assembly, Schemas, add_path, assemble, check_slots
from certigraph.graphs.pbai import search_loop_builder
from certigraph.nodes import react as slots
from certigraph.nodes.approval import APPROVE
from certigraph.nodes.call_checks import CHECK
from certigraph.nodes.commitments import COMMIT
from certigraph.nodes.react import REACT_DEFAULTS, decide
from certigraph.nodes.world import act, reset
from certigraph.state.run import ReActState as State
from certigraph.state.run import RunInput
from certigraph.state.run import turns_message as message
from certigraph.state.search import search_ending as ending

__all__ = ["State", "build", "builder", "ending", "graph", "message"]

ReactGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET.filled(reset), COMMIT, slots.DECIDE.filled(decide), CHECK, APPROVE, slots.ACT.filled(act))


def after_act(state: State, runtime: Runtime[Context]) -> str:
    """Return `over` if the episode is finished, else `continue`.

    If no steps are left, it is `continue` too: the next node then ends the run with `limit:steps`.
    """
    return "over" if slots.is_finished(state, runtime) else "continue"


class ReactOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot. With `gate` or any keyword after it, the graph is a search agent."""

    reset: Operator
    commit: Operator
    decide: Operator
    check: Operator
    approve: Operator
    act: Operator
    gate: Operator
    memory: Operator | str
    answer: Operator
    deliver: Operator


def builder(schemas: Schemas = UNEXTENDED, **operators: Unpack[ReactOperators]) -> Assembly:
    """Return the graph before it is compiled, so that it can be extended: `builder().insert(...)`.

    Args:
        schemas: schemas with which the graph is extended.
        **operators: operators by slot, as in `build`.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    check_slots(operators, [*ReactOperators.__annotations__])
    if {"gate", "memory", "answer", "deliver"} & set(operators):
        return search_loop_builder("react", decide, operators, rounds=REACT_DEFAULTS.rounds, schemas=schemas)
    graph = assemble("react", State, RunInput, SLOTS, operators, schemas)
    graph.add_edge(START, "reset")
    add_path(graph, "reset", "commit", "decide", "check", "approve", "act")
    graph.add_conditional_edges("act", after_act, {"continue": "decide", "over": END})
    return graph


def build(checkpointer: Checkpointer = None, **operators: Unpack[ReactOperators]) -> ReactGraph:
    """Build ReAct's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot. With `memory="freeform"` or `gate=...` the graph is a search agent, which
            gives a final answer when its rounds are used up.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    return builder(**operators).compile(checkpointer=checkpointer, name="react")


graph = build()
