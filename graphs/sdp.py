"""SDP, the state-centric decision process (SDP paper, section 3.2, Algorithm 1).

Propose a chain of predicates; Realize an action for the head; act; Validate how many predicates at the head now
hold; certify them and advance, or retry, or Replan the tail once the tries at this target are used up.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.graphs.assembly import assemble
from certigraph.nodes import sdp_slots as slots
from certigraph.nodes.act import act, reset
from certigraph.nodes.certify import certify
from certigraph.nodes.propose import propose
from certigraph.nodes.realize import realize
from certigraph.nodes.replan import replan
from certigraph.nodes.validate import validate
from certigraph.state.run import RunInput
from certigraph.state.sdp import SDPState as State
from certigraph.state.sdp import ending

__all__ = ["State", "build", "ending", "graph"]

SDPGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET, slots.PROPOSE, slots.REALIZE, slots.ACT, slots.VALIDATE, slots.CERTIFY, slots.REPLAN)


def after_planning(state: State) -> str:
    """`planned` when there is a target with all its tries left, else `gave_up`."""
    return "planned" if state["head"] < len(state["plan"]) and not state["tried"] else "gave_up"


def after_validate(state: State, runtime: Runtime[Context]) -> str:
    """`certified`, `retry` the target, `stuck` (tries used up) or `exhausted` (no try can help any more)."""
    refused_for_good = state["observation"].done and not state["observation"].accepted
    if state["verdict"].depth > 0 and not refused_for_good:
        return "certified"
    if state["verdict"].exhausted or state["observation"].done:
        return "exhausted"
    return "retry" if state["tried"] < limits_of(state["task"], runtime).attempts else "stuck"


def after_certify(state: State) -> str:
    """`goal` when the last predicate of the plan is certified, else `advance`."""
    return "goal" if state["head"] >= len(state["plan"]) else "advance"


class Operators(TypedDict, total=False):
    """The keywords of `build`."""

    reset: Operator
    propose: Operator
    realize: Operator
    act: Operator
    validate: Operator
    certify: Operator
    replan: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> SDPGraph:
    """SDP's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot: `build(validate=always_pass)`.

    Raises:
        TypeError: a keyword names no slot.
    """
    defaults = Operators(
        reset=reset,
        propose=propose,
        realize=realize,
        act=act,
        validate=validate,
        certify=certify,
        replan=replan,
    )
    builder = assemble(State, RunInput, SLOTS, defaults, operators)
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "propose")
    builder.add_conditional_edges("propose", after_planning, {"planned": "realize", "gave_up": END})
    builder.add_edge("realize", "act")
    builder.add_edge("act", "validate")
    builder.add_conditional_edges(
        "validate",
        after_validate,
        {"certified": "certify", "retry": "realize", "stuck": "replan", "exhausted": END},
    )
    builder.add_conditional_edges("certify", after_certify, {"advance": "realize", "goal": END})
    builder.add_conditional_edges("replan", after_planning, {"planned": "realize", "gave_up": END})
    return builder.compile(checkpointer=checkpointer, name="sdp")


graph = build()
