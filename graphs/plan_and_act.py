"""Plan-and-Act: plan the complete task, and replan after every action (Erdogan et al., arXiv 2503.09572).

It is TDP's baseline (section 4.1) and uses TDP's operators. Planner and Executor see the complete task and all actions.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import UNEXTENDED, Assembly, Schemas, add_gate, add_path, assemble
from certigraph.graphs.react import after_act
from certigraph.nodes import plans as slots
from certigraph.nodes import react
from certigraph.nodes.approval import APPROVE
from certigraph.nodes.beliefs import GATE
from certigraph.nodes.call_checks import CHECK
from certigraph.nodes.commitments import COMMIT
from certigraph.nodes.plans import plan, replan
from certigraph.nodes.react import decide
from certigraph.nodes.world import act, reset
from certigraph.state.run import RunInput
from certigraph.state.run import turns_message as message
from certigraph.state.search import search_ending as ending
from certigraph.state.subtask import (
    SubtaskState as State,
)

__all__ = ["State", "build", "builder", "ending", "graph", "message"]

PlanAndActGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET.filled(reset),
    COMMIT,
    slots.PLAN.filled(plan),
    slots.EXECUTE_REPLANNED.filled(decide()),
    CHECK,
    APPROVE,
    react.ACT.filled(act),
    GATE,
    slots.REPLAN.filled(replan),
)


class PlanAndActOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    reset: Operator
    commit: Operator
    plan: Operator
    execute: Operator
    check: Operator
    approve: Operator
    act: Operator
    gate: Operator
    replan: Operator


def builder(schemas: Schemas = UNEXTENDED, **operators: Unpack[PlanAndActOperators]) -> Assembly:
    """Return the graph before it is compiled, so that it can be extended: `builder().insert(...)`.

    Args:
        schemas: schemas with which the graph is extended.
        **operators: operators by slot, as in `build`.

    Raises:
        TypeError: a keyword names no slot.
    """
    graph = assemble("plan_and_act", State, RunInput, SLOTS, operators, schemas)
    graph.add_edge(START, "reset")
    add_path(graph, "reset", "commit", "plan", "execute", "check", "approve", "act")
    graph.add_conditional_edges("act", after_act, {"continue": add_gate(graph, "replan"), "over": END})
    graph.add_edge("replan", "execute")
    return graph


def build(checkpointer: Checkpointer = None, **operators: Unpack[PlanAndActOperators]) -> PlanAndActGraph:
    """Build Plan-and-Act's graph, with your own operator in every slot that a keyword names.

    Raises:
        TypeError: a keyword names no slot.
    """
    return builder(**operators).compile(checkpointer=checkpointer, name="plan_and_act")


graph = build()
