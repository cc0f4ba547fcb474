"""ReAct: think, act, observe, until the world ends the episode (Yao et al., arXiv 2210.03629).

It is the baseline of SDP, TDP, STEP and CGDP. An agent that repeats the same action is stopped: see `Limits.repeats`.
With a memory or a gate it is the loop of CGDP's search agents. With the optional node `audit` an answer is judged
before it is handed in, and what is missing is sent back.
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
from certigraph.nodes.answer_audits import AUDIT, has_returns_left
from certigraph.nodes.approval import APPROVE
from certigraph.nodes.beliefs import SEARCH_SLOTS
from certigraph.nodes.call_checks import CHECK
from certigraph.nodes.commitments import COMMIT
from certigraph.nodes.react import REACT_DEFAULTS, decide
from certigraph.nodes.world import act, reset
from certigraph.state.run import FINISH, RunInput, audited_ending
from certigraph.state.run import ReActState as State
from certigraph.state.run import turns_message as message
from certigraph.state.search import search_ending

__all__ = ["State", "build", "builder", "ending", "graph", "message"]

ReactGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET.filled(reset), COMMIT, slots.DECIDE.filled(decide()), CHECK, APPROVE, AUDIT, slots.ACT.filled(act))


def after_decide(state: State, runtime: Runtime[Context]) -> str:
    """Return `answered` if the agent wants to end its work with an answer, else `acting`."""
    return "answered" if state["action"].kind == FINISH else "acting"


def after_audit(state: State, runtime: Runtime[Context]) -> str:
    """Return `confirmed`, `sent_back` (the agent goes on), or `denied` if it was sent back often enough."""
    if state["audits"][-1].confirmed:
        return "confirmed"
    return "sent_back" if has_returns_left(state) else "denied"


def after_act(state: State, runtime: Runtime[Context]) -> str:
    """Return `over` if the episode is finished, else `continue`.

    If no steps are left, it is `continue` too: the next node then ends the run with `limit:steps`.
    """
    return "over" if slots.is_finished(state, runtime) else "continue"


def ending(state: State) -> str:
    """Return the ending of a run whose graph reached its end; an audit of the answer decides where there is one."""
    return audited_ending(state) or search_ending(state)


class ReactOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot. With `gate` or any keyword after it, the graph is a search agent."""

    reset: Operator
    commit: Operator
    decide: Operator
    check: Operator
    approve: Operator
    audit: Operator
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
    if not SEARCH_SLOTS.isdisjoint(operators):
        return search_loop_builder("react", decide(), operators, rounds=REACT_DEFAULTS.rounds, schemas=schemas)
    graph = assemble("react", State, RunInput, SLOTS, operators, schemas)
    graph.add_edge(START, "reset")
    add_path(graph, "reset", "commit", "decide")
    first, *_ = add_path(graph, "check", "approve", "act")
    if "audit" in graph.nodes:
        graph.add_conditional_edges("decide", after_decide, {"acting": first, "answered": "audit"})
        graph.add_conditional_edges("audit", after_audit, {"confirmed": "act", "sent_back": "decide", "denied": "act"})
    else:
        graph.add_edge("decide", first)
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
